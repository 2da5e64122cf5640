// A model writes: its text token by token, what else was probable, branches, heads and layers.
import { reachable } from "./page.js";
import { percent, level, element, ask, links, onWidth } from "./playground_parts.js";

const base = document.querySelector("[data-playground]").dataset.playground;
const [prompt, form, text, card, status, sheet] = ["prompt", "settings", "text", "card", "status"].map((id) => document.getElementById(id)).concat(document.querySelector(".sheet"));
const [headsTable, lensTable, positions] = ["heads-table", "lens-table", "positions"].map((id) => document.getElementById(id));
const MAX_ADDRESS = 7800, MAX_OTHERS = 8, MAX_HEADS = 64;

// What the address says: settings of the form, the branch that is shown, others, heads that are off.
const state = { branches: [], others: [], off: [], shown: null };

// ---- the address -------------------------------------------------------------------------------
const chain = (pairs) => pairs.map((pair) => pair.join(".")).join("-");
const unchain = (words) => (words ? words.split("-").map((pair) => pair.split(".").map(Number)) : []);
const same = (a, b) => chain(a) === chain(b);

function query() {
  const values = new URLSearchParams({ prompt: prompt.value });
  for (const input of form.querySelectorAll("[name]")) {
    if (input.value !== "" && Number(input.value) !== Number(input.dataset.default)) values.set(input.name, input.value);
  }
  if (state.branches.length) values.set("branches", chain(state.branches));
  if (state.off.length) values.set("off", chain(state.off));
  return values;
}

function address() {
  const values = query();
  if (state.others.length) values.set("others", state.others.map(chain).join("_"));
  if (positions.value !== positions.defaultValue) values.set("positions", positions.value);
  return `${base}?${values}`;
}

/** The form is as the server wrote it, and perhaps changed since: only going back fills it again. */
function read({ fill = false } = {}) {
  const values = new URLSearchParams(location.search);
  if (fill) {
    if (values.has("prompt")) prompt.value = values.get("prompt");
    for (const input of form.querySelectorAll("[name]")) set(input, values.get(input.name) ?? input.dataset.default);
  }
  state.branches = unchain(values.get("branches"));
  state.others = values.has("others") ? values.get("others").split("_").map(unchain) : [];
  state.off = unchain(values.get("off"));
}

function set(input, value) {
  input.value = value;
  const range = form.querySelector(`[data-for="${input.name}"]`);
  if (range) range.value = value;
}

// ---- asking ------------------------------------------------------------------------------------
let waiting, turn;

function soon(delay, { step = false } = {}) {
  clearTimeout(waiting);
  history[step ? "pushState" : "replaceState"](null, "", address());
  waiting = setTimeout(refresh, delay);
}

async function refresh() {
  turn?.abort();
  const mine = (turn = new AbortController());
  close();
  const values = query(), began = performance.now();
  if (String(values).length > MAX_ADDRESS) return say("This is too long for an address: shorten the prompt.");
  sheet.dataset.busy = "true";
  try {
    const found = await ask(`${base}/text.json?${values}`, mine.signal);
    show(found);
    sheet.dataset.busy = "false";
    sheet.dataset.milliseconds = String(Math.round(performance.now() - began));
    say("");
    for (const view of ["text", "heads", "lens"]) links(document.getElementById(`save-${view}`), `${base}/${view}`, values);
    await showOthers(mine.signal);
    // One after the other: the worker that has the model answers all of them.
    await showHeads(values, mine.signal);
    await showLens(values, mine.signal);
  } catch (problem) {
    if (problem.name === "AbortError") return;
    sheet.dataset.busy = "false";
    say(problem.message);
    if (!state.shown) text.replaceChildren();
  }
}

function say(sentence) {
  status.textContent = sentence;
  status.classList.toggle("bad", sentence !== "");
}

// ---- the text ----------------------------------------------------------------------------------
function show(found) {
  state.shown = found;
  const flow = document.createDocumentFragment();
  found.tokens.forEach((token, n) => {
    flow.append(tokenElement(token, n));
    if (token.piece.includes("\n")) flow.append(document.createElement("br"));
  });
  if (!found.stopped) {
    const next = element("span", { class: "token next", role: "button", tabindex: "-1", "aria-haspopup": "dialog", "aria-label": "What comes next", "data-n": found.tokens.length }, "+");
    flow.append(next);
  }
  text.replaceChildren(flow);
  text.querySelector(".token")?.setAttribute("tabindex", "0");
  losses(found);
  wholeText(found);
  const warning = document.getElementById("warning");
  warning.hidden = !found.invalid.length;
  warning.className = "notice invalid";
  warning.textContent = found.invalid.length ? `INVALID: ${found.invalid.join("; ")}` : "";
}

