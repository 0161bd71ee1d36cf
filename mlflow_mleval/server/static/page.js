// The page /mleval/: chooses, asks the server, shows what it answers. Every fragment comes escaped from the server; every text that
// this script sets itself is set as text. The address holds the whole selection.
"use strict";

const $ = id => document.getElementById(id);
const form = $("selection"), answer = $("answer"), detail = $("detail");
const NEWS = 30000, SOON = 1500, TYPING = 350, VISITS = 50, AGAIN = [400, 600, 900, 1500];

let selection = new URLSearchParams(location.search);  // what the address says
let shown = null;                                      // the answer on the page: {query, made, ...}
const chosen = new Map();                              // experiments that are ticked: id -> name
const running = {};                                    // what is asked for now, by what it is for

// ---- Small tools

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, does] of Object.entries(value)) made.addEventListener(event, does);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter(child => child != null));
  return made;
}
const button = (text, does, attributes = {}) => element("button", {type: "button", on: {click: does}, ...attributes}, text);
const capital = text => text[0].toUpperCase() + text.slice(1);
const many = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
const query = () => selection.toString();
const pause = (ms, signal) => new Promise((done, stop) => {
  const timer = setTimeout(done, ms);
  signal?.addEventListener("abort", () => { clearTimeout(timer); stop(signal.reason); }, {once: true});
});
function tell(text) { $("told").textContent = text; }

class Failure extends Error {
  constructor(status, said = {}) {
    super(said.error || "");
    Object.assign(this, {status, field: said.field, ways: said.ways || [], taken: said.taken, reload: said.reload});
  }
}

// What an address answers. While the server is at work it is asked again; who asks anew for the same place stops the old question.
async function ask(path, {slot = path, told = () => {}, ...options} = {}) {
  running[slot]?.abort();
  const control = running[slot] = new AbortController(), signal = control.signal;
  for (let turn = 0; ; turn++) {
    let response;
    try {
      response = await fetch(path, {credentials: "same-origin", ...options, signal});
    } catch (error) {
      if (signal.aborted) throw error;
      throw new Failure(0);
    }
    if (response.status === 202) {
      told(await response.json());
      await pause(AGAIN[Math.min(turn, AGAIN.length - 1)], signal);
    } else if (response.ok) {
      return response;
    } else {
      let said = {};
      try { said = await response.json(); } catch { /* a page of the server or of a proxy */ }
      throw new Failure(response.status, said);
    }
  }
}
const stopped = error => error.name === "AbortError";

// What a failure means, and what to do about it.
function failed(error, again) {
  if (!(error instanceof Failure)) throw error;
  const box = element("div", {class: "say", role: "alert"});
  const [head, text] = {
    0: ["The server does not answer.", "It may be down, or your connection is. What is on the page stays."],
    401: ["Your login has ended.", "Load the page again to log in; the address keeps what you chose."],
    409: [error.ways.length ? "" : "These runs cannot be compared as they are chosen.", ""],
    403: ["You may not see this.", error.message ? "" : "Ask whoever owns the experiments for permission to read them, or choose others."],
    413: ["These are too many runs for a page.", ""],
    503: ["The store does not answer.", "MLflow cannot reach its database or storage. Try again in a moment, or tell whoever runs the server."],
    504: ["This took too long.", "Choose fewer runs, methods or measures; mleval report has no time limit."],
  }[error.status] || [error.status < 500 ? "" : "Something went wrong on the server.", ""];
  if (head) box.append(element("p", {}, element("b", {}, head)));
  for (const said of [error.message, text]) if (said) box.append(element("p", {}, said));
  const field = error.field;
  if (!error.ways.length && selection.has(field) && field !== "experiment-id" && !$(`${field}-error`)) {
    const without = new URLSearchParams(selection);
    without.delete(field);
    error.ways = [{what: `go on without “${field.replaceAll("-", " ")}: ${selection.getAll(field).join(", ")}”`, query: without}];
  }
  if (error.ways.length) box.append(ways(error.ways));
  if (field === "experiment-id" || error.status === 403 || error.status === 409 && !error.ways.length) box.append(button("Choose experiments", chooseAgain, {class: "primary"}));
  if (error.status === 401) box.append(button("Log in again", () => location.reload(), {class: "primary"}));
  else if (again && (error.status === 0 || error.status >= 500)) box.append(button("Try again", again));
  return box;
}
function chooseAgain() {
  $("choose").open = true;
  $("choose").scrollIntoView();
  $("search").focus();
}
function ways(list, title = "What you can do") {
  const items = list.map(way => element("li", {}, element("a", {class: "way", href: `?${way.query}`}, capital(way.what))));
  return element("div", {class: "ways"}, element("p", {class: "title"}, title), element("ul", {}, ...items));
}
function working(place) {
  const bar = element("progress", {"aria-label": "Progress"}), text = element("span", {}, "Asking the server …"), began = Date.now();
  const kind = place.tagName === "UL" ? "li" : "p";
  place.replaceChildren(element(kind, {class: "working"}, bar, " ", text));
  return ({step = "Working", done = 0, total = 0, unit = ""}) => {
    if (total) { bar.max = total; bar.value = done; } else bar.removeAttribute("value");
    const seconds = Math.round((Date.now() - began) / 1000);
    text.textContent = `${progress(step, done, total, unit)}${seconds ? ` ${seconds} s` : ""}`;
  };
}
const progress = (step, done, total, unit = "") => done > 1 || total > 1
  ? `${capital(step)}: ${done.toLocaleString("en")}${total > 1 ? ` of ${total.toLocaleString("en")}` : ""} ${unit} …`.replace("  ", " ") : `${capital(step)} …`;
