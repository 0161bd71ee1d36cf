"""What the browser tests ask of a page, as JavaScript."""

# Pairs of texts of one drawing that overlap, and texts that leave it; turned texts are left out,
# for their boxes lie.
TEXTS = """
return [...document.querySelectorAll("figure svg")].flatMap(svg => {
  const frame = svg.getBoundingClientRect(), name = svg.querySelector("title").textContent;
  const all = [...svg.querySelectorAll("text:not([transform])")].map(t => [t.textContent, t.getBoundingClientRect()]);
  const bad = all.filter(([, b]) => b.left < frame.left - 1 || b.right > frame.right + 1 || b.bottom > frame.bottom + 2)
    .map(([t]) => name + ": outside: " + t);
  all.forEach(([t, a], i) => all.slice(i + 1).forEach(([u, b]) => {
    if (a.left < b.right - .5 && b.left < a.right - .5 && a.top + 2 < b.bottom - 2 && b.top + 2 < a.bottom - 2)
      bad.push(name + ": " + t + " | " + u);
  }));
  return bad;
})"""  # noqa: E501


# Contrast of every visible text with what lies under it: backgrounds of its ancestors, rectangles
# of its drawing.
CONTRAST = """
const parse = c => { const n = c.match(/[\\d.]+/g).map(Number); return [n[0], n[1], n[2], n[3] ?? 1]; };
const over = (top, under) => under.map((u, i) => top[3] * top[i] + (1 - top[3]) * u);
const light = rgb => rgb.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node; node = walker.nextNode();) {
  const element = node.parentElement, box = element.getBoundingClientRect();
  if (!node.textContent.trim() || !box.width || element.closest("script,style,title,desc")) continue;
  const stack = [];
  for (let e = element; e; e = e.parentElement) stack.unshift(parse(getComputedStyle(e).backgroundColor));
  const svg = element.closest("svg"), x = box.left + box.width / 2, y = box.top + box.height / 2;
  if (svg) for (const rect of svg.querySelectorAll("rect")) {
    const r = rect.getBoundingClientRect(), style = getComputedStyle(rect);
    if (style.fill === "none" || x < r.left || x > r.right || y < r.top || y > r.bottom) continue;
    const colour = parse(style.fill); stack.push([...colour.slice(0, 3), colour[3] * style.fillOpacity]);
  }
  const under = stack.reduce((below, top) => over(top, below), [255, 255, 255]);
  const style = getComputedStyle(element), colour = parse(svg ? style.fill : style.color).slice(0, 3);
  const value = ratio(colour, under);
  if (value < 4.5) found.push([node.textContent.trim().slice(0, 30), value.toFixed(2)]);
}
return found;"""  # noqa: E501


OPEN_ALL = "document.querySelectorAll('details').forEach(d => d.open = true)"