function tokenElement(token, n) {
  const isEnd = token.piece === "" && n === state.shown.tokens.length - 1 && state.shown.stopped;
  const visible = isEnd ? "■" : token.piece.replaceAll("\n", "⏎");
  const p = token.probability;
  const label = `${isEnd ? "the end of the text" : token.label}${p === null ? "" : `, probability ${percent(p)}, rank ${token.rank}`}${token.origin === "chosen" ? ", chosen by you" : ""}`;
  const attributes = { class: `token ${token.origin}${isEnd ? " end" : ""}`, role: "button", tabindex: "-1", "aria-haspopup": "dialog", "aria-label": label, "data-n": n };
  if (p !== null) attributes["data-level"] = level(p);
  return element("span", attributes, visible || "∅");
}

function losses(found) {
  const { prompt: given, continuation: written } = found.loss;
  const parts = [];
  if (written.n) parts.push(`${written.mean.toFixed(2)} nats a token over the ${written.n} after the prompt`);
  if (given.n) parts.push(`${given.mean.toFixed(2)} over ${given.n} of the prompt`);
  document.getElementById("losses").textContent = parts.length ? `Loss of this text: ${parts.join(", ")}.` : "";
}

function wholeText(found) {
  const place = document.getElementById("whole");
  place.hidden = !found.whole;
  if (!found.whole) return place.replaceChildren();
  const { pieces, departs_at: departs, loss, loss_without: without, n } = found.whole;
  const rise = without - loss, count = found.off.length;
  const verdict = element("p", { class: "rise" }, `Without ${count === 1 ? "this head" : `these ${count} heads`} the loss of the first text ${rise >= 0 ? "rises" : "falls"} from ${loss.toFixed(2)} to ${without.toFixed(2)} nats a token (${rise >= 0 ? "+" : "−"}${Math.abs(rise).toFixed(2)}, over its ${n} tokens).`);
  const before = element("p", { class: "before" });
  const cut = departs ?? pieces.length;
  before.append(element("span", { class: "quiet" }, departs === null ? "All heads write the same: " : "All heads write: "), pieces.slice(0, cut).join(""));
  if (departs !== null) before.append(element("mark", {}, pieces.slice(cut).join("") || "■"));
  place.replaceChildren(verdict, before);
}

// ---- a token's card ----------------------------------------------------------------------------
let opened = null, pinned = false, hovering;

function open(token, { pin = false } = {}) {
  const n = Number(token.dataset.n), found = state.shown;
  const isNext = n === found.tokens.length;
  const { alternatives, probability, rank, drawn, label } = isNext ? { alternatives: found.next, label: "next" } : found.tokens[n];
  if (opened && opened !== token) opened.classList.remove("open");
  opened = token;
  pinned = pin;
  token.classList.add("open");
  const title = element("p", { class: "card-title" }, isNext ? "What comes next" : label);
  card.replaceChildren(title);
  if (probability != null) {
    card.append(element("p", { class: "card-numbers" }, `${percent(probability)} probable · rank ${rank} · ${(-Math.log2(probability)).toFixed(1)} bits${drawn === null || Number(field("beam")) ? "" : ` · drawn at ${percent(drawn)}`}`));
  } else if (!isNext) {
    card.append(element("p", { class: "card-numbers" }, n ? "What stood before it has left the context." : "It has nothing before it."));
  }
  const list = element("ul", {});
  for (const one of alternatives) list.append(alternative(one, n, !isNext && one.id === found.tokens[n].id));
  if (alternatives.length) card.append(list);
  card.hidden = false;
  place(token);
}

function alternative(one, n, isTaken) {
  const item = element("li", {});
  const button = element("button", { type: "button", class: "alternative", "data-id": one.id, "data-at": n });
  if (isTaken) button.setAttribute("aria-current", "true");
  const bar = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  bar.setAttribute("aria-hidden", "true");
  bar.setAttribute("viewBox", "0 0 100 4");
  bar.setAttribute("preserveAspectRatio", "none");
  const fill = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  fill.setAttribute("width", 100 * one.probability);
  fill.setAttribute("height", 4);
  bar.append(fill);
  button.append(element("span", { class: "alternative-label" }, one.label), bar, element("span", { class: "alternative-p" }, percent(one.probability)));
  item.append(button);
  return item;
}

