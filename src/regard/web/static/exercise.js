// An exercise: fields in the shape of each answer, and its mark.
const page = document.querySelector("[data-exercise]");
const form = document.getElementById("answer");
const place = document.getElementById("mark");

for (const slot of form.querySelectorAll("[data-slot]")) {
  const shape = JSON.parse(slot.dataset.shape);
  if (shape.length > 2 || shape.includes(null)) slot.append(freeField(slot));
  else slot.append(grid(slot, shape));
}

function field(slot, label) {
  const input = document.createElement("input");
  input.setAttribute("aria-label", `${slot.dataset.slot}${label}`);
  if (slot.dataset.type === "flags") input.type = "checkbox";
  else if (slot.dataset.type === "numbers") { input.type = "text"; input.inputMode = "decimal"; input.autocomplete = "off"; }
  return input;
}

function grid(slot, shape) {
  const [rows, columns] = shape.length === 2 ? shape : [1, shape[0] ?? 1];
  const place = document.createElement("div");
  place.className = "grid-inputs";
  for (let row = 0; row < rows; row++) {
    const line = document.createElement("div");
    line.className = "row";
    for (let column = 0; column < columns; column++) {
      const label = shape.length === 2 ? `, row ${row + 1}, column ${column + 1}` : shape.length ? `, ${column + 1}` : "";
      line.append(field(slot, label));
    }
    place.append(line);
  }
  return place;
}

function freeField(slot) {
  const text = document.createElement("textarea");
  text.setAttribute("aria-label", `${slot.dataset.slot}: one line a row, values separated by commas`);
  text.placeholder = "one line a row, values separated by commas";
  return text;
}

function value(slot, text) {
  const word = text.trim();
  if (slot.dataset.type === "words") return word;
  if (slot.dataset.type === "flags" && /^(true|false|0|1)$/.test(word)) return word === "true" || word === "1";
  return word === "" || Number.isNaN(Number(word)) ? word : Number(word);
}

function answer(slot) {
  const shape = JSON.parse(slot.dataset.shape);
  const text = slot.querySelector("textarea");
  if (text) {
    const rows = text.value.trim().split("\n").filter((line) => line.trim()).map((line) => line.split(",").map((one) => value(slot, one)));
    return shape.length < 2 ? rows.flat() : rows;
  }
  const rows = [...slot.querySelectorAll(".row")].map((row) =>
    [...row.querySelectorAll("input")].map((one) => (one.type === "checkbox" ? one.checked : value(slot, one.value))));
  return shape.length === 2 ? rows : shape.length === 1 ? rows[0] : rows[0][0];
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = Object.fromEntries([...form.querySelectorAll("[data-slot]")].map((slot) => [slot.dataset.slot, answer(slot)]));
  const reply = await fetch(`/lessons/${page.dataset.exercise}/mark`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ seed: Number(page.dataset.seed), answer: given }),
  });
  if (!reply.ok) return show(await reply.text(), "missed", "");
  const mark = await reply.json();
  const distance = mark.distance === null ? "not a number" : Number(mark.distance.toPrecision(3));
  show(`${mark.passed ? "Right" : "Not yet"}: ${distance} from the goal, tolerance ${mark.tolerance}`, mark.passed ? "passed" : "missed", mark.feedback);
  if (mark.map) place.append(heat(mark.map));
});

function show(sentence, state, feedback) {
  const verdict = document.createElement("p"), more = document.createElement("p");
  verdict.className = `verdict ${state}`;
  verdict.textContent = sentence;
  more.textContent = feedback;
  place.replaceChildren(verdict, more);
}

function heat({ rows, columns, values }) {
  const size = 26, svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "heat");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "What your answer attends to: a row for each query, a column for each key");
  svg.setAttribute("width", size * columns.length);
  svg.setAttribute("height", size * rows.length);
  const largest = Math.max(...values.flat().map(Math.abs), 1e-9);
  values.forEach((line, i) => line.forEach((cell, j) => {
    const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
    title.textContent = `${rows[i]} → ${columns[j]}: ${Number((cell ?? 0).toPrecision(3))}`;
    for (const [key, one] of Object.entries({ x: j * size, y: i * size, width: size - 1, height: size - 1, rx: 3, "fill-opacity": 0.06 + (0.94 * Math.abs(cell ?? 0)) / largest })) rect.setAttribute(key, one);
    rect.append(title);
    svg.append(rect);
  }));
  return svg;
}
