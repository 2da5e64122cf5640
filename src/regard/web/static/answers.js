// A task's model answers a row, or says that it does not know.
import { drawSpec, options } from "./page.js";
import { ask, element, links, onWidth, percent } from "./playground_parts.js";

const page = document.querySelector("[data-playground]");
const base = page.dataset.playground, rows = Number(page.dataset.rows);
const [form, item, status, place, slider] = ["row", "item", "status", "answer", "slider"].map((id) => document.getElementById(id));
const sheet = document.querySelector(".answer-sheet");
let found = null, curve = null, threshold = null, waiting, turn;

// ---- the address -------------------------------------------------------------------------------
function query() {
  const values = new URLSearchParams();
  if (item.value !== "") values.set("item", item.value);
  else for (const field of form.querySelectorAll("textarea")) if (field.value) values.set(field.name, field.value);
  return values;
}

function address() {
  const values = query();
  if (threshold !== null) values.set("threshold", threshold);
  return `${base}/answers?${values}`;
}

function soon(delay) {
  clearTimeout(waiting);
  history.replaceState(null, "", address());
  waiting = setTimeout(refresh, delay);
}

// ---- the answer --------------------------------------------------------------------------------
async function refresh() {
  turn?.abort();
  const mine = (turn = new AbortController());
  const values = query(), began = performance.now();
  if (![...values].length) return idle();
  sheet.dataset.busy = "true";
  try {
    found = await ask(`${base}/answer.json?${values}`, mine.signal);
    show();
    sheet.dataset.busy = "false";
    sheet.dataset.milliseconds = String(Math.round(performance.now() - began));
    say("");
    fileLinks();
  } catch (problem) {
    if (problem.name === "AbortError") return;
    sheet.dataset.busy = "false";
    say(problem.message);
  }
}

function idle() {
  sheet.dataset.busy = "false";
  place.replaceChildren(element("p", { class: "quiet" }, "Type a row, or take one of dev."));
}

function say(sentence) {
  status.textContent = sentence;
  status.classList.toggle("bad", sentence !== "");
}

function show() {
  if (item.value !== "") {
    for (const field of form.querySelectorAll("textarea")) {
      const text = found.fields[field.name];
      field.value = text ?? "";
      field.disabled = text === null;
      field.placeholder = text === null ? "no text: it is taken from dev" : "";
    }
  }
  const warning = document.getElementById("warning");
  warning.hidden = !found.invalid.length;
  warning.className = "notice invalid";
  warning.textContent = found.invalid.length ? `INVALID: ${found.invalid.join("; ")}` : "";
  const knows = isConfident(), parts = [];
  parts.push(element("p", { class: `answer ${knows ? "" : "unknown"}` }, knows ? said(found.predicted) : "I don't know"));
  if (found.confidence != null) parts.push(sureness(knows));
  if (found.is_correct != null || "truth" in found || "truths" in found) parts.push(truth());
  if (found.probabilities.length) parts.push(bars(found.probabilities));
  if (found.start != null) parts.push(passage());
  if (found.best_score != null) parts.push(element("p", { class: "quiet" }, `Best span “${found.best}” scores ${found.best_score.toFixed(2)}, no answer ${found.null_score.toFixed(2)}.`));
  if (found.agreement != null) parts.push(element("p", { class: "quiet" }, `Probability of this answer ${percent(found.probability)}; ${percent(found.agreement)} of the sampled answers agree.`));
  if (found.reliability) parts.push(element("p", { class: "quiet" }, `On dev ${percent(found.reliability.accuracy)} [${percent(found.reliability.accuracy_low)}, ${percent(found.reliability.accuracy_high)}] of the ${found.reliability.n} answers with a confidence of ${found.reliability.low.toFixed(1)} to ${found.reliability.high.toFixed(1)} were right.`));
  if (found.found.length) parts.push(documents());
  place.replaceChildren(...parts);
}

function isConfident() {
  return found.confidence == null || threshold === null || found.confidence >= threshold;
}

function said(predicted) {
  if (predicted === "") return "No answer in the passage";
  if (found.found.length) return `Document ${predicted}`;
  return typeof predicted === "number" ? String(Number(predicted.toPrecision(4))) : String(predicted);
}

function sureness(knows) {
  const line = element("div", { class: "sureness" });
  const meter = element("meter", { min: 0, max: 1, value: found.confidence, "aria-label": "Confidence" });
  line.append(meter, element("span", {}, `${percent(found.confidence)} confident`));
  if (!knows) line.append(element("span", { class: "quiet" }, `below the threshold of ${threshold.toFixed(3)}: “${said(found.predicted)}” stays unsaid`));
  return line;
}

function truth() {
  const texts = [found.truths ?? found.truth].flat().map(String);
  const right = found.is_correct;
  const knows = isConfident();
  const verdict = right === true ? (knows ? "Right" : "It would be right") : right === false ? (knows ? "Wrong" : "It would be wrong") : "";
  return element("p", { class: right === false ? "bad" : right ? "right-answer" : "quiet" }, `${verdict ? `${verdict}. ` : ""}True: ${texts.join(" or ") || "no answer"}`);
}