function place(token) {
  if (innerWidth <= 720) return card.removeAttribute("data-placed"); // a sheet at the bottom of a phone
  const box = token.getClientRects()[0];
  card.dataset.placed = "true";
  const left = Math.min(Math.max(8, box.left), innerWidth - card.offsetWidth - 16);
  const below = box.bottom + card.offsetHeight + 12 < innerHeight;
  card.style.left = `${left + scrollX}px`;
  card.style.top = `${(below ? box.bottom + 4 : Math.max(8, box.top - card.offsetHeight - 4)) + scrollY}px`;
}

function close() {
  clearTimeout(hovering);
  opened?.classList.remove("open");
  opened = null;
  pinned = false;
  card.hidden = true;
}

function branch(at, id) {
  if (!state.others.some((one) => same(one, state.branches))) state.others = [...state.others, state.branches].slice(-MAX_OTHERS);
  state.branches = [...state.branches, [at, id]];
  soon(0, { step: true });
}

text.addEventListener("pointerover", (event) => {
  const token = event.target.closest(".token");
  if (!token || pinned || event.pointerType === "touch") return;
  clearTimeout(hovering);
  hovering = setTimeout(() => open(token), opened ? 60 : 140);
});
for (const part of [text, card]) {
  part.addEventListener("pointerleave", (event) => {
    clearTimeout(hovering);
    if (!pinned && event.pointerType !== "touch") hovering = setTimeout(close, 350);
  });
}
card.addEventListener("pointerenter", () => clearTimeout(hovering));
text.addEventListener("click", (event) => {
  const token = event.target.closest(".token");
  if (!token) return;
  move(token);
  if (pinned && opened === token) close();
  else open(token, { pin: true });
});
text.addEventListener("focusin", (event) => {
  const token = event.target.closest(".token");
  if (token?.matches(":focus-visible") && !pinned) open(token);
});
card.addEventListener("click", (event) => {
  const button = event.target.closest("[data-id]");
  if (button) branch(Number(button.dataset.at), Number(button.dataset.id));
});
text.addEventListener("keydown", (event) => {
  const token = event.target.closest(".token");
  if (!token) return;
  const all = [...text.querySelectorAll(".token")], at = all.indexOf(token);
  const goal = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (goal !== undefined && all[goal]) {
    event.preventDefault();
    pinned = false;
    move(all[goal]);
    all[goal].focus();
  } else if (event.key === "Enter" || event.key === " " || event.key === "ArrowDown") {
    event.preventDefault();
    open(token, { pin: true });
    card.querySelector("button")?.focus();
  } else if (event.key === "Escape") close();
});
card.addEventListener("keydown", (event) => {
  const all = [...card.querySelectorAll("button")], at = all.indexOf(event.target);
  const goal = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (goal !== undefined) {
    event.preventDefault();
    all[Math.min(Math.max(goal, 0), all.length - 1)]?.focus();
  } else if (event.key === "Escape") {
    const token = opened;
    close();
    token?.focus();
  }
});
document.addEventListener("pointerdown", (event) => {
  if (opened && !card.contains(event.target) && !text.contains(event.target)) close();
});
text.addEventListener("focusout", (event) => {
  if (!pinned && !card.contains(event.relatedTarget) && !text.contains(event.relatedTarget)) close();
});

/** One token is in the order of Tab; arrows move to the others. */
function move(token) {
  for (const one of text.querySelectorAll('.token[tabindex="0"]')) one.setAttribute("tabindex", "-1");
  token.setAttribute("tabindex", "0");
}

// ---- branches ----------------------------------------------------------------------------------
const written = new Map();

async function showOthers(signal) {
  const section = document.getElementById("branches"), list = section.querySelector("ol");
  const chains = state.others.some((one) => same(one, state.branches)) ? state.others : [...state.others, state.branches];
  section.hidden = chains.length < 2;
  if (section.hidden) return list.replaceChildren();
  const values = query();
  const texts = [];
  for (const one of chains) {
    values.set("branches", chain(one));
    if (!one.length) values.delete("branches");
    const name = String(values);
    if (same(one, state.branches)) written.set(name, state.shown);
    if (!written.has(name)) {
      try {
        written.set(name, await ask(`${base}/text.json?${values}`, signal));
      } catch (problem) {
        if (problem.name === "AbortError") throw problem;
        continue; // a branch of another prompt leads nowhere
      }
    }
    texts.push([one, written.get(name)]);
  }
  list.replaceChildren(...texts.map(([one, found]) => branchElement(one, found)));
}

