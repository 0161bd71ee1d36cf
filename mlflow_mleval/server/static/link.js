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
    let ids = one ? [one[1]] : [];
    try { ids = JSON.parse(new URLSearchParams(query).get("experiments")) ?? ids; } catch { /* none that could be read */ }
    const ticked = [...document.querySelectorAll(".ag-row-selected a[href*='/runs/']")].map(a => /\/runs\/(\w+)/.exec(a.href)[1]);
    return {ids: [...new Set(ids.map(String))], runs: [...new Set(ticked)]};
  }
  function address({ids, runs}) {
    const made = new URL(page);
    for (const id of ids) made.searchParams.append("experiment-id", id);
    if (runs.length > 1) made.searchParams.set("filter", `attributes.run_id IN (${runs.map(id => `'${id}'`).join(", ")})`);
    return made.href;
  }
  function link(id, text, style, like) {
    const made = document.getElementById(id) ?? document.createElement("a");
    made.id = id;
    made.textContent = text;
    made.title = "mleval: which of these runs is really better?";
    if (like) made.className = like.className;
    if (style) made.style.cssText = style;
    return made;
  }
  // Put it at the end of its place, if it is not there: MLflow draws its pages anew at any time.
  function stand(made, place) {
    if (place.lastElementChild !== made) place.append(made);
    return true;
  }
  function inSideBar() {
    const list = document.querySelector("aside nav ul, nav aside ul"), like = [...list?.querySelectorAll("li a:not([id^=mleval])") ?? []].pop();
    if (!like) return false;
    const row = document.getElementById("mleval-row") ?? document.createElement("li");
    row.id = "mleval-row";
    const folded = like.offsetWidth < 60;  // then all links there are icons
    const made = link("mleval-side", folded ? "⇄" : "Compare", folded ? "justify-content:center" : "", like);
    made.ariaLabel = "Compare";
    row.replaceChildren(made);
    return stand(row, list);
  }
  function aboveRuns({runs}) {
    const place = document.querySelector("[data-testid=runs-compare-button], [data-testid=sort-select-dropdown]")?.parentElement;
    return Boolean(place) && stand(link("mleval-runs", runs.length > 1 ? `Compare ${runs.length} runs` : "Compare all", NEAR), place);
  }
  function draw() {
    const wanted = chosen(), shown = [inSideBar(), aboveRuns(wanted)].some(Boolean), corner = document.getElementById("mleval-corner");
    if (shown) corner?.remove(); else stand(link("mleval-corner", "Compare", EDGE), document.body);
    for (const id of ["mleval-side", "mleval-runs", "mleval-corner"]) {
      const made = document.getElementById(id), href = address(wanted);
      if (made && made.href !== href) made.href = href;
    }
  }

  let soon = 0;
  const later = () => { clearTimeout(soon); soon = setTimeout(draw, 300); };
  new MutationObserver(later).observe(document.documentElement, {childList: true, subtree: true, attributes: true, attributeFilter: ["class"]});
  addEventListener("hashchange", later);
  later();
})();