// Put a fragment of the server in its place. Where the reader stood in the old one, there he stands in the new one; what he had
// unfolded stays so.
function put(place, html) {
  const at = place.contains(document.activeElement) ? document.activeElement : null;
  const same = at && (at.id ? `#${CSS.escape(at.id)}` : [...at.attributes].filter(a => /^(name|value|data-.*)$/.test(a.name))
    .map(a => `[${a.name}="${CSS.escape(a.value)}"]`).join(""));
  const folds = () => [...place.querySelectorAll("details")], name = fold => fold.querySelector("summary").textContent;
  const was = new Map(folds().map(fold => [name(fold), fold.open]));
  place.innerHTML = html;
  for (const time of place.querySelectorAll("time")) ago(time);
  document.dispatchEvent(new CustomEvent("mleval:fragment", {detail: place}));
  for (const fold of folds()) fold.open = was.get(name(fold)) ?? fold.open;
  if (same) place.querySelector(same)?.focus({preventScroll: true});
}
function ago(time) {
  const seconds = (new Date(time.dateTime) - Date.now()) / 1000;
  const [unit, size] = [["day", 86400], ["hour", 3600], ["minute", 60]].find(([, size]) => -seconds >= size) || ["minute", 60];
  time.title = new Date(time.dateTime).toLocaleString();
  if (-seconds < 90 * 86400) time.textContent = new Intl.RelativeTimeFormat("en", {numeric: "auto"}).format(Math.round(seconds / size), unit);
}
async function copy(text, what, at) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // without TLS browsers keep the clipboard to themselves
    const area = element("textarea", {class: "hidden", "aria-hidden": "true"});
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  tell(`${what} copied.`);
  if (!at || at.dataset.said) return;
  at.dataset.said = at.textContent;
  at.textContent = "Copied ✓";
  setTimeout(() => { at.textContent = at.dataset.said; delete at.dataset.said; }, 2000);
}
document.addEventListener("click", ({target}) => { if (target.matches("button.copy")) copy(target.dataset.text, "The command is", target); });

// ---- Choosing experiments

let listed = false;
async function listExperiments(token = "") {
  listed = true;
  const place = $("experiments"), asked = new URLSearchParams({search: $("search").value.trim(), "page-token": token});
  try {
    const html = await (await ask(`experiments?${asked}`, {slot: "experiments", told: token ? undefined : working(place)})).text();
    if (token) {
      const more = element("div");
      more.innerHTML = html;
      for (const time of more.querySelectorAll("time")) ago(time);
      place.querySelector(".more").remove();
      place.querySelector("tbody").append(...more.querySelectorAll("tbody tr"));
      place.append(...more.querySelectorAll(".more"));
    } else put(place, html);
    for (const box of boxes()) box.checked = chosen.has(box.value);
  } catch (error) {
    if (!stopped(error)) place.replaceChildren(failed(error, () => listExperiments(token)));
  }
}
const boxes = () => [...$("experiments").querySelectorAll("input[type=checkbox]")];