function branchElement(one, found) {
  const isShown = same(one, state.branches), item = element("li", {});
  const ids = found.tokens.map((token) => token.id), shown = state.shown.tokens.map((token) => token.id);
  let from = ids.findIndex((id, n) => id !== shown[n]);
  if (isShown) from = one.length ? one.at(-1)[0] : found.tokens.findIndex((token) => token.origin !== "prompt");
  if (from < 0) from = ids.length;
  const button = element("button", { type: "button", class: "branch" });
  if (isShown) button.setAttribute("aria-current", "true");
  const mean = found.loss.continuation.mean;
  const lead = found.tokens.slice(Math.max(0, from - 3), from).map((token) => token.piece).join("");
  const words = element("span", { class: "branch-text" });
  words.append(element("span", { class: "quiet" }, `…${lead}`), found.tokens.slice(from, from + 40).map((token) => token.piece).join("") || "■");
  button.append(words, element("span", { class: "branch-loss" }, mean === null ? "" : `${mean.toFixed(2)} nats`));
  button.addEventListener("click", () => {
    if (!state.others.some((other) => same(other, state.branches))) state.others.push(state.branches);
    state.branches = one;
    soon(0, { step: true });
  });
  const drop = element("button", { type: "button", class: "plain drop", "aria-label": "Forget this branch" }, "×");
  drop.addEventListener("click", () => {
    state.others = state.others.filter((other) => !same(other, one));
    if (isShown) state.branches = state.others.at(-1) ?? [];
    soon(0, { step: true });
  });
  item.append(button, drop);
  return item;
}

// ---- heads -------------------------------------------------------------------------------------
let measured = false;

const heads = (layers) => Object.values(layers).reduce((sum, count) => sum + count, 0);

/** Many heads take a pass through the model each: they are measured when asked for. */
function unmeasured() {
  const { layers, loss } = state.shown;
  const without = Object.fromEntries(Object.entries(layers).map(([name, count]) => [name, Array(count).fill(null)]));
  return { without, loss: loss.continuation.mean, n: loss.continuation.n };
}

document.getElementById("measure").addEventListener("click", () => {
  measured = true;
  showHeads(query(), turn?.signal).catch(() => {});
});

async function showHeads(values, signal) {
  const section = document.getElementById("heads");
  section.dataset.busy = "true";
  const measures = heads(state.shown.layers) <= MAX_HEADS || measured;
  document.getElementById("measure").hidden = measures;
  const found = measures ? await ask(`${base}/heads.json?${values}`, signal) : unmeasured();
  const layers = Object.entries(found.without);
  section.hidden = !layers.length;
  const most = Math.max(...layers.flatMap(([, row]) => row.map((loss) => Math.abs((loss ?? found.loss) - found.loss))), 1e-9);
  const table = element("table", { class: "heads" }), body = element("tbody", {});
  const count = Math.max(...layers.map(([, row]) => row.length));
  const top = element("tr", {});
  top.append(element("td", {}), ...Array.from({ length: count }, (_, n) => element("th", { scope: "col" }, `head ${n}`)));
  table.append(element("caption", { class: "hidden" }, "Rise of the loss without each head"));
  layers.forEach(([name, row], layer) => {
    const line = element("tr", {});
    line.append(element("th", { scope: "row" }, name.replaceAll(".", " ").replaceAll("_", " ")));
    row.forEach((loss, head) => line.append(headCell(layer, head, loss === null ? null : loss - found.loss, most)));
    body.append(line);
  });
  const head = element("thead", {});
  head.append(top);
  table.append(head, body);
  table.querySelector("caption").textContent += `, over ${found.n} tokens`;
  document.getElementById("heads-n").textContent = `Of this text alone: loss ${found.loss === null ? "unknown" : found.loss.toFixed(3)}, n = ${found.n} tokens.`;
  const focused = document.activeElement?.dataset?.head;
  headsTable.replaceChildren(table);
  if (focused) headsTable.querySelector(`[data-head="${focused}"]`)?.focus();
  document.getElementById("all-on").hidden = !state.off.length;
  reachable(section);
  section.dataset.busy = "false";
}

function headCell(layer, head, rise, most) {
  const cell = element("td", {}), isOff = state.off.some(([l, h]) => l === layer && h === head);
  const shown = isOff ? "off" : rise === null ? "on" : `${rise >= 0 ? "+" : "−"}${Math.abs(rise).toFixed(3)}`;
  const meaning = isOff ? ", off" : rise === null ? ", on" : `: without it the loss changes by ${shown}`;
  const button = element("button", { type: "button", class: "head", "data-head": `${layer}.${head}`, "aria-pressed": String(isOff), "aria-label": `Layer ${layer}, head ${head}${meaning}` }, shown);
  if (!isOff) button.dataset.level = rise > 0 ? String(Math.round((5 * rise) / most)) : "0";
  button.addEventListener("click", () => {
    state.off = isOff ? state.off.filter(([l, h]) => l !== layer || h !== head) : [...state.off, [layer, head]].sort(([a, b], [c, d]) => a - c || b - d);
    soon(0, { step: true });
  });
  cell.append(button);
  return cell;
}

