// The verdict on a pair: the margin beyond which a difference matters may be moved. The words follow from the
// intervals that are there, by the rule of `Verdict.word`. Where the screen is narrow, the plot is a click away.
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
  const read = at => ({at, ...JSON.parse(at.dataset.row)});
  function shade({at, reach}, margin) {
    const half = Math.min(50, 50 * margin / reach), band = at.querySelector(".margin");
    band.setAttribute("x", `${50 - half}%`);
    band.setAttribute("width", `${2 * half}%`);
  }
  function told(said, margin, own) {
    const margins = [...said.querySelectorAll(".own input")].filter(one => +one.value).map(one => {
      const {measure, reach} = read(one.closest("tr"));
      return [measure, short(reach * one.value / 100)];
    });
    said.dispatchEvent(new CustomEvent("mleval:margin", {bubbles: true, detail: {margin, own, margins}}));
  }
  function moved(said, slider, released) {
    const rows = [...said.querySelectorAll("[data-row]")].map(read).filter(r => r.decides);
    const margin = Math.max(...rows.map(r => r.reach)) * slider.value / 100, verdict = said.querySelector(".verdict");
    for (const row of rows) shade(row, margin);
    verdict.dataset.word = verdict.querySelector("b").textContent = word(rows, margin);
    verdict.querySelector(".beyond").textContent = margin ? ` (by more than ${short(margin)})` : "";
    slider.closest("p").querySelector("output").textContent = margin ? short(margin) : "0";
    if (released) told(said, margin, rows.every(r => r.own));
  }
  // The margin of a measure beside what decides is for the gate, which the report does not have.
  function ofMeasure(said, slider, released) {
    const row = read(slider.closest("tr")), margin = row.reach * slider.value / 100;
    shade(row, margin);
    slider.nextElementSibling.textContent = margin ? short(margin) : "usual";
    if (released) told(said, 0, false);
  }
  const narrow = matchMedia("screen and (max-width: 700px)");
  function fold(root) {
    for (const plot of root.querySelectorAll(".said .plot")) plot.open = !narrow.matches;
  }
  function start(root) {
    fold(root);
    for (const said of root.querySelectorAll(".said")) {
      if (document.getElementById("gate")) for (const own of said.querySelectorAll(".own")) own.hidden = false;
      for (const slider of said.querySelectorAll("input[type=range]")) {
        const whole = slider.closest(".margins"), drag = whole ? moved : ofMeasure;
        if (whole) whole.hidden = false;
        slider.addEventListener("input", () => drag(said, slider, false));
        slider.addEventListener("change", () => drag(said, slider, true));
      }
    }
  }
  // Paper has the answer with its plot and doubts, and what the reader has opened.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll(":is(.doubts, .plot):not([open])")];
    for (const part of folded) part.open = true;
  });
  addEventListener("afterprint", () => { for (const part of folded) part.open = false; });
  start(document);
  narrow.addEventListener("change", () => fold(document));
  document.addEventListener("mleval:fragment", event => start(event.detail));
})();
