// The attention workbench: what is typed, chosen or painted becomes an address, and that a picture.
import { drawArcs } from "./arcs.js";
import { bytes, colours, drawSmall, floats, Heatmap } from "./heatmap.js";
import { reachable } from "./page.js";
import { Painter } from "./painter.js";

const byId = (id) => document.getElementById(id);
const form = byId("choice"), bench = byId("bench"), status = byId("status");
const MAX_ADDRESS = 11000; // characters of a query that the server takes
const MAX_LEAKS_LISTED = 24, MAX_ROWS = 16;
const began = new URLSearchParams(location.search);
const chosen = { layer: 0, head: 0, query: -1, key: -1, through: 0 };
for (const name in chosen) if (began.has(name)) chosen[name] = Number(began.get(name)) || 0;
let found = null, waiting, asking, since, maps = [], auditTook = 0;

const painter = new Painter(byId("mask-map"), { changed: () => soon(40), pointed: point, left: unpoint });
painter.restore(began.get("allow") ?? "", began.get("forbid") ?? "");

// ---- what is asked for

function kinds() {
  return [...form.querySelectorAll("[name=kind]:checked")].map((one) => one.value);
}

function parameters() {
  const values = new URLSearchParams(), put = (name, value) => { if (value !== "" && value !== null) values.set(name, value); };
  values.set("text", form.text.value);
  put("run", form.run.value);
  if (!form.run.value) {
    for (const input of byId("fresh").querySelectorAll("[name]")) if (input.value !== input.dataset.usual) put(input.name, input.value);
  }
  put("kinds", kinds().join(","));
  put("mask", form.mask.value.trim());
  put("declared", form.declared.value.trim());
  const painted = painter.parameters();
  put("allow", painted.allow);
  put("forbid", painted.forbid);
  for (const [name, value] of Object.entries(chosen)) if (value !== (name === "query" || name === "key" ? -1 : 0)) put(name, value);
  if (form.show.value !== "map") put("show", form.show.value);
  return values;
}

function soon(delay) {
  since = performance.now();
  clearTimeout(waiting);
  waiting = setTimeout(compute, delay);
}

async function compute() {
  asking?.abort();
  const mine = (asking = new AbortController()), values = parameters(), start = since ?? performance.now();
  since = undefined;
  if (String(values).length > MAX_ADDRESS) return refuse("This is too long for an address: shorten the text, or paint less.");
  history.replaceState(null, "", `?${values}`);
  bench.dataset.busy = "true";
  bench.dataset.audit = "waiting";
  try {
    const answer = await fetch(`/attention/view.json?${values}`, { signal: mine.signal });
    if (!answer.ok) return refuse(await answer.text());
    show(await answer.json());
    bench.dataset.busy = "false";
    bench.dataset.milliseconds = String(Math.round(performance.now() - start));
    status.textContent = said();
    links(values);
    if (auditTook > 300) await pause(Math.min(auditTook, 800), mine.signal); // somebody may type on
    const auditBegan = performance.now();
    const audited = await fetch(`/attention/audit.json?${values}`, { signal: mine.signal });
    if (!audited.ok) return refuseAudit(await audited.text());
    showAudit(await audited.json());
    auditTook = performance.now() - auditBegan;
    bench.dataset.audit = "done";
    bench.dataset.audited = String(Math.round(performance.now() - start));
  } catch (problem) {
    if (problem.name !== "AbortError") refuse(problem instanceof TypeError ? "The page does not answer: is `regard serve` still running?" : String(problem));
  }
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); });
  });
}

function said() {
  const count = found.tokens.length, refused = found.kinds.filter((one) => one.refused).length;
  return `${count} ${count === 1 ? "token" : "tokens"}, ${found.layers} ${found.layers === 1 ? "layer" : "layers"}${refused ? `, ${refused} of ${found.kinds.length} kinds refused` : ""}`;
}

function refuse(sentence) {
  bench.dataset.busy = "refused";
  status.textContent = sentence.trim();
  byId("audit-answer").replaceChildren();
}

function refuseAudit(sentence) {
  byId("audit-answer").replaceChildren(made("p", "quiet", sentence.trim()));
  bench.dataset.audit = "refused";
}

