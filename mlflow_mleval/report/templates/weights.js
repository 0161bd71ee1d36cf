// Weights as sliders: the ranking, the ranks on each dataset and the decision axis follow the hand, from the net flows by measure that the page
// holds. Same sums, same ties and same order as in the report, to the last place. Nothing is fetched or stored here; the event
// mleval:weights tells whoever listens, and mleval:fragment starts the sliders in a part of the page that came later.
(() => {
  const TIE = 1e-12;
  const doubles = text => new Float64Array(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
  const all = (root, selector) => [...root.querySelectorAll(selector)];
  const leaf = element => element.firstElementChild ? leaf(element.firstElementChild) : element;
  const percent = share => `${(100 * share).toFixed(1)}%`;
  // The answer that an element belongs to: parts of a newer one come while sliders of the one before are still in sight.
  const answer = element => element.closest("[data-made]")?.dataset.made;
  let living = new AbortController();  // of the sliders on the page: one set of them listens at a time

  // So many decimals; halves go to the even digit and no zero is negative, as in the report.
  function fixed(x, places) {
    const exact = Math.abs(x).toFixed(60), cut = exact.slice(0, places - 60), half = /^50*$/.test(exact.slice(places - 60));
    const text = half && cut.at(-1) % 2 === 0 ? cut : Math.abs(x).toFixed(places);
    return x < 0 && Number(text) > 0 ? `\u2212${text}` : text;
  }

  // The mean ranks of tied net flows, largest first; neighbours in the order tie within the tolerance.
  function rank(phi, ranks) {
    const order = [...phi.keys()].sort((a, b) => phi[b] - phi[a]);
    for (let first = 0, last; first < order.length; first = last + 1) {
      for (last = first; last + 1 < order.length && phi[order[last]] - phi[order[last + 1]] <= TIE;) last++;
      for (let i = first; i <= last; i++) ranks[order[i]] = (first + last) / 2 + 1;
    }
  }

  function start(block) {
    living.abort();
    living = new AbortController();
    const {signal} = living, mine = element => answer(element) === answer(block);
    const data = JSON.parse(block.querySelector("script").textContent);
    const n = data.measures.length, m = data.methods.length, D = data.datasets.length;
    const flows = doubles(data.flows), own = doubles(data.weights), alike = own.length === n;
    const sliders = all(block, "input[type=range]"), switches = all(block, "input[type=checkbox]"), shares = all(block, "output");
    const [about, news] = [".moved", ".news"].map(name => block.querySelector(name));
    const raw = [...data.starts], on = raw.map(() => true);
    // The square of the way along a slider; three digits are enough.
    const weight = (slider, j) => slider.value === slider.defaultValue ? data.starts[j]
      : Number((data.most * (slider.value / slider.max) ** 2).toPrecision(3));
    const ranks = Array.from({length: D}, () => new Float64Array(m)), phis = Array.from({length: D}, () => new Float64Array(m));
    const mean = new Float64Array(m), phi = new Float64Array(m), standing = new Float64Array(m);
    let moved = false, places = data.rows, table = null;

    // ---- weights
    const changed = () => moved || on.includes(false);
    // One weight a measure on every dataset, as --weights gives it; else the report's own, of the measures that are on.
    const given = () => moved || (changed() && !data.named);
    function weigh(d, w) {
      const row = alike ? 0 : d * n;
      let total = 0, count = 0;
      for (let j = 0; j < n; j++) {
        w[j] = on[j] ? (given() ? raw[j] : own[row + j]) : 0;
        total += w[j];
        count += on[j];
      }
      if (!changed()) return w;
      for (let j = 0; j < n; j++) w[j] = total > 0 ? w[j] / total : on[j] / count;
      if (given() && data.constant) {
        let rest = 0;
        for (let j = 0; j < n; j++) if (!data.constant[d][j]) rest += w[j];
        if (rest > 0) for (let j = 0; j < n; j++) w[j] = data.constant[d][j] ? 0 : w[j] / rest;
      }
      return w;
    }

    // ---- the ranking
    const weights = new Float64Array(n), average = new Float64Array(n);
    function fuse() {
      mean.fill(0), phi.fill(0), average.fill(0);
      for (let d = 0; d < D; d++) {
        const net = phis[d].fill(0);
        weigh(d, weights);
        for (let j = 0, at = d * n * m; j < n; j++) {
          average[j] += weights[j] / D;
          for (let a = 0; a < m; a++, at++) net[a] += weights[j] * flows[at];
        }
        rank(net, ranks[d]);
        for (let a = 0; a < m; a++) {
          mean[a] += ranks[d][a];
          phi[a] += net[a] / D;
        }
      }
      for (let a = 0; a < m; a++) mean[a] /= D;
      rank(data.by_rank ? mean.map(x => -x) : phi, standing);
      places = changed() ? [...standing.keys()].sort((a, b) => standing[a] - standing[b]) : data.rows;
    }

    // ---- what the page shows of it
    // The rows of a table of the same answer, by method; none where another order or other methods stand in it.
    function rowsOf(key) {
      const found = all(document, `table[data-key="${key}"]`).find(mine);
      if (!found) return null;
      const named = new Map([...found.tBodies[0].rows].map(row => [row.querySelector("[data-method]")?.dataset.method, row]));
      const rows = data.methods.map(method => named.get(method));
      if (rows.includes(undefined)) return null;
      return {body: found.tBodies[0], heads: [...found.tHead.rows[0].cells].map(head => head.dataset.key), rows, found};
    }
    function reorder(part) {
      if (places.some((a, i) => part.body.rows[i] !== part.rows[a])) part.body.append(...places.map(a => part.rows[a]));
    }
    function find() {
      table = rowsOf("ranking");
      if (!table) return;
      const at = key => table.heads.indexOf(key);
      table.cells = table.rows.map(row => {
        const cell = key => row.cells[at(key)];
        [...row.cells].forEach((c, i) => c.classList.toggle("stale", i > 1 && !table.heads[i]));
        const dot = cell("picture").querySelector("circle.faccent"), {of, low, high} = table.found.tHead.rows[0].cells[at("picture")].dataset;
        return {
          texts: ["position", "mean-rank", "phi"].map(key => [cell(key), cell(key)?.textContent]),
          dot, of, was: dot.getAttribute("cx"), across: x => Math.min(99, Math.max(1, 5 + 90 * (x - low) / (high - low || 1))),
        };
      });
      table.numbers = rowsOf("ranks");
    }
    function draw() {
      let position = 0;
      places.forEach((a, i) => {
        if (!i || standing[a] > standing[places[i - 1]]) position = i + 1;
        const {texts, dot, of, was, across} = table.cells[a], value = of === "rank" ? mean[a] : phi[a];
        const shown = [`${position}`, D > 1 ? fixed(mean[a], 2) : `${mean[a]}`, fixed(phi[a], 3)];
        texts.forEach(([cell, text], k) => { if (cell) cell.textContent = changed() ? shown[k] : text; });
        dot.setAttribute("cx", changed() ? `${across(value).toFixed(2)}%` : was);
        table.rows[a].classList.toggle("first", i === 0);
        table.rows[a].classList.toggle("more", i >= (table.found.dataset.shown ?? m));
      });
      reorder(table);
      table.found.classList.toggle("moved", changed());
      turn();
    }
    // The decision axis points where the weights lie in the plane; the plane itself does not depend on them.
    function turn() {
      const [line, end] = all(document, "figure .decision-axis").filter(mine);
      if (!line || !data.axis) return;
      line.was ??= [line, end].map(part => [part, [...part.attributes].map(a => [a.name, a.value])]);
      for (const [part, attributes] of line.was) for (const [key, value] of attributes) part.setAttribute(key, value);
      const [x, y] = [0, 1].map(k => data.axis.reduce((sum, point, j) => sum + average[j] * point[k], 0)), size = Math.hypot(x, y);
      if (!changed() || !size) return;
      const value = key => line[key].baseVal.value, {width, height} = line.ownerSVGElement.viewBox.baseVal;
      const [cx, cy] = [value("x1"), value("y1")], far = Math.hypot(value("x2") - cx, value("y2") - cy);
      const reach = (at, step, last) => step > 0 ? (last - 14 - at) / step : step < 0 ? (14 - at) / step : Infinity;
      const long = Math.min(far, reach(cx, x / size, width), reach(cy, -y / size, height));
      const [ex, ey] = [cx + long * x / size, cy - long * y / size];
      line.setAttribute("x2", ex), line.setAttribute("y2", ey), end.setAttribute("cx", ex), end.setAttribute("cy", ey);
    }
    // What does not follow the sliders is dimmed while it says something else than they do.
    const follows = ":has([data-key=ranking], [data-key=ranks], .decision-axis)";
    function dim() {
      for (const part of all(document, ".section > .body > *").filter(mine))
        part.classList.toggle("stale", changed() && !part.matches(follows) && !part.parentElement.contains(block));
    }

    // ---- what is said
    const chosen = () => given() ? data.measures.map((name, j) => [name, raw[j]]).filter((_, j) => on[j]) : [];
    const excluded = () => data.measures.filter((_, j) => !on[j]);
    function tell() {
      about.hidden = !changed();
      sliders.forEach((slider, j) => {
        shares[j].textContent = on[j] ? percent(average[j]) : "off";
        slider.setAttribute("aria-valuetext", on[j] ? `${percent(average[j])} of all weight` : "off");
        slider.disabled = !on[j];
        switches[j].disabled = on[j] && on.filter(Boolean).length === 1;
      });
    }
    // The ranks on each dataset.
    function number() {
      if (!table?.numbers) return;
      reorder(table.numbers);
      table.numbers.rows.forEach((row, a) => [...row.cells].slice(1).forEach((cell, d) => {
        leaf(cell).textContent = ranks[d][a] + (cell.textContent.endsWith("*") ? "*" : "");
        cell.dataset.tone = Math.round(9 * (1 - .93 * (ranks[d][a] - 1) / Math.max(m - 1, 1)));
      }));
    }
    function settle() {
      const value = a => data.by_rank ? fixed(mean[a], 2) : fixed(phi[a], 3);
      const [first, ...rest] = places.slice(0, 3).map(a => `${data.methods[a]} (${value(a)})`);
      const order = `${first} leads by mean ${data.by_rank ? "rank" : "net flow"}, then ${rest.join(" and ")}.`;
      news.textContent = changed() ? `With these weights ${order}` : "The ranking is that of the report.";
      const detail = {own: !changed(), weights: Object.fromEntries(chosen()), exclude: excluded()};
      block.dispatchEvent(new CustomEvent("mleval:weights", {bubbles: true, detail}));
    }
    function follow() {
      if (!table?.body.isConnected) find();
      fuse();
      table ? draw() : turn();
      number();
      dim();
      tell();
    }
    function back() {
      moved = false;
      raw.forEach((_, j) => {
        on[j] = switches[j].checked = true;
        sliders[j].value = sliders[j].defaultValue;
        raw[j] = data.starts[j];
      });
      follow();
    }

    sliders.forEach((slider, j) => {
      slider.addEventListener("input", () => {
        raw[j] = weight(slider, j);
        moved = data.by_dataset || raw.some((weight, k) => weight !== data.starts[k]);
        follow();
      });
      slider.addEventListener("change", settle);
    });
    switches.forEach((box, j) => box.addEventListener("change", () => {
      on[j] = box.checked;
      follow();
      settle();
    }));
    about.querySelector("button").addEventListener("click", () => {
      back();
      settle();
      sliders[0].focus();
    });
    // Paper shows the weights of the report.
    let kept = null;
    addEventListener("beforeprint", () => {
      if (!changed()) return;
      kept = {moved, values: sliders.map(slider => slider.value), on: [...on]};
      back();
    }, {signal});
    addEventListener("afterprint", () => {
      if (!kept) return;
      moved = kept.moved;
      raw.forEach((_, j) => {
        sliders[j].value = kept.values[j];
        raw[j] = weight(sliders[j], j);
        on[j] = switches[j].checked = kept.on[j];
      });
      kept = null;
      follow();
    }, {signal});
    document.addEventListener("mleval:fragment", () => {
      if (!changed()) return;
      follow();
    }, {signal});
    fuse();
    tell();
    block.hidden = false;
  }

  const starting = root => all(root, ".weights[hidden]").forEach(start);
  document.addEventListener("mleval:fragment", event => starting(event.detail));
  starting(document);
})();
