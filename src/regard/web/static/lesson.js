// A lesson whose parameters move: the last request counts, those before it are cancelled.
import { drawSpec, options, reachable } from "./page.js";

const name = document.querySelector("[data-lesson]").dataset.lesson;
const form = document.getElementById("parameters");
const [result, summary, chart, caption] = ["result", "summary", "chart", "caption"].map((id) => document.getElementById(id));
const status = document.getElementById("status");
let waiting, asking;

function query() {
  const values = new URLSearchParams();
  for (const input of form.querySelectorAll("[name]")) values.set(input.name, input.value);
  return values;
}

async function compute() {
  asking?.abort();
  const mine = (asking = new AbortController());
  const values = query();
  history.replaceState(null, "", values.size ? `?${values}` : location.pathname);
  result.dataset.busy = "true";
  const began = performance.now();
  const counting = setInterval(() => {
    status.textContent = `computing … ${Math.round((performance.now() - began) / 1000)} s`;
  }, 1000);
  mine.signal.addEventListener("abort", () => clearInterval(counting));
  try {
    const answer = await fetch(`/lessons/${name}/result.json?${values}&${options(chart)}`, { signal: mine.signal });
    clearInterval(counting);
    if (!answer.ok) return refuse(await answer.text());
    await show(await answer.json());
    result.dataset.busy = "false";
    result.dataset.milliseconds = String(Math.round(performance.now() - began));
    links(values);
  } catch (problem) {
    clearInterval(counting);
    if (problem.name !== "AbortError") refuse("The page does not answer: is `regard serve` still running?");
  }
}

async function show(found) {
  const checks = found.run.checks, failing = checks.filter((check) => !check.passed).length;
  summary.textContent = !failing
    ? (checks.length === 1 ? "The claim holds" : `The claim holds: all ${checks.length} checks`)
    : `${failing} of ${checks.length} ${checks.length === 1 ? "check" : "checks"} ${failing === 1 ? "fails" : "fail"}`;
  summary.classList.toggle("fails", failing > 0);
  status.textContent = `computed in ${found.seconds < 1 ? `${Math.max(1, Math.round(1000 * found.seconds))} ms` : `${found.seconds.toFixed(1)} s`}`;
  // All three were escaped where they were written, as parts of the lesson's page.
  caption.innerHTML = found.caption;
  document.getElementById("checks").innerHTML = found.checks;
  document.getElementById("table").innerHTML = found.table;
  reachable(result);
  chart.parentElement.setAttribute("aria-label", found.run.caption);
  await drawSpec(chart, found.chart);
}

function refuse(sentence) {
  result.dataset.busy = "false";
  status.textContent = sentence.trim();
}

function links(values) {
  const place = document.getElementById("links");
  const files = { SVG: "chart.svg", PNG: "chart.png", CSV: "numbers.csv", JSON: "numbers.json" };
  place.replaceChildren(...Object.entries(files).map(([label, file]) => {
    const link = document.createElement("a");
    link.href = `/lessons/${name}/${file}?${values}`;
    link.textContent = label;
    link.setAttribute("download", "");
    return link;
  }));
}

/** Three digits say enough between the ends of a slider. */
function rounded({ value, min, max }) {
  return value === min || value === max ? value : String(Number(Number(value).toPrecision(3)));
}

function soon(delay) {
  clearTimeout(waiting);
  waiting = setTimeout(compute, delay);
}

form.addEventListener("input", (event) => {
  const slider = event.target.dataset.for;
  if (slider) form.querySelector(`[name="${slider}"]`).value = rounded(event.target);
  const range = form.querySelector(`[data-for="${event.target.name}"]`);
  if (range) range.value = event.target.value;
  if (event.target.checkValidity()) soon(60);
  else status.textContent = event.target.validationMessage;
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  soon(0);
});
form.addEventListener("reset", () => {
  history.replaceState(null, "", location.pathname);
  location.reload();
});
document.getElementById("share").addEventListener("click", async () => {
  await navigator.clipboard.writeText(location.href);
  status.textContent = "address copied";
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => soon(0));
let width = chart.clientWidth;
addEventListener("resize", () => {
  if (chart.clientWidth !== width) soon(200);
  width = chart.clientWidth;
});
compute();