function links(values) {
  const files = { PNG: "heads.png", SVG: "heads.svg", JSON: "weights.json", CSV: "weights.csv", "Mask as PNG": "mask.png", "as SVG": "mask.svg" };
  const theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  byId("links").replaceChildren(...Object.entries(files).map(([label, file]) => {
    const link = made("a", "", label);
    link.href = `/attention/${file}?${values}${file.endsWith("g") ? `&theme=${theme}` : ""}`;
    link.setAttribute("download", file);
    return link;
  }));
}

// ---- what is shown

function made(tag, className = "", text = "") {
  const one = document.createElement(tag);
  if (className) one.className = className;
  if (text) one.textContent = text;
  return one;
}

function show(answer) {
  found = answer;
  found.allowed = bytes(answer.mask.allowed);
  found.reached = bytes(answer.reach);
  for (const one of found.kinds) {
    if (one.refused) continue;
    one.values = floats(one.weights);
    one.rolled = floats(one.rollout);
  }
  const shown = found.kinds.map((one) => one.kind);
  for (const box of form.querySelectorAll("[name=kind]")) {
    box.checked = shown.includes(box.value);
    box.disabled = !box.checked && shown.length >= Number(bench.dataset.maxKinds);
  }
  form.mask.placeholder = found.own.mask;
  form.declared.placeholder = found.own.mask;
  maps = [painter.map];
  painter.set({ tokens: found.tokens, plain: bytes(answer.mask.plain) });
  maskNote();
  byId("remarks").replaceChildren(...found.remarks.map((one) => made("p", "notice", one)));
  showHeads();
  showLarge();
  showReach();
  showQuery();
  if (chosen.key >= 0 && currentQuery() >= 0) mark(currentQuery(), chosen.key);
}

function maskNote() {
  const painted = painter.painted.size, size = found.tokens.length;
  const parts = [`${found.allowed.reduce((sum, one) => sum + one, 0)} of ${size * size} pairs may attend`];
  if (painted) parts.push(`${painted} painted`);
  if (found.mask.empty) parts.push(`${found.mask.empty} ${found.mask.empty === 1 ? "query attends" : "queries attend"} to nothing: zeros`);
  byId("mask-note").textContent = parts.join(" · ");
  byId("unpaint").hidden = !painted;
}

function panel(one, note = "") {
  const box = made("section", "kind");
  const title = made("h3", "", one.kind);
  if (note) title.append(made("span", "quiet", note));
  box.append(title);
  if (one.refused) box.append(made("p", "refusal", one.refused));
  return box;
}

function showHeads() {
  const palette = colours(), focused = document.activeElement?.dataset?.head, drawn = [];
  byId("heads").replaceChildren(...found.kinds.map((one) => {
    const box = panel(one);
    if (one.refused) return box;
    if (one.fresh.length) box.append(made("p", "quiet fresh", `not trained with ${one.kind}: ${one.fresh.length} of its parameters are fresh`));
    const grid = made("div", one.heads[0].length > 8 ? "heads many" : "heads");
    one.heads.forEach((heads, layer) => {
      const row = made("div", "layer");
      const cells = made("div", "cells-of-heads");
      cells.style.setProperty("--heads", String(heads.length));
      row.append(made("span", "quiet layer-name", `layer ${layer}`), cells);
      heads.forEach((head, number) => {
        const button = made("button", "head"), canvas = made("canvas");
        button.type = "button";
        button.dataset.head = `${one.kind}.${layer}.${number}`;
        button.setAttribute("aria-label", `${one.kind}, layer ${layer}, head ${number}, entropy ${head.entropy.toFixed(2)} nats`);
        button.setAttribute("aria-pressed", String(layer === one.layer && number === one.head));
        button.append(canvas, made("span", "quiet", `${number} · ${head.entropy.toFixed(2)}`));
        button.addEventListener("click", () => { chosen.layer = layer; chosen.head = number; compute(); });
        cells.append(button);
        drawn.push([canvas, bytes(head.image.levels), head.image.size]);
      });
      grid.append(row);
    });
    box.append(grid);
    return box;
  }));
  for (const [canvas, levels, size] of drawn) drawSmall(canvas, levels, size, palette);
  const read = found.kinds.find((one) => !one.refused);
  byId("heads-note").textContent = read ? "head · mean entropy in nats" : "";
  byId("large-note").textContent = read ? (form.show.value === "arcs" ? "above the line: earlier keys, below it: later ones" : "shade = √weight, bars = entropy of a query") : "";
  byId("large-title").textContent = read ? `Layer ${read.layer}, head ${read.head}` : "One head";
  if (focused) byId("heads").querySelector(`[data-head="${CSS.escape(focused)}"]`)?.focus();
}

