// The page /mleval/: chooses, asks the server, shows what it answers. Every fragment comes escaped from the server; every text that
// this script sets itself is set as text. The address holds the whole selection.
"use strict";

const $ = id => document.getElementById(id);
const form = $("selection"), answer = $("answer"), detail = $("detail");
const NEWS = 30000, TYPING = 350, AGAIN = [400, 600, 900, 1500];

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
    Object.assign(this, {status, field: said.field, ways: said.ways || []});
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
    403: ["You may not see this.", "Ask whoever owns the experiments for permission to read them, or choose others."],
    413: ["These are too many runs for a page.", ""],
    503: ["The store does not answer.", "MLflow cannot reach its database or storage. Try again in a moment, or tell whoever runs the server."],
    504: ["This took too long.", "Choose fewer runs, methods or measures; mleval report has no time limit."],
  }[error.status] || [error.ways.length || error.status < 500 ? "" : "Something went wrong on the server.", ""];
  if (head) box.append(element("p", {}, element("b", {}, head)));
  for (const said of [error.message, text]) if (said) box.append(element("p", {}, said));
  if (error.ways.length) box.append(ways(error.ways));
  if (error.status === 401) box.append(button("Log in again", () => location.reload(), {class: "primary"}));
  else if (again && (error.status === 0 || error.status >= 500)) box.append(button("Try again", again));
  return box;
}
function ways(list) {
  const items = list.map(way => element("li", {}, element("a", {class: "way", href: `?${way.query}`}, way.what[0].toUpperCase() + way.what.slice(1))));
  return withChanges(element("div", {class: "ways"}, element("p", {class: "title"}, "What you can do"), element("ul", {}, ...items)));
}
// Beside each way, what it would change.
function withChanges(root) {
  const now = new Set([...selection].map(pair => pair.join(": ")));
  for (const way of root.querySelectorAll("a.way")) {
    const more = [...new URLSearchParams(way.search)].map(pair => pair.join(": ")).filter(text => !now.has(text) && !text.startsWith("experiment-id"));
    if (more.length) way.after(" ", element("span", {class: "why"}, more.join(" · ")));
  }
  return root;
}
function working(place) {
  const bar = element("progress", {"aria-label": "Progress"}), text = element("span", {}, "Asking the server …");
  place.replaceChildren(element("p", {class: "working"}, bar, " ", text));
  return ({step = "Working", done = 0, total = 0}) => {
    if (total) { bar.max = total; bar.value = done; } else bar.removeAttribute("value");
    text.textContent = total > 1 ? `${step}: ${done.toLocaleString("en")} of ${total.toLocaleString("en")}` : `${step} …`;
  };
}
// Put a fragment of the server in its place; where the reader stood in the old one, he stands in the new one.
function put(place, html) {
  const at = place.contains(document.activeElement) ? document.activeElement : null;
  const same = at && (at.id ? `#${CSS.escape(at.id)}` : [...at.attributes].filter(a => /^(name|value|data-.*)$/.test(a.name))
    .map(a => `[${a.name}="${CSS.escape(a.value)}"]`).join(""));
  place.innerHTML = html;
  for (const time of place.querySelectorAll("time")) ago(time);
  if (same) place.querySelector(same)?.focus();
  document.dispatchEvent(new CustomEvent("mleval:fragment", {detail: place}));
}
function ago(time) {
  const seconds = (new Date(time.dateTime) - Date.now()) / 1000;
  const [unit, size] = [["day", 86400], ["hour", 3600], ["minute", 60]].find(([, size]) => -seconds >= size) || ["minute", 60];
  time.title = new Date(time.dateTime).toLocaleString();
  if (-seconds < 90 * 86400) time.textContent = new Intl.RelativeTimeFormat("en", {numeric: "auto"}).format(Math.round(seconds / size), unit);
}
async function copy(text, what) {
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
}

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
  $("chosen").replaceChildren(...[...chosen].map(([id, name]) => element("li", {}, element("bdi", {}, name || id),
    button("×", () => choose(id, name, false), {"aria-label": `Leave out ${name || id}`}))));
  const names = [...chosen].map(([id, name]) => name || id);
  $("chosen-hint").textContent = names.length > 3 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", ");
  $("hold").hidden = $("go").hidden = !chosen.size;
}
function choose(id, name, wanted) {
  wanted ? chosen.set(id, name) : chosen.delete(id);
  for (const box of boxes()) if (box.value === id) box.checked = wanted;
  drawChosen();
  if (chosen.size) { $("hold").open = true; survey(TYPING); } else running.survey?.abort();
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
const READ = new Set(["filter", "method-by", "dataset-by", "folds-by", "repeats-by", "children"]);

let soon;
function survey(wait = 0) {
  clearTimeout(soon);
  soon = setTimeout(readSurvey, wait);
}
let surveyed = null;
async function readSurvey() {
  const wanted = collected(), place = $("survey");
  for (const old of form.querySelectorAll("[aria-invalid]")) mark(old.name, "");
  place.setAttribute("aria-busy", "true");
  if (!place.childElementCount) working(place);
  try {
    const told = ({step, done, total}) => { $("hold-hint").textContent = $("go-hint").textContent = total > 1 ? `${step}: ${done} of ${total}` : `${step || "reading"} …`; };
    const html = await (await ask(`survey?${wanted}`, {slot: "survey", told})).text();
    put(place, html);
    withChanges(place);
    for (const row of place.querySelectorAll("[data-experiment]")) if (chosen.has(row.dataset.experiment)) chosen.set(row.dataset.experiment, row.dataset.name);
    drawChosen();
    surveyed = wanted.toString();
    $("hold-hint").textContent = $("facts")?.textContent || "";
    $("go-hint").textContent = "";
    marked();
  } catch (error) {
    if (stopped(error)) return;
    $("go-hint").textContent = "";
    if (!mark(error.field, error.message)) place.replaceChildren(failed(error, survey));
  }
  place.removeAttribute("aria-busy");
}
// The error of a field beside the field; whether there is such a field.
function mark(name, text) {
  const control = name && [...form.elements].find(e => e.name === name), line = name && $(`${name}-error`);
  if (!control || !line) return false;
  line.textContent = text;
  text ? control.setAttribute("aria-invalid", "true") : control.removeAttribute("aria-invalid");
  if (text) {
    for (let fold = control.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    control.focus();
  }
  return true;
}
// Whether what the controls say is what the answer was made with.
function marked() {
  const other = shown && collected().toString() !== shown.query;
  $("go-hint").textContent = other ? "The answer below is to the earlier choice." : "";
  answer.classList.toggle("old", Boolean(other));
}
form.addEventListener("change", event => {
  const control = event.target;
  if (control.id === "condition") {
    const filter = $("filter");
    if (control.value) filter.value = [filter.value.trim(), control.value].filter(Boolean).join(" and ");
    control.value = "";
    return survey();
  }
  if (READ.has(control.name)) survey(control.name === "filter" ? 0 : TYPING);
  marked();
});
form.addEventListener("submit", event => {
  event.preventDefault();
  clearTimeout(soon);
  go(collected());
});
$("hold").addEventListener("toggle", () => { if ($("hold").open && surveyed === null && chosen.size) survey(); });

// ---- The answer

function go(params, {push = true, after = ""} = {}) {
  selection = new URLSearchParams([...params].filter(([, value]) => value !== ""));
  if (push) history.pushState(null, "", query() ? `?${query()}` : location.pathname);
  compare(after);
}
async function compare(after = "") {
  const asked = query();
  running.news?.abort();
  for (const slot of Object.keys(running)) if (slot.startsWith("section ")) running[slot].abort();
  const bar = element("div", {class: "bar"});
  answer.querySelectorAll(":scope > .bar.now, :scope > .say").forEach(e => e.remove());
  bar.classList.add("now");
  answer.prepend(bar);
  answer.classList.add("old");
  answer.setAttribute("aria-busy", "true");
  const told = working(bar);
  $("go-hint").textContent = "";
  try {
    const made = await (await ask(`answer?${asked}${after && `&newer-than=${after}`}`, {slot: "answer", told})).json();
    bar.remove();
    show(made, asked);
  } catch (error) {
    if (stopped(error)) return bar.remove();
    bar.remove();
    wrong(error, after);
  } finally {
    if (!running.answer || running.answer.signal.aborted || !answer.querySelector(".bar.now")) answer.removeAttribute("aria-busy");
  }
}
function wrong(error, after) {
  if (error.status !== 0 && error.status < 500) {  // what was on the page answers another question
    shown = null;
    answer.replaceChildren();
    answer.classList.remove("old");
    $("title").textContent = "Which of your runs is really better?";
    $("about").textContent = "";
  }
  answer.prepend(failed(error, () => compare(after)));
  if (error.field) {
    $("hold").hidden = $("go").hidden = false;
    $("hold").open = true;
    mark(error.field, error.message);
  }
  if (error.status === 409 || error.status === 413) { $("hold").open = true; if (surveyed === null) survey(); }
}
function show(made, asked) {
  const first = !shown, kept = new Map([...answer.querySelectorAll("details.section")].map(d => [d.id, d.open]));
  shown = {...made, query: asked};
  for (const {id, name} of made.experiments || []) chosen.set(id, name);
  drawChosen();
  $("choose").open = $("hold").open = false;
  if (surveyed !== null && surveyed !== asked) { surveyed = null; $("survey").replaceChildren(); }
  $("hold-hint").textContent ||= made.runs === undefined ? "" : many(made.runs, "run");
  $("title").textContent = made.title;
  $("about").textContent = made.about;
  document.title = `${made.title} · mleval`;
  const contents = element("nav", {"aria-label": "Contents"}), sections = made.sections.map(part => section(part, kept));
  for (const part of made.sections) contents.append(button(part.title, () => reach(part.key)));
  answer.replaceChildren(actions(made), contents, ...sections);
  answer.classList.remove("old");
  tell(first ? `The answer is ready: ${made.title}.` : "The answer is up to date.");
  if (first) answer.focus({preventScroll: true});
}
function section(part, kept) {
  const body = element("div", {class: "body"}), fold = element("details", {class: `section ${part.key}`, id: part.key},
    element("summary", {}, element("h2", {}, part.title), part.hint ? element("span", {class: "hint"}, part.hint) : null), body);
  fold.addEventListener("toggle", () => { if (fold.open) load(part.key); });
  fold.open = kept.has(part.key) ? kept.get(part.key) : part.open;
  return fold;
}
async function load(key) {
  const fold = $(key), body = fold.querySelector(".body"), of = shown;
  if (body.dataset.made === String(of.made) || body.getAttribute("aria-busy")) return;
  body.setAttribute("aria-busy", "true");
  try {
    const response = await ask(`section?part=${encodeURIComponent(key)}&${of.query}`, {slot: `section ${key}`, told: working(body)});
    if (response.headers.get("X-Mleval-Made") && response.headers.get("X-Mleval-Made") !== String(of.made)) return compare();
    put(body, await response.text());
    clickable(body);
    body.dataset.made = of.made;
  } catch (error) {
    if (!stopped(error)) body.replaceChildren(failed(error, () => load(key)));
  } finally {
    body.removeAttribute("aria-busy");
  }
}
function reach(key) {
  const fold = $(key);
  fold.open = true;
  fold.scrollIntoView({behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth", block: "start"});
  fold.querySelector("summary").focus({preventScroll: true});
}

// ---- What can be done with it

function actions(made) {
  const files = element("ul", {}, ...made.files.map(name => element("li", {},
    element("a", {href: `download?file=${encodeURIComponent(name)}&${shown.query}`, download: name}, name))));
  const link = button("Copy link", () => copy(new URL(`?${shown.query}`, location.href).href, "The link is"));
  const bar = element("div", {class: "actions"}, link, button("Store as run", store, {id: "store"}), menu("Download", files),
    made.command ? menu("Command", element("div", {}, element("pre", {tabindex: 0}, made.command),
      button("Copy command", () => copy(made.command, "The command is")))) : null,
    button("Print", print), element("button", {type: "button", id: "news", class: "primary", hidden: true}), element("span", {id: "stored"}));
  bar.querySelector("#news").addEventListener("click", () => compare(shown.made));
  return bar;
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
    go(new URLSearchParams(way.search));
  }
});
async function store() {
  const place = $("stored"), token = document.querySelector("meta[name=mleval-token]").content;
  $("store").disabled = true;
  place.textContent = "Storing …";
  try {
    const response = await ask(`store?${shown.query}`, {slot: "store", method: "POST", headers: {"X-Mleval-Token": token}});
    const {run_id, address} = await response.json();
    place.replaceChildren("Stored as ", element("a", {href: address}, `run ${run_id.slice(0, 8)}`), ".");
    tell("The report is stored as a run.");
  } catch (error) {
    if (!stopped(error)) place.replaceChildren(failed(error));
  }
  $("store").disabled = false;
}
async function print() {
  for (const part of shown.sections) $(part.key).open = true;
  tell("Loading all sections …");
  while (answer.querySelector(".body[aria-busy]") || [...answer.querySelectorAll(".body")].some(b => !b.childElementCount)) await pause(100);
  tell("");
  window.print();
}
document.addEventListener("mleval:weights", event => {
  const made = new URLSearchParams(selection), weights = Object.entries(event.detail.weights || {});
  weights.length ? made.set("weights", weights.map(pair => pair.join("=")).join(",")) : made.delete("weights");
  if (made.toString() !== query()) go(made);
});
setInterval(news, NEWS);
document.addEventListener("visibilitychange", news);
async function news() {
  if (!shown || document.hidden || answer.classList.contains("old")) return;
  try {
    const {new: n} = await (await ask(`news?since=${shown.made}&${shown.query}`, {slot: "news"})).json(), line = $("news");
    if (!n || !line) return;
    const text = `${many(n, "new run")} since ${new Date(shown.made).toLocaleTimeString([], {hour: "2-digit", minute: "2-digit"})}: compare again`;
    if (line.textContent !== text) tell(text);
    line.textContent = text;
    line.hidden = false;
  } catch (error) {
    if (error.status === 401 || error.status === 403) answer.prepend(failed(error));
  }
}

// ---- Details of a method, a dataset, a cell, a pair

function clickable(root) {
  for (const at of root.querySelectorAll("[data-method], [data-dataset]")) {
    if (at.closest("button") || at.querySelector("[data-method], [data-dataset], input")) continue;
    if (at.closest("svg")) { at.classList.add("clickable"); continue; }  // the tables hold the same for the keyboard
    const inside = at.matches("td, th"), made = button("", () => {}, {class: "link", "aria-haspopup": "dialog"});
    if (inside) { made.append(...at.childNodes); at.append(made); } else { at.replaceWith(made); made.append(at); }
    Object.assign(made.dataset, at.dataset);
  }
}
document.addEventListener("click", event => {
  const at = event.target.closest("button.link, svg .clickable");
  if (at && shown) openDetail(at.dataset);
});
async function openDetail({method, dataset, against}) {
  const of = against ? "pair" : method && dataset ? "cell" : method ? "method" : "dataset";
  const asked = new URLSearchParams({of, ...method && {method}, ...dataset && {dataset}, ...against && {against}});
  const title = against ? `${method} against ${against}` : [method, dataset].filter(Boolean).join(" on ");
  $("detail-title").textContent = title;
  const body = $("detail-body");
  if (!detail.open) detail.showModal();
  $("detail-title").focus();
  try {
    const html = await (await ask(`detail?${asked}&${shown.query}`, {slot: "detail", told: working(body)})).text();
    put(body, html);
    clickable(body);
    const own = body.querySelector("h2");
    if (own) { $("detail-title").textContent = own.textContent; own.remove(); }
  } catch (error) {
    if (!stopped(error)) body.replaceChildren(failed(error, () => openDetail({method, dataset, against})));
  }
}
detail.querySelector(".close").addEventListener("click", () => detail.close());
detail.addEventListener("click", event => { if (event.target === detail) detail.close(); });
detail.addEventListener("close", () => { running.detail?.abort(); $("detail-body").replaceChildren(); });

// ---- The address

function follow() {
  selection = new URLSearchParams(location.search);
  chosen.clear();
  for (const id of selection.getAll("experiment-id")) chosen.set(id, shown?.experiments?.find(e => e.id === id)?.name || "");
  drawChosen();
  for (const box of boxes()) box.checked = chosen.has(box.value);
  $("filter").value = selection.get("filter") || "";
  surveyed = null;
  $("survey").replaceChildren();
  if (detail.open) detail.close();
  if (chosen.size || selection.getAll("experiment-name").length) return compare();
  running.answer?.abort();
  shown = null;
  answer.replaceChildren();
  $("choose").open = true;
}
addEventListener("popstate", follow);

// Paper shows what was opened, then the page is as it was.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...answer.querySelectorAll("details.fold:not([open])")];
  for (const part of folded) part.open = true;
});
addEventListener("afterprint", () => { for (const part of folded) part.open = false; });

follow();
