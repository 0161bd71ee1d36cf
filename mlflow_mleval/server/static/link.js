// A link from MLflow's own pages to /mleval/: in the side bar, and above the runs of an experiment, with what is chosen there. MLflow
// has no place for links of others. Where this version has neither of the two, a small button stands in the corner.
"use strict";

(() => {
  const page = new URL("../mleval/", document.currentScript.src);  // beside this script, under the server's prefix
  const EDGE = "position:fixed;right:16px;bottom:16px;z-index:10;padding:4px 12px;border-radius:4px;background:#0b5cad;color:#fff;font:13px sans-serif";
  const NEAR = "margin-left:8px;padding:0 12px;line-height:30px;white-space:nowrap";

  // The experiments that the address names, and the runs that are ticked.
  function chosen() {
    const [path, query = ""] = location.hash.slice(1).split("?"), one = /^\/experiments\/(\w+)/.exec(path);
    const listed = name => {
      try { return JSON.parse(new URLSearchParams(query).get(name)) ?? []; } catch { return []; }  // none that could be read
    };
    const named = listed("experiments"), ids = one && !named.length ? [one[1]] : named;
    const ticked = path === "/compare-runs" ? listed("runs") : [...document.querySelectorAll(".ag-row-selected a[href*='/runs/']")].map(a => /\/runs\/(\w+)/.exec(a.href)[1]);
    return {ids: [...new Set(ids.map(String))], runs: [...new Set(ticked)]};
  }
  function address({ids, runs}) {
    const made = new URL(page);
    for (const id of ids) made.searchParams.append("experiment-id", id);
    if (runs.length > 1) made.searchParams.set("filter", `attributes.run_id IN (${runs.map(id => `'${id}'`).join(", ")})`);
    return made.href;
  }
  // An icon where the side bar's own links have theirs; alone, the text is what a reader hears.
  function link(id, text, href, {style = "", like = null, alone = false} = {}) {
    const made = document.createElement("a"), icon = document.createElement("span");
    Object.assign(made, {id, href, title: "mleval: which of these runs is really better?", className: like?.className ?? "", ariaLabel: text});
    made.style.cssText = style;
    icon.className = like?.querySelector("[role=img]")?.className ?? "";
    icon.style.cssText = "display:inline-block;width:1em;text-align:center";
    icon.ariaHidden = "true";
    icon.textContent = "⇄";
    made.append(icon, ...(alone ? [] : [like ? text : ` ${text}`]));
    return made;
  }
  // Put it at the end of its place, if it does not stand there as it should: MLflow draws its pages anew at any time, and what we
  // change calls us again.
  function stand(made, place) {
    const old = document.getElementById(made.id);
    if (place.lastElementChild === old && made.isEqualNode(old)) return true;
    old?.remove();
    place.append(made);
    return true;
  }
  function inSideBar(href) {
    const list = document.querySelector("aside nav ul, nav aside ul"), like = [...list?.querySelectorAll("li a:not([id^=mleval])") ?? []].pop();
    if (!like) return false;
    const row = document.createElement("li"), alone = like.offsetWidth < 60;  // folded, all links there are icons
    row.id = "mleval-row";
    row.append(link("mleval-side", "Which is better?", href, {like, alone, style: alone ? "justify-content:center" : ""}));
    return stand(row, list);
  }
  function aboveRuns(href, {runs}) {
    const place = document.querySelector("[data-testid=runs-compare-button], [data-testid=sort-select-dropdown]")?.parentElement;
    return Boolean(place) && stand(link("mleval-runs", runs.length > 1 ? `Which of ${runs.length} runs is better?` : "Which is better?", href, {style: NEAR}), place);
  }
  function draw() {
    const wanted = chosen(), href = address(wanted);
    if ([inSideBar(href), aboveRuns(href, wanted)].some(Boolean)) document.getElementById("mleval-corner")?.remove();
    else stand(link("mleval-corner", "Which is better?", href, {style: EDGE}), document.body);
  }

  let soon = 0;
  const later = () => { clearTimeout(soon); soon = setTimeout(draw, 300); };
  new MutationObserver(later).observe(document.documentElement, {childList: true, subtree: true, attributes: true, attributeFilter: ["class"]});
  addEventListener("hashchange", later);
  later();
})();