function mapOf(canvas, content) {
  const map = new Heatmap(canvas, { point, leave: unpoint, press: (i, j) => choose(i, j) , key: (i, j, event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(i, j); } } });
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-roledescription", "map");
  map.show(content);
  maps.push(map);
  return map;
}

function framed(canvas) {
  const frame = made("div", "map-frame");
  frame.append(canvas);
  return frame;
}

function entropies(one) {
  const size = found.tokens.length;
  return Array.from({ length: size }, (_, i) => {
    let sum = 0;
    for (let j = 0; j < size; j++) {
      const p = Math.abs(one.values[i * size + j]);
      if (p > 0) sum -= p * Math.log(p);
    }
    return Math.max(sum, 0);
  });
}

function showLarge() {
  maps = maps.filter((map) => !byId("large").contains(map.canvas));
  const later = [], arcs = form.show.value === "arcs";
  byId("large").replaceChildren(...found.kinds.filter((one) => !one.refused).map((one) => {
    const box = panel(one, `entropy ${one.heads[one.layer][one.head].entropy.toFixed(2)} nats`);
    const label = `${one.kind}, layer ${one.layer}, head ${one.head}: weights of ${found.tokens.length} tokens`;
    if (arcs) {
      const place = made("div", "arcs scroll");
      box.append(place);
      later.push(() => drawArcs(place, { tokens: found.tokens, weights: one.values, query: currentQuery(), label, choose: (n) => choose(n, -1) }));
    } else {
      const canvas = made("canvas");
      canvas.setAttribute("aria-label", `${label}; arrow keys move, Enter chooses a query`);
      box.append(framed(canvas));
      later.push(() => mapOf(canvas, { tokens: found.tokens, level: (cell) => ["accent", Math.sqrt(Math.min(one.values[cell], 1))], bars: entropies(one) }));
    }
    return box;
  }));
  for (const draw of later) draw();
  reachable(byId("large"));
}

function showReach() {
  const slider = byId("through");
  slider.max = String(found.layers);
  slider.value = String(found.through);
  slider.disabled = found.layers === 1;
  byId("through-value").textContent = `${found.through} ${found.through === 1 ? "layer" : "layers"}`;
  const later = [], deepest = found.layers;
  const byMask = panel({ kind: "by the mask" }, "darker: in fewer layers");
  const canvas = made("canvas");
  canvas.setAttribute("aria-label", "Which keys a query reaches through the mask, and in how many layers");
  byMask.append(framed(canvas));
  later.push(() => mapOf(canvas, { tokens: found.tokens, level: (cell) => {
    const depth = found.reached[cell];
    return depth > found.through ? ["line", 0] : ["accent", 1 - (0.75 * Math.max(depth - 1, 0)) / Math.max(deepest - 1, 1)];
  } }));
  const others = found.kinds.filter((one) => !one.refused).map((one) => {
    const box = panel(one, "rollout of its weights"), own = made("canvas");
    own.setAttribute("aria-label", `${one.kind}: attention rollout through ${found.through} layers`);
    box.append(framed(own));
    later.push(() => mapOf(own, { tokens: found.tokens, level: (cell) => ["accent", Math.sqrt(Math.min(one.rolled[cell], 1))] }));
    return box;
  });
  byId("reach").replaceChildren(byMask, ...others);
  for (const draw of later) draw();
}

function currentQuery() {
  const last = found.tokens.length - 1;
  return chosen.query < 0 ? last : Math.min(chosen.query, last);
}

