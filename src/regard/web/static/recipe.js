// A recipe while it is filled in: checked as somebody types, measured once they pause.
import { reachable } from "./page.js";

const form = document.getElementById("recipe");
const at = (id) => document.getElementById(id);
const [toml, problems, counts, forecast, status, download] = ["toml", "problems", "counts", "forecast", "status", "download"].map(at);
const MAX_ADDRESS = 1800; // an address that a server and a chat still take
let checking, measuring, waiting, pausing, valid = false;

/** What stands in the form, by key; what has its default is left out. */
function texts() {
  const values = {};
  for (const input of form.querySelectorAll("[data-key]")) {
    if (input.type === "checkbox") {
      if (String(input.checked) !== input.dataset.default) values[input.dataset.key] = String(input.checked);
    } else if (input.value.trim()) values[input.dataset.key] = input.value;
  }
  return values;
}

function post(address, values, signal) {
  return fetch(address, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ values }),
    signal,
  });
}

async function check() {
  checking?.abort();
  measuring?.abort();
  clearTimeout(pausing);
  const mine = (checking = new AbortController());
  const values = texts();
  remember(values);
  form.dataset.busy = "true";
  try {
    const answer = await post("/recipe/check", values, mine.signal);
    if (!answer.ok) return say(await answer.text());
    show(await answer.json(), values);
  } catch (problem) {
    if (problem.name !== "AbortError") say("The page does not answer: is `regard serve` still running?");
  }
}

function show(found, values) {
  toml.textContent = found.toml;
  counts.innerHTML = found.counts; // escaped where it was written
  mark(found.errors);
  count(values);
  valid = found.name !== "";
  for (const id of ["train", "save"]) at(id).disabled = !valid;
  download.setAttribute("aria-disabled", String(!valid));
  download.setAttribute("download", `${found.name || "recipe"}.toml`);
  form.dataset.busy = "false";
  say("");
  reachable(document);
  forecast.dataset.busy = String(valid);
  if (valid) pausing = setTimeout(() => measure(values), 700);
  else forecast.replaceChildren(paragraph("Measured once nothing is wrong."));
}

/** A sentence at its field; those of no field in sight stand above the TOML. */
function mark(errors) {
  for (const old of form.querySelectorAll(".wrong")) old.remove();
  for (const old of form.querySelectorAll("[aria-invalid]")) old.removeAttribute("aria-invalid");
  const homeless = [];
  for (const [key, sentence] of Object.entries(errors)) {
    const row = form.querySelector(`[data-row="${CSS.escape(key)}"]`) ?? form.querySelector(`[data-row^="${CSS.escape(key)}."]`);
    if (!row || !key) { homeless.push(paragraph(sentence)); continue; }
    const wrong = paragraph(sentence);
    wrong.className = "wrong";
    wrong.id = `w-${key}`;
    row.append(wrong);
    const input = row.querySelector("[data-key]");
    input?.setAttribute("aria-invalid", "true");
    row.closest("details")?.setAttribute("open", "");
  }
  const sentences = Object.keys(errors).length - homeless.length;
  if (sentences) homeless.push(paragraph(sentences === 1 ? "One setting is wrong: it says why." : `${sentences} settings are wrong: each says why.`));
  problems.replaceChildren(...homeless);
  problems.hidden = homeless.length === 0;
}

function paragraph(text) {
  const one = document.createElement("p");
  one.textContent = text;
  return one;
}

/** How many settings of each table are given, and which. */
function count(values) {
  for (const row of form.querySelectorAll("[data-row]")) row.classList.toggle("given", row.dataset.row in values);
  for (const place of form.querySelectorAll("[data-changed]")) {
    const n = Object.keys(values).filter((key) => key.startsWith(`${place.dataset.changed}.`)).length;
    place.textContent = n ? `${n} set` : "";
  }
}

async function measure(values) {
  measuring?.abort();
  const mine = (measuring = new AbortController());
  forecast.dataset.busy = "true";
  if (!forecast.querySelector("dl")) forecast.replaceChildren(paragraph("Being measured."));
  try {
    const answer = await post("/recipe/forecast", values, mine.signal);
    if (!answer.ok) return forecast.replaceChildren(paragraph(await answer.text()));
    const found = await answer.json();
    forecast.innerHTML = found.forecast; // escaped where it was written
    counts.innerHTML = found.counts;
    reachable(document);
  } catch (problem) {
    if (problem.name !== "AbortError") forecast.replaceChildren(paragraph("The page does not answer."));
    else return;
  }
  forecast.dataset.busy = "false";
}

function remember(values) {
  const query = new URLSearchParams(values).toString();
  const short = query.length < MAX_ADDRESS;
  if (short) {
    history.replaceState(null, "", `/recipe?${query}`);
    download.href = `/recipe/recipe.toml?${query}`;
  }
  download.hidden = !short;
}

function say(sentence) {
  status.textContent = sentence.trim();
}

async function choose(select) {
  const place = form.querySelector(`[data-part-of="${CSS.escape(select.dataset.part)}"]`);
  const name = select.value || (select.dataset.part === "objective" ? "" : select.dataset.default);
  if (!name) place.replaceChildren();
  else {
    const answer = await fetch(`/recipe/parts/${select.dataset.catalog}/${name}?key=${select.dataset.part}`);
    if (!answer.ok) return say(await answer.text());
    place.innerHTML = await answer.text(); // escaped where it was written
  }
}

form.addEventListener("input", async (event) => {
  const input = event.target;
  if (!input.dataset.key) return;
  for (const other of form.querySelectorAll(`[data-key="${CSS.escape(input.dataset.key)}"]`)) {
    if (other !== input) other.value = ""; // a number, or a file
  }
  if (input.dataset.part) await choose(input);
  clearTimeout(waiting);
  waiting = setTimeout(check, 150);
});
form.addEventListener("submit", (event) => event.preventDefault());
at("start-from").addEventListener("change", (event) => event.target.form.requestSubmit());

at("copy").addEventListener("click", async () => {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(toml.textContent);
    return say("copied");
  }
  getSelection().selectAllChildren(toml); // only this machine's own address may write to it
  say("selected: copy it by Ctrl-C");
});
at("save").addEventListener("click", () => send("/recipe/save", (found) => say(found.said)));
at("train").addEventListener("click", () => send("/recipe/train", (found) => location.assign(found.address)));

async function send(address, then) {
  for (const id of ["train", "save"]) at(id).disabled = true;
  measuring?.abort();
  try {
    const answer = await post(address, texts());
    if (answer.ok) return then(await answer.json());
    say(await answer.text());
  } catch {
    say("The page does not answer: is `regard serve` still running?");
  } finally {
    for (const id of ["train", "save"]) at(id).disabled = !valid;
  }
}
check();
