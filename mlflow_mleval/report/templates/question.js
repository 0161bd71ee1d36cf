// The verdict on a pair: of what it is a claim may be switched, and the margin beyond which a difference matters moved. The words
// follow from the intervals that are there, by the rule of `Verdict.word`. Where the screen is narrow, the plot is a click away.
"use strict";
(() => {
  const short = x => String(+x.toPrecision(2));
  function word(rows, margin) {
    const certain = (sign, end) => rows.some(r => r.apart && sign * r.size > 0 && (!margin || r[end] === null || sign * r[end] > margin));
    const better = certain(1, "low"), worse = certain(-1, "high");
    if (better && !worse) return "YES";
    const within = margin > 0 && rows.every(r => r.high !== null && r.high <= margin);
    return !better && (worse || within) ? "NO" : "TOO CLOSE";
  }
  function moved(said, slider, released) {
    const rows = [...said.querySelectorAll("[data-row]")].map(at => ({at, ...JSON.parse(at.dataset.row)})).filter(r => r.decides);
    const margin = Math.max(...rows.map(r => r.reach)) * slider.value / 100, verdict = said.querySelector(".verdict");
    for (const {at, reach} of rows) {
      const half = Math.min(50, 50 * margin / reach), band = at.querySelector(".margin");
      band.setAttribute("x", `${50 - half}%`);
      band.setAttribute("width", `${2 * half}%`);
    }
    verdict.dataset.word = verdict.querySelector("b").textContent = word(rows, margin);
    verdict.querySelector(".beyond").textContent = margin ? ` (by more than ${short(margin)})` : "";
    slider.closest("p").querySelector("output").textContent = margin ? short(margin) : "0";
    if (released) said.dispatchEvent(new CustomEvent("mleval:margin", {bubbles: true, detail: {margin, own: rows.every(r => r.own)}}));
  }
  const narrow = matchMedia("screen and (max-width: 700px)");
  function fold(root) {
    for (const plot of root.querySelectorAll(".said .plot")) plot.open = !narrow.matches;
  }
  function start(root) {
    fold(root);
    for (const asked of root.querySelectorAll(".asked")) {
      const sides = [...asked.querySelectorAll(".said")];
      asked.querySelectorAll("[name=of]").forEach((of, i) => of.addEventListener("change", () => sides.forEach((said, k) => { said.hidden = k !== i; })));
      for (const said of sides) {
        const slider = said.querySelector("input[type=range]");
        if (!slider) continue;
        slider.closest("p").hidden = false;
        slider.addEventListener("input", () => moved(said, slider, false));
        slider.addEventListener("change", () => moved(said, slider, true));
      }
    }
  }
  start(document);
  narrow.addEventListener("change", () => fold(document));
  document.addEventListener("mleval:fragment", event => start(event.detail));
})();