function bars(probabilities) {
  const list = element("ul", { class: "labels" });
  for (const { label, p } of probabilities) {
    const line = element("li", {});
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    for (const [key, value] of Object.entries({ viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" })) bar.setAttribute(key, value);
    const fill = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    fill.setAttribute("width", 100 * p);
    fill.setAttribute("height", 4);
    bar.append(fill);
    line.append(element("span", { class: "label-name" }, label), bar, element("span", { class: "label-p" }, percent(p)));
    list.append(line);
  }
  return list;
}

/** The passage with the answer in it. */
function passage() {
  const text = found.fields.context ?? "", from = [...text].slice(0, found.start).join(""), after = [...text].slice(found.start + [...found.predicted].length).join("");
  const shown = element("blockquote", { class: "passage" });
  shown.append(from, element("mark", {}, found.predicted), after);
  return shown;
}

function documents() {
  const list = element("ol", { class: "documents" });
  for (const one of found.found) {
    const line = element("li", {});
    line.append(element("span", { class: "quiet" }, `${one.cosine.toFixed(3)} · ${one.document}${one.is_relevant ? " · relevant" : ""}`), element("p", {}, one.text));
    list.append(line);
  }
  return list;
}

// ---- the threshold -----------------------------------------------------------------------------
async function loadCurve() {
  if (!slider) return;
  curve = await ask(`${base}/risk.json`);
  slider.max = String(curve.points.length - 1);
  const own = found?.threshold;
  const asked = new URLSearchParams(location.search).get("threshold");
  const goal = asked === null ? null : Number(asked);
  // Points come by falling thresholds: the last answers everything.
  let at = curve.points.length - 1;
  if (goal !== null && Number.isFinite(goal)) {
    const first = curve.points.findIndex((point) => point.threshold < goal);
    at = first < 0 ? at : Math.max(0, first - 1);
    threshold = goal;
  }
  slider.value = String(at);
  choose(at, { keep: goal !== null });
  if (own != null) document.getElementById("own").textContent = `The training chose ${own.toPrecision(3)}, on dev too.`;
  await drawCurve();
}

function choose(at, { keep = false } = {}) {
  const point = curve.points[at];
  if (!keep) threshold = at === curve.points.length - 1 ? null : point.threshold;
  document.getElementById("threshold-value").textContent = threshold === null ? "none" : threshold.toFixed(3);
  document.getElementById("coverage").textContent = estimate(point.coverage, `${point.risk.n} of ${point.coverage.n} ${curve.items}`);
  document.getElementById("risk").textContent = estimate(point.risk, `n = ${point.risk.n}${point.risk.groups ? ` in ${point.risk.groups} groups` : ""}`);
  slider.setAttribute("aria-valuetext", `threshold ${threshold === null ? "none" : threshold.toFixed(3)}: answers ${percent(point.coverage.value)}, of these ${percent(point.risk.value)} wrong`);
  fileLinks();
  if (found) show();
}

function estimate({ value, low, high, no_interval: why }, n) {
  return low === null || low === undefined ? `${percent(value)} (${n}; no interval: ${why})` : `${percent(value)} [${percent(low)}, ${percent(high)}], ${n}`;
}

function fileLinks() {
  if (found) {
    const place = document.getElementById("save-answer");
    links(place, `${base}/answer`, query(), ["csv", "json"]);
  }
  if (curve) {
    const values = new URLSearchParams(threshold === null ? {} : { threshold });
    const place = document.getElementById("save-curve");
    links(place, `${base}/curve`, values, ["svg", "png"]);
    for (const format of ["csv", "json"]) place.append(element("a", { href: `${base}/risk.${format}?${values}`, download: "" }, format.toUpperCase()));
  }
}

let spec = null, drawn = "", drawing = false;

async function drawCurve() {
  const chart = document.getElementById("curve");
  const wanted = options(chart);
  if (wanted !== drawn) {
    drawn = wanted;
    spec = await ask(`${base}/curve.json?threshold=${curve.points.at(-1).threshold}&${wanted}`);
  }
  if (drawing) return;
  drawing = true;
  let at;
  do {
    at = Number(slider.value);
    const { coverage, risk } = curve.points[at];
    for (const layer of spec.layer.slice(2)) spec.datasets[layer.data.name] = [{ coverage: coverage.value, risk: risk.value }];
    await drawSpec(chart, spec);
  } while (at !== Number(slider.value));
  drawing = false;
}

slider?.addEventListener("input", () => {
  choose(Number(slider.value));
  history.replaceState(null, "", address());
  drawCurve();
});

// ---- the form ----------------------------------------------------------------------------------
form.addEventListener("input", (event) => {
  if (event.target !== item) item.value = "";
  soon(event.target === item ? 100 : 300);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  soon(0);
});
document.getElementById("draw").addEventListener("click", () => {
  item.value = String(Math.floor(Math.random() * rows));
  soon(0);
});
document.getElementById("share").addEventListener("click", async () => {
  await navigator.clipboard.writeText(location.href);
  status.textContent = "address copied";
});
const redraw = () => { if (curve) drawCurve(); };
onWidth(redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

if (![...query()].length && rows) item.value = "0";
refresh().then(loadCurve).catch((problem) => say(problem.message));