function drawChosen() {
  $("chosen").replaceChildren(...[...chosen].map(([id, name]) => element("li", {}, element("bdi", {}, name || `experiment ${id}`),
    button("×", () => choose(id, name, false), {"aria-label": `Leave out ${name || id}`}))));
  const names = [...chosen].map(([id, name]) => name || `experiment ${id}`);
  $("chosen-hint").textContent = names.length > 3 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", ");
  $("hold").hidden = $("go").hidden = !chosen.size;
}
function forgetSurvey() {
  clearTimeout(soon);
  running.survey?.abort();
  surveyed = null;
  $("survey").replaceChildren();
  $("survey").removeAttribute("aria-busy");
}
function choose(id, name, wanted) {
  wanted ? chosen.set(id, name) : chosen.delete(id);
  for (const box of boxes()) if (box.value === id) box.checked = wanted;
  drawChosen();
  if (chosen.size) { $("hold").open = true; survey(TYPING); } else forgetSurvey();
}
$("experiments").addEventListener("change", event => choose(event.target.value, event.target.dataset.name, event.target.checked));
$("experiments").addEventListener("click", event => { if (event.target.matches(".more")) listExperiments(event.target.dataset.token); });
$("experiments").addEventListener("keydown", event => {
  const step = {ArrowDown: 1, ArrowUp: -1}[event.key], all = boxes(), at = all.indexOf(event.target);
  if (!step || at < 0) return;
  event.preventDefault();
  (all[at + step] || event.target).focus();
});
let typing;
$("search").addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(listExperiments, TYPING); });
$("search").addEventListener("keydown", event => {
  if (event.key === "Enter") event.preventDefault();
  if (event.key === "ArrowDown") { event.preventDefault(); boxes()[0]?.focus(); }
});
$("choose").addEventListener("toggle", () => { if ($("choose").open && !listed) listExperiments(); });

// ---- What they hold, and how it is set

// The selection as the controls on the page say it; what has no control on the page stays as the address says it.
function collected() {
  const made = new URLSearchParams(selection), set = (name, values) => {
    made.delete(name);
    for (const value of values) if (value !== "") made.append(name, value);
  };
  if (chosen.size || listed) set("experiment-id", chosen.keys());
  const named = [...form.elements].filter(e => e.name && !("direction" in e.dataset));
  for (const name of new Set(named.map(e => e.name))) {
    const group = named.filter(e => e.name === name);
    set(name, [...new Set(group.filter(e => !["checkbox", "radio"].includes(e.type) || e.checked).map(e => e.value.trim()))]);
  }
  const listedOff = [...form.querySelectorAll("[data-off]")];
  for (const name of new Set(listedOff.map(e => e.dataset.off)))
    set(name, listedOff.filter(e => e.dataset.off === name && !e.checked).map(e => e.value));
  const directions = [...form.querySelectorAll("[data-direction]")];
  for (const way of ["min", "max"]) if (directions.length) set(way, directions.filter(e => e.dataset.direction === way && e.checked).map(e => e.value));
  const measures = [...form.querySelectorAll("[data-measure]")], on = measures.filter(e => e.checked);
  if (measures.length) {  // one that does not count by default must be named, and then all others that count
    const all = on.some(e => "extra" in e.dataset) ? [...on.map(e => e.dataset.measure), ...made.getAll("min"), ...made.getAll("max")] : [];
    set("measure", all);
    set("exclude-measure", all.length ? [] : measures.filter(e => !e.checked && !("extra" in e.dataset)).map(e => e.dataset.measure));
  }
  return made;
}
// Controls after which the runs are another table, so that what they hold is asked anew.
const READ = new Set(["filter", "method-by", "dataset-by", "folds-by", "repeats-by", "children", "duplicates", "missing", "shared"]);