function showQuery() {
  const place = byId("query-table"), query = currentQuery(), size = found.tokens.length;
  const read = found.kinds.filter((one) => !one.refused);
  if (!read.length) return place.replaceChildren();
  const picker = made("select");
  picker.setAttribute("aria-label", "Query");
  found.tokens.forEach((token, n) => picker.append(new Option(`${n} ${token}`, n, false, n === query)));
  picker.addEventListener("change", () => choose(Number(picker.value), -1));
  const heading = made("p", "query-line", "Query ");
  heading.append(picker, " attends to");
  const weight = (one, key) => one.values[query * size + key];
  let keys = [...found.tokens.keys()].filter((key) => read.some((one) => weight(one, key) > 0) || found.allowed[query * size + key]);
  const every = keys.length;
  keys.sort((a, b) => Math.max(...read.map((one) => weight(one, b))) - Math.max(...read.map((one) => weight(one, a))));
  keys = keys.slice(0, MAX_ROWS);
  const table = made("table", "weights"), head = table.createTHead().insertRow(), body = table.createTBody();
  for (const text of ["key", ...read.map((one) => one.kind)]) {
    const cell = made("th", "", text);
    cell.scope = "col";
    head.append(cell);
  }
  for (const key of keys) {
    const row = body.insertRow(), name = made("th");
    name.scope = "row";
    name.append(made("span", "quiet", `${key} `), found.tokens[key]);
    row.append(name);
    for (const one of read) {
      const cell = row.insertCell(), value = weight(one, key), bar = made("span", "bar");
      bar.style.width = `${(100 * Math.min(value, 1)).toFixed(1)}%`;
      cell.append(bar, made("span", "", value.toFixed(3)));
    }
  }
  const scroll = made("div", "scroll");
  scroll.append(table);
  place.replaceChildren(heading, ...(keys.length ? [scroll] : [made("p", "quiet", "nothing: every key is forbidden, so its weights are zeros")]));
  if (every > keys.length) place.append(made("p", "quiet", `${every - keys.length} further keys, with less weight each`));
  reachable(place);
}

function showAudit(answer) {
  const place = byId("audit-answer"), size = found.tokens.length, pairs = new Uint8Array(size * size);
  const parts = [];
  for (const one of answer.kinds) {
    const box = made("div", `audited ${one.verdict === "leak" ? "leaks" : one.verdict === "clean" ? "clean" : "open"}`);
    const line = made("p");
    line.append(made("strong", "", one.kind), ` ${one.sentence}`);
    box.append(line);
    bytes(one.pairs).forEach((pair, cell) => { if (pair) pairs[cell] = 1; });
    if (one.leaks.length) {
      const list = made("ul", "pairs");
      for (const leak of one.leaks.slice(0, MAX_LEAKS_LISTED)) {
        const item = made("li"), button = made("button", "pair", `${leak.query} ← ${leak.key}`);
        button.type = "button";
        button.title = `${found.tokens[leak.query]} reacts to ${found.tokens[leak.key]}: ${leak.influence.toPrecision(2)}, ${leak.where}, by ${leak.how}`;
        button.setAttribute("aria-label", `Position ${leak.query}, ${found.tokens[leak.query]}, reacts to ${leak.key}, ${found.tokens[leak.key]}; show it`);
        button.addEventListener("click", () => showLeak(leak));
        item.append(button);
        list.append(item);
      }
      box.append(list);
      const rest = one.leak_count - Math.min(one.leaks.length, MAX_LEAKS_LISTED);
      if (rest > 0) box.append(made("p", "quiet", `and ${rest} further pairs, in red above`));
    }
    const checked = made("details"), items = made("ul", "quiet");
    checked.append(made("summary", "", "what was tested"), items);
    for (const sentence of [...one.checked, ...one.unchecked.map((other) => `not: ${other}`)]) items.append(made("li", "", sentence));
    if (items.childElementCount) box.append(checked);
    parts.push(box);
  }
  const pathPlace = made("p", "path");
  pathPlace.id = "path";
  place.replaceChildren(...parts, pathPlace);
  painter.setLeaks(pairs);
}

/** The pair everywhere, and the way that the mask opens from key to query. */
function showLeak({ query, key }) {
  choose(query, key);
  byId("path").textContent = path(query, key);
  byId("spoken").textContent = byId("path").textContent;
}