document.getElementById("all-on").addEventListener("click", () => {
  state.off = [];
  soon(0, { step: true });
});

// ---- layers ------------------------------------------------------------------------------------
async function showLens(values, signal) {
  const section = document.getElementById("lens");
  section.dataset.busy = "true";
  values = new URLSearchParams(values);
  values.set("positions", positions.value);
  try {
    lensTable.replaceChildren(lens(await ask(`${base}/lens.json?${values}`, signal)));
    section.hidden = false;
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    section.hidden = true; // a model without layers
  }
  lensTable.scrollLeft = lensTable.scrollWidth;
  reachable(section);
  section.dataset.busy = "false";
}

function lens(found) {
  const table = element("table", { class: "lens" }), head = element("thead", {}), body = element("tbody", {}), foot = element("tfoot", {});
  const row = (name, cells) => {
    const line = element("tr", {});
    line.append(element("th", { scope: "row" }, name), ...cells);
    return line;
  };
  table.append(element("caption", { class: "hidden" }, "The most probable next token after each layer, and its probability"));
  head.append(row("reads", found.tokens.map((token) => element("th", { scope: "col" }, token))));
  [...found.layers.keys()].reverse().forEach((layer) => {
    body.append(row(found.layers[layer], found.cells[layer].map((cell, n) => {
      const one = element("td", { "data-level": Math.min(5, Math.round(5 * cell.top_probability)) });
      if (cell.top === found.following[n]) one.className = "right";
      if (cell.next_rank) one.title = `${found.following[n]}: ${percent(cell.next_probability)}, rank ${cell.next_rank}`;
      one.append(element("span", { class: "lens-token" }, cell.top), element("span", { class: "lens-p" }, percent(cell.top_probability)));
      return one;
    })));
  });
  foot.append(row("follows", found.following.map((token) => element("td", {}, token || "?"))));
  table.append(head, body, foot);
  return table;
}

// ---- the form ----------------------------------------------------------------------------------
function field(name) {
  return form.querySelector(`[name="${name}"]`).value;
}

/** Beam search draws nothing, so what steers drawing has no effect. */
function disable() {
  const searches = Number(field("beam")) > 0;
  for (const name of ["temperature", "top_p", "top_k", "seed"]) {
    const greedy = Number(field("temperature")) === 0 && name !== "temperature";
    for (const input of form.querySelectorAll(`[name="${name}"], [data-for="${name}"]`)) input.disabled = searches || greedy;
  }
  document.getElementById("again").disabled = searches || Number(field("temperature")) === 0;
}

/** Another text, on which branches of the old one mean nothing. */
function fresh(delay) {
  state.branches = [];
  state.others = [];
  soon(delay);
}

form.addEventListener("input", (event) => {
  const input = event.target;
  if (input.dataset.for) form.querySelector(`[name="${input.dataset.for}"]`).value = input.value;
  else if (input.name) set(input, input.value);
  disable();
  const named = input.dataset.for ? form.querySelector(`[name="${input.dataset.for}"]`) : input;
  if (!named.checkValidity()) return say(named.validationMessage);
  fresh(90);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  soon(0);
});
prompt.addEventListener("input", () => {
  grow();
  fresh(250);
});
document.getElementById("again").addEventListener("click", () => {
  set(form.querySelector('[name="seed"]'), Number(field("seed")) + 1);
  fresh(0);
});
positions.addEventListener("input", () => {
  history.replaceState(null, "", address());
  showLens(query(), turn?.signal).catch(() => {});
});
document.getElementById("share").addEventListener("click", async () => {
  await navigator.clipboard.writeText(location.href);
  status.textContent = "address copied";
});
addEventListener("popstate", () => {
  read({ fill: true });
  disable();
  refresh();
});

function grow() {
  prompt.rows = Math.min(8, Math.max(2, prompt.value.split("\n").length, Math.ceil(prompt.value.length / Math.max(prompt.clientWidth / 9, 20))));
}

onWidth(() => {
  close();
  grow();
});
read();
disable();
grow();
soon(0);