let soon;
function survey(wait = 0) {
  clearTimeout(soon);
  soon = setTimeout(readSurvey, wait);
}
let surveyed = null;
async function readSurvey(wanted = collected()) {
  const place = $("survey");
  for (const old of form.querySelectorAll(".error")) mark(old.id.replace(/-error$/, ""), "");
  place.setAttribute("aria-busy", "true");
  if (!place.childElementCount) working(place);
  try {
    const told = ({step, done, total, unit}) => { $("hold-hint").textContent = $("go-hint").textContent = progress(step || "reading", done, total, unit); };
    const html = await (await ask(`survey?${wanted}`, {slot: "survey", told})).text();
    put(place, html);
    for (const row of place.querySelectorAll("[data-experiment]")) if (chosen.has(row.dataset.experiment)) chosen.set(row.dataset.experiment, row.dataset.name);
    drawChosen();
    surveyed = collected().toString();
    $("hold-hint").textContent = $("facts")?.textContent || "";
    $("go-hint").textContent = "";
  } catch (error) {
    if (stopped(error)) return;
    $("go-hint").textContent = "";
    place.replaceChildren();
    if (!mark(error.field, error.message)) place.replaceChildren(failed(error, survey));
  }
  place.removeAttribute("aria-busy");
}
// The error of a field beside the field; whether there is such a field.
function mark(name, text, of = form, prefix = "") {
  const control = name && [...of.elements].find(e => e.name === name), line = name && $(`${prefix}${name}-error`);
  if (!line) return false;
  line.textContent = text;
  if (control) text ? control.setAttribute("aria-invalid", "true") : control.removeAttribute("aria-invalid");
  if (!text) return true;
  for (let fold = line.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  control?.focus();
  return true;
}
form.addEventListener("change", event => {
  const control = event.target;
  if (control.id === "condition") {
    const filter = $("filter");
    if (control.value) filter.value = [filter.value.trim(), control.value].filter(Boolean).join(" and ");
    control.value = "";
    return survey();
  }
  $("state").querySelector(".say")?.remove();  // what stopped the earlier choice
  if (READ.has(control.name)) survey(control.name === "filter" ? 0 : TYPING);
  if (shown) $("go-hint").textContent = "The answer below belongs to the earlier choice.";
});
form.addEventListener("submit", event => {
  event.preventDefault();
  clearTimeout(soon);
  goFromTop(collected());
});
$("hold").addEventListener("toggle", () => { if ($("hold").open && surveyed === null && chosen.size) survey(); });

// ---- The answer

function go(params) {
  selection = new URLSearchParams([...params].filter(([, value]) => value !== ""));
  history.pushState(null, "", `?${query()}`);
  return compare();
}
function goFromTop(params) {
  $("choose").open = $("hold").open = false;
  go(params);
  scrollTo(0, 0);
}
async function compare(newer = "") {
  const asked = query();
  for (const slot of Object.keys(running)) if (slot === "news" || slot.startsWith("section ")) running[slot].abort();
  answer.classList.add("old");
  try {
    const made = await (await ask(`answer?${asked}${newer && `&newer-than=${newer}`}`, {slot: "answer", told: working($("state"))})).json();
    await released(answer, "answer");
    $("state").replaceChildren();
    show(made, asked);
  } catch (error) {
    if (stopped(error)) return;
    if (!error.taken) return wrong(error, newer);
    const gated = [...selection].filter(([name]) => name.startsWith(GATE));  // beside the verdict stands what turns a direction
    selection = new URLSearchParams([...new URLSearchParams(error.taken), ...gated]);
    history.replaceState(null, "", `?${query()}${location.hash}`);
    return compare(newer);
  }
}
// A slider is not taken from under the hand that moves it.
async function released(place, slot) {
  while (place.querySelector("input[type=range]:active")) await pause(200, running[slot].signal);
}
function wrong(error, newer) {
  if (error.status !== 0 && error.status < 500) {  // what was on the page answers another question
    blank();
    if (error.status !== 401) { $("hold").hidden = $("go").hidden = !chosen.size; $("hold").open = true; }
  }
  $("state").replaceChildren();
  if (!mark(error.field, error.message)) $("state").replaceChildren(failed(error, () => compare(newer)));
}
function blank() {
  shown = null;
  answer.classList.remove("old");
  answer.replaceChildren();
  $("state").replaceChildren();
  $("title").textContent = document.title = "Which of your runs is really better?";
  $("about").textContent = "Choose experiments: the answer comes first, the evidence under it.";
}
function show(made, asked) {
  const first = !shown;
  shown = {...made, query: asked};
  for (const {id, name} of made.experiments || []) chosen.set(id, name);
  drawChosen();
  $("choose").open = $("hold").open = false;
  $("go-hint").textContent = "";
  if (surveyed !== asked) forgetSurvey();
  $("hold-hint").replaceChildren(...made.chips.map(({text, out}) => element("span", {class: out ? "chip out" : "chip"}, text)));
  $("title").replaceChildren("Is ", side(made, 0), " better than ", side(made, 1), "?");
  $("about").textContent = made.about;
  document.title = `${made.title} · mleval`;
  $("since")?.remove();
  const evidence = answer.querySelector("#evidence") || element("details", {class: "section evidence", id: "evidence"},
    element("summary", {}, element("h2", {}, "Evidence"), element("span", {class: "hint"})));
  for (const part of [...answer.children, ...evidence.querySelectorAll(".section")]) {
    if (part !== evidence && !made.sections.some(s => s.key === part.id)) part.remove();
  }
  let last = actions(made), proof = evidence.firstChild;
  answer.prepend(last);
  answer.append(evidence);
  answer.classList.remove("old");
  for (const part of made.sections) {  // what is open stays open, and in its place until its new content is there
    const old = answer.querySelector(`#${CSS.escape(part.key)}`), here = old || section(part);
    if (old) old.querySelector(".hint").textContent = part.hint; else (part.evidence ? proof : last).after(here);
    if (part.evidence) proof = here; else last = here;
    if (here.open || part.key === "doubts") load(part.key);  // paper has them, too
  }
  const titles = made.sections.filter(part => part.evidence).map(part => part.title);
  evidence.querySelector(".hint").textContent = titles.join(", ");
  sinceLastVisit(made);
  setTimeout(news, SOON);
  jump();
  tell(first ? `The answer is ready: ${made.title}.` : "The answer is up to date.");
  if (first || document.activeElement === document.body) answer.focus({preventScroll: true});
}
// A method of the question in the title; another one changes the question.
function side(made, at) {
  const list = element("select", {"aria-label": at ? "than which" : "which"}, ...made.methods.map(method => element("option", {value: method}, method)));
  list.value = made.pair[at];
  list.addEventListener("change", () => askAbout(...made.pair.map((method, i) => i === at ? list.value : method)));
  return list;
}
function askAbout(a, b) {
  if (a === b) [a, b] = [shown.pair[1], shown.pair[0]];
  const made = new URLSearchParams(selection);
  made.delete("pair");
  made.append("pair", a);
  made.append("pair", b);
  go(made);
}
// A click on a row of the ranking makes it the first of the question, with the shift key the second.
answer.addEventListener("click", event => {
  const row = event.target.closest("#ranking [data-key=ranking] tbody tr"), method = row?.querySelector("[data-method]")?.dataset.method;
  if (method === undefined || event.target.closest("button, a")) return;
  const [a, b] = shown.pair;
  if (event.shiftKey) askAbout(method === a ? b : a, method); else askAbout(method, method === b ? a : b);
});
// The margin was let go: what the gate says with it. Net flows are no measure: there it has the margins of measures that were dragged.
document.addEventListener("mleval:margin", async ({target, detail}) => {
  if (!shown) return;
  const asked = new URLSearchParams([...selection].filter(([name]) => !name.startsWith(GATE))), [a, b] = shown.pair;
  const margins = detail.own ? [String(detail.margin)] : detail.margins.map(pair => pair.join("="));
  const how = [["candidate", a], ["champion", b], ...margins.map(margin => ["margin", margin])];
  for (const [name] of how) asked.delete(name);
  for (const [name, value] of how) asked.append(name, value);
  const each = detail.margins.map(([measure, margin]) => `${measure} worse by ${margin} at most`);
  const by = detail.own ? `worse by ${detail.margin.toPrecision(2)} at most`
    : `each measure by itself, ${each.length ? `${each.join(", ")}, the others` : "each"} within the usual margin`;
  const place = target.querySelector(".gated") ?? element("p", {class: "gated", role: "status"}), made = element("div");
  target.querySelector(".margins").after(place);
  try {
    made.innerHTML = await (await ask(`gate?${asked}`, {slot: "margin", told: working(place)})).text();
    place.textContent = `May ${a} replace ${b}, ${by}? ${made.querySelector("[data-decision]").dataset.decision.toUpperCase()}. `;
  } catch (error) {
    if (stopped(error)) return;
    place.textContent = `The gate does not say: ${error.message} `;
  }
  place.append(button("Show how it judges", () => openGate(how).then(judge)));
});
// What has changed since this browser showed an answer to the same selection: it alone remembers.
function sinceLastVisit(made) {
  const asked = made.selection;
  const seen = visits(), before = seen[asked];
  if (before && before.made < made.made) {
    const more = made.runs - before.runs, parts = [];
    if (more > 0) parts.push(many(more, "new run"));
    if (before.leader !== made.leader) parts.push(`${made.leader} now leads, ${before.leader} led before`);
    else if (more > 0) parts.push(`${made.leader} still leads`);
    if (parts.length) answer.querySelector(".actions").after(element("p", {class: "since", id: "since"}, `Since your last visit: ${parts.join(", ")}.`));
  }
  delete seen[asked];
  const kept = [...Object.entries(seen), [asked, {made: made.made, runs: made.runs, leader: made.leader}]].slice(-VISITS);
  try { localStorage.setItem("mleval.visits", JSON.stringify(Object.fromEntries(kept))); } catch { /* private windows keep nothing */ }
}
function visits() {
  try { return JSON.parse(localStorage.getItem("mleval.visits")) || {}; } catch { return {}; }
}
// The section that the address names, once it is there.
async function jump() {
  const key = location.hash.slice(1), fold = key && answer.querySelector(`#${CSS.escape(key)}`);
  if (!fold || jumped === location.hash) return;
  jumped = location.hash;
  fold.open = true;
  if (fold.closest("#evidence")) $("evidence").open = true;
  if (key !== "evidence") await load(key);
  while (answer.querySelector(".body[aria-busy]")) await pause(100);  // what is above moves it
  fold.scrollIntoView();
}
let jumped = "";
addEventListener("hashchange", jump);
function section(part) {
  const fold = element("details", {class: `section ${part.key}`, id: part.key, open: part.open},
    element("summary", {}, element("h2", {}, part.title), element("span", {class: "hint"}, part.hint)), element("div", {class: "body"}));
  fold.addEventListener("toggle", () => { if (fold.open) load(part.key); });
  if (part.key === "over_time") fold.lastChild.before(lookBack(fold.lastChild));
  return fold;
}
// How far apart the moments are that are looked back on: days, or so many runs.
function lookBack(body) {
  const sizes = [5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].filter(n => 2 * n <= shown.runs).slice(-4);
  const each = element("select", {id: "each"}, element("option", {value: ""}, "day by day"),
    ...sizes.map(n => element("option", {value: n}, `by the last ${n.toLocaleString("en")} runs`)));
  each.addEventListener("change", () => { delete body.dataset.made; load("over_time"); });
  return element("label", {}, "Look back ", each);
}
async function load(key) {
  const body = $(key).querySelector(".body"), of = shown;
  if (!of || body.dataset.made === of.key + of.made || body.dataset.asked === of.key + of.made) return;
  body.dataset.asked = of.key + of.made;
  body.setAttribute("aria-busy", "true");
  try {
    const told = body.childElementCount ? undefined : working(body);
    const each = key === "over_time" && $("each").value, part = `part=${encodeURIComponent(key)}${each ? `&each=${each}` : ""}`;
    const response = await ask(`section?${part}&${of.query}`, {slot: `section ${key}`, told});
    if ((response.headers.get("X-Mleval-Made") ?? String(of.made)) !== String(of.made)) return compare();  // somebody had it made anew
    const html = await response.text();
    await released(body, `section ${key}`);
    body.dataset.made = of.key + of.made;  // before the sliders in it start: they heed what is of the same answer
    put(body, html);
    for (const {why, ways: list} of of.remedies.filter(doubt => doubt.at === key).reverse()) {  // beside the number that they concern
      for (const number of body.querySelectorAll(".said .verdict, .scroll:has([data-key=ranking])")) number.after(ways(list, `${why}:`));
    }
    clickable(body);
  } catch (error) {
    if (!stopped(error)) body.replaceChildren(failed(error, () => load(key)));
  } finally {
    if (body.dataset.asked === of.key + of.made) {  // else it is asked anew meanwhile
      delete body.dataset.asked;
      body.removeAttribute("aria-busy");
    }
  }
}

// ---- What can be done with it

function actions(made) {
  const address = new URL(`?${shown.query}`, location.href).href, files = element("ul");
  const stores = button("Store as run", store, {id: "store", disabled: Boolean(made.unwritable), title: made.unwritable || null});
  const share = menu("Share", element("div", {},
    element("p", {class: "buttons"}, button("Copy link", event => copy(address, "The link is", event.target)), button("Copy as text", copyText),
      stores, button("Print", () => print())),
    made.unwritable ? element("p", {class: "help"}, made.unwritable) : null,
    made.command ? element("p", {class: "title"}, "Command") : null, made.command ? element("pre", {tabindex: 0}, made.command) : null,
    made.command ? button("Copy command", event => copy(made.command, "The command is", event.target)) : null,
    element("p", {class: "title"}, "Download"), files));
  share.addEventListener("toggle", () => { if (share.open) listFiles(files); });
  return element("div", {class: "actions"}, share, element("span", {id: "stored"}), selection.has("weights") ? button("Weights by entropy again", () => {
    const made = new URLSearchParams(selection);
    made.delete("weights");
    go(made);
  }) : null, button("", () => compare(shown.made), {id: "news", class: "primary", hidden: true}));
}
async function copyText({target}) {
  try {
    copy(await (await ask(`download?file=report.txt&${shown.query}`, {slot: "text"})).text(), "The answer is", target);
  } catch (error) {
    if (!stopped(error)) $("state").replaceChildren(failed(error));
  }
}
async function listFiles(list) {  // what there is, asked when the menu is opened
  const {query} = shown;
  if (list.dataset.asked) return;
  list.dataset.asked = true;
  try {
    const names = await (await ask(`files?${query}`, {slot: "files", told: working(list)})).json();
    list.replaceChildren(...names.map(name => element("li", {},
      element("a", {href: `download?file=${encodeURIComponent(name)}&${query}`, download: name}, name))));
  } catch (error) {
    delete list.dataset.asked;
    if (!stopped(error)) list.replaceChildren(failed(error));
  }
}
function menu(title, content) {
  const fold = element("details", {class: "menu"}, element("summary", {}, title), element("div", {class: "sheet"}, content));
  fold.addEventListener("keydown", event => {
    if (event.key === "Escape" && fold.open) { fold.open = false; fold.querySelector("summary").focus(); }
  });
  return fold;
}
document.addEventListener("click", event => {
  for (const open of document.querySelectorAll("details.menu[open]")) if (!open.contains(event.target)) open.open = false;
  const way = event.target.closest("a.way");
  if (way && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    const wanted = new URLSearchParams(way.search);
    if (way.closest("#survey")) readSurvey(wanted); else goFromTop(wanted);  // what is not compared yet is set only
  }
});
async function store() {
  const place = $("stored"), token = document.querySelector("meta[name=mleval-token]").content;
  $("store").disabled = true;
  place.textContent = "Storing …";
  try {
    const response = await ask(`store?${shown.query}`, {slot: "store", method: "POST", headers: {"X-Mleval-Token": token}});
    const {run_id, address, left_out} = await response.json();
    const without = left_out.length ? `, without ${left_out.join(", ")}: too large for MLflow.` : ".";
    place.closest(".actions").querySelector(".menu").open = false;
    place.replaceChildren("Stored as ", element("a", {href: address}, `run ${run_id.slice(0, 8)}`), without);
    tell("The report is stored as a run.");
  } catch (error) {
    if (stopped(error)) return;
    const said = error.status === 403 ? element("span", {role: "alert"}, error.message) : failed(error);
    place.replaceChildren(said, error.reload ? button("Load again", () => location.reload()) : "");
  }
  $("store").disabled = false;
}
let weighing;
document.addEventListener("mleval:weights", event => {  // keys move a slider step by step: the tests wait for the last
  clearTimeout(weighing);
  const {own, weights = {}, exclude = []} = event.detail;
  if (own) return;
  weighing = setTimeout(() => {
    const made = new URLSearchParams(selection), pairs = Object.entries(weights).map(pair => pair.join("="));
    const kept = (made.get("weights") || "").split(",").filter(pair => pair.includes("=") && !exclude.some(m => pair.startsWith(`${m}=`)));
    if (pairs.length || kept.length) made.set("weights", (pairs.length ? pairs : kept).join(","));
    for (const measure of exclude) made.append("exclude-measure", measure);
    if (made.toString() !== query()) go(made);
  }, TYPING);
});
setInterval(news, NEWS);
document.addEventListener("visibilitychange", news);
async function news() {
  if (!shown || document.hidden || answer.classList.contains("old")) return;
  try {
    const found = (await (await ask(`news?since=${shown.made}&${shown.query}`, {slot: "news"})).json()).new, line = $("news");
    const n = found - shown.ahead;
    if (n <= 0 || !line) return;
    const text = `${many(n, "new run")} since ${new Date(shown.made).toLocaleTimeString([], {hour: "2-digit", minute: "2-digit"})}: compare again`;
    if (line.textContent !== text) tell(text);
    line.textContent = text;
    line.hidden = false;
  } catch (error) {
    if (error.status === 401 || error.status === 403) $("state").replaceChildren(failed(error));
  }
}

// ---- Details of a method, a dataset, a cell, a pair

function clickable(root) {
  for (const name of root.querySelectorAll("bdi[data-method], bdi[data-dataset], th[data-dataset]")) wrap(name, {...name.dataset});
  for (const table of root.querySelectorAll("table:has(th[data-dataset])")) {
    const heads = [...table.tHead.rows[0].cells];
    for (const row of table.tBodies[0].rows) {
      const method = row.querySelector("[data-method]")?.dataset.method;
      if (method !== undefined) heads.forEach((head, i) => { if (head.dataset.dataset) wrap(row.cells[i], {method, dataset: head.dataset.dataset}); });
    }
  }
}
function wrap(at, what) {
  const cell = at.matches("td"), label = cell ? `${titled(what)}: ${at.textContent}` : what.against ? titled(what) : null;
  const made = button("", () => openDetail(what), {class: "link", "aria-haspopup": "dialog", "aria-label": label});
  if (at.matches("td, th")) { made.append(...at.childNodes); at.append(made); } else { at.replaceWith(made); made.append(at); }
}
const titled = ({method, dataset, against}) => against ? `${method} against ${against}` : [method, dataset].filter(Boolean).join(" on ");
// Names in drawings are for the mouse; the tables hold the same for the keyboard.
document.addEventListener("click", event => {
  const at = event.target.closest("svg [data-method], svg [data-dataset]");
  if (at && shown) openDetail(at.dataset);
});
const trail = [];  // what was opened one from the other
async function openDetail(what) {
  const {method, dataset, against} = what, of = against ? "pair" : method && dataset ? "cell" : method ? "method" : "dataset";
  const asked = new URLSearchParams({of, ...method && {"the-method": method}, ...dataset && {"the-dataset": dataset}, ...against && {against}});
  const body = $("detail-body");
  trail.push(what);
  detail.querySelector(".back").hidden = trail.length < 2;
  $("detail-title").textContent = titled(what);
  if (!detail.open) detail.showModal();
  $("detail-title").focus();
  try {
    put(body, await (await ask(`detail?${asked}&${shown.query}`, {slot: "detail", told: working(body)})).text());
    clickable(body);
    if (against) body.append(element("p", {}, button(`May ${method} replace ${against}?`, () => {
      detail.close();
      openGate([["candidate", method], ["champion", against]]).then(judge);
    })));
  } catch (error) {
    if (!stopped(error)) body.replaceChildren(failed(error, () => openDetail(trail.pop())));
  }
}
detail.querySelector(".back").addEventListener("click", () => { trail.pop(); openDetail(trail.pop()); });
detail.querySelector(".close").addEventListener("click", () => detail.close());
detail.addEventListener("click", event => { if (event.target === detail) detail.close(); });
detail.addEventListener("close", () => {
  running.detail?.abort();
  trail.length = 0;
  $("detail-body").replaceChildren();
});

// ---- May one replace another? What is asked stands in the address, too, each name after "gate.".

const gate = $("gate"), GATE = "gate.";
const asking = () => [...new FormData(gate)].filter(([, value]) => value.trim());
const askedBefore = () => [...selection].filter(([name]) => name.startsWith(GATE)).map(([name, value]) => [name.slice(GATE.length), value]);

async function drawGate(set) {
  const place = $("gate-form"), asked = new URLSearchParams(set);
  for (const id of chosen.keys()) asked.append("experiment-id", id);
  try {
    put(place, await (await ask(`gate-form?${asked}`, {slot: "gate-form", told: working(place)})).text());
    const methods = new Set([...answer.querySelectorAll("#ranking bdi[data-method]")].map(name => name.dataset.method));
    $("gate-sides").append(...[...methods].map(method => element("option", {value: method}, "a method of the answer above")));
  } catch (error) {
    if (!stopped(error)) place.replaceChildren(failed(error, () => drawGate(set)));
  }
}
async function openGate(set) {
  await drawGate(set);
  $("may-replace").open = true;
  $("may-replace").scrollIntoView();
}
async function judge() {
  const place = $("gate-answer"), own = asking(), asked = new URLSearchParams(selection);
  for (const name of [...asked.keys()]) if (name.startsWith(GATE) || [...gate.elements].some(e => e.name === name)) asked.delete(name);
  for (const name of [...selection.keys()]) if (name.startsWith(GATE)) selection.delete(name);
  for (const [name, value] of own) { asked.append(name, value); selection.append(GATE + name, value); }
  history.replaceState(null, "", `?${query()}${location.hash}`);
  for (const line of gate.querySelectorAll(".error")) line.textContent = "";
  try {
    put(place, await (await ask(`gate?${asked}`, {slot: "gate", told: working(place)})).text());
    tell(place.querySelector("h3 + .body p")?.textContent || "");
  } catch (error) {
    if (stopped(error)) return;
    place.replaceChildren();
    if (!mark(error.field, error.message, gate, "gate-")) place.replaceChildren(failed(error, judge));
  }
}
gate.addEventListener("submit", event => { event.preventDefault(); judge(); });
$("may-replace").addEventListener("toggle", () => { if ($("may-replace").open && !$("gate-sides")) drawGate(askedBefore()); });

// ---- The address

function follow() {
  selection = new URLSearchParams(location.search);
  chosen.clear();
  for (const id of selection.getAll("experiment-id")) chosen.set(id, shown?.experiments?.find(e => e.id === id)?.name || "");
  drawChosen();
  for (const box of boxes()) box.checked = chosen.has(box.value);
  $("filter").value = selection.get("filter") || "";
  forgetSurvey();
  if (detail.open) detail.close();
  const gated = askedBefore();
  if (gated.length) openGate(gated).then(judge);
  if (chosen.size) return compare();
  running.answer?.abort();
  blank();
  $("choose").open = !gated.length;
}
addEventListener("popstate", follow);

follow();