function path(query, key) {
  const size = found.tokens.length, name = (n) => `${n} ${found.tokens[n]}`;
  if (found.allowed[query * size + key]) return `The mask lets ${name(query)} attend to ${name(key)} directly.`;
  const before = new Map([[query, null]]);
  let front = [query];
  for (let depth = 0; depth < found.layers && !before.has(key); depth++) {
    const next = [];
    for (const at of front) for (let j = 0; j < size; j++) {
      if (found.allowed[at * size + j] && !before.has(j)) { before.set(j, at); next.push(j); }
    }
    front = next;
  }
  if (!before.has(key)) return `The mask opens no way from ${name(key)} to ${name(query)} in ${found.layers} layers: the kind itself does.`;
  const way = [];
  for (let at = key; at !== null; at = before.get(at)) way.unshift(name(at));
  return `Through layers: ${way.join(" ← ")}.`;
}

// ---- one pair, in every map at once

function choose(query, key) {
  chosen.query = query;
  chosen.key = key;
  const values = parameters();
  history.replaceState(null, "", `?${values}`);
  links(values);
  if (form.show.value === "arcs") showLarge();
  showQuery();
  if (key >= 0) mark(query, key);
}

function mark(query, key) {
  for (const map of maps) map.point([query, key]);
  const size = found.tokens.length, cell = query * size + key;
  if (query >= size || key >= size) return "";
  const reached = found.reached[cell];
  const parts = [
    `${query} ${found.tokens[query]} → ${key} ${found.tokens[key]}`,
    painter.mayAttend(query, key) ? "may attend" : "may not attend",
    ...found.kinds.filter((one) => !one.refused).map((one) => `${one.kind} ${one.values[cell].toFixed(3)}`),
    reached === 0 ? "itself" : reached === 255 ? "not reached" : `reached in ${reached} ${reached === 1 ? "layer" : "layers"}`,
  ];
  byId("readout").hidden = false;
  byId("readout").textContent = parts.join("  ·  ");
  return parts.join(", ");
}

function point(query, key, by) {
  if (!found || query >= found.tokens.length) return;
  const sentence = mark(query, key);
  if (by === "keyboard") byId("spoken").textContent = sentence;
}

function unpoint() {
  byId("readout").hidden = true;
  const stays = chosen.key >= 0 ? [currentQuery(), chosen.key] : null;
  for (const map of maps) if (map.canvas !== document.activeElement) map.point(stays);
}

// ---- what is done

function fit() {
  form.text.style.height = "auto";
  form.text.style.height = `${form.text.scrollHeight + 2}px`;
}

form.addEventListener("input", (event) => {
  const input = event.target;
  if (input.id === "through") {
    chosen.through = Number(input.value);
    return soon(20);
  }
  if (input.getAttribute("aria-label") === "Query") return;
  if (input.name === "run") {
    byId("fresh").hidden = Boolean(input.value);
    for (const box of form.querySelectorAll("[name=kind]")) box.checked = false;
    form.mask.value = input.value ? "" : "causal";
    painter.painted.clear();
  }
  if (input.name === "text") fit();
  if (input.name === "show") {
    history.replaceState(null, "", `?${parameters()}`);
    showHeads();
    return showLarge();
  }
  if (!input.checkValidity()) return refuse(`${input.name}: ${input.validationMessage}`);
  soon(input.name === "text" || input.name === "mask" ? 60 : 0);
});
form.addEventListener("submit", (event) => { event.preventDefault(); soon(0); });
form.text.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); soon(0); } });
for (const button of form.querySelectorAll("[data-mask]")) {
  button.addEventListener("click", () => { form.mask.value = button.dataset.mask; soon(0); });
}
byId("unpaint").addEventListener("click", () => painter.clear());
byId("share").addEventListener("click", async () => {
  await navigator.clipboard.writeText(location.href);
  status.textContent = "address copied";
});
function redraw() {
  if (!found) return;
  for (const map of maps) map.draw();
  showHeads();
  if (form.show.value === "arcs") showLarge();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
let width = innerWidth, resizing;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  clearTimeout(resizing);
  resizing = setTimeout(() => { fit(); redraw(); }, 150);
});
fit();
compute();
