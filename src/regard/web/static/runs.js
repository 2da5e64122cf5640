// The table of runs: small curves of those in sight, and how many are ticked.
const known = new Map();

async function sparklines() {
  const rows = [...document.querySelectorAll("tr[data-run]")];
  const missing = rows.filter((row) => !known.has(row.dataset.run)).map((row) => row.dataset.run);
  for (let at = 0; at < missing.length; at += 50) {
    const ids = missing.slice(at, at + 50);
    const answer = await fetch(`/runs/sparklines.json?ids=${ids.join(",")}`);
    if (!answer.ok) return;
    const curves = await answer.json();
    for (const id of ids) known.set(id, curves[id] ?? []);
    rows.forEach(drawRow);
  }
  rows.forEach(drawRow);
}

function drawRow(row) {
  const points = known.get(row.dataset.run) ?? [];
  const cell = row.querySelector(".spark");
  if (points.length < 2 || cell.firstElementChild) return;
  const xs = points.map(([x]) => x), ys = points.map(([, y]) => y);
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const path = points.map(([x, y]) => `${(88 * (x - left)) / (right - left || 1)},${20 - (18 * (y - low)) / (high - low || 1)}`);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 88 22");
  svg.setAttribute("width", "88");
  svg.setAttribute("height", "22");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `training loss from ${ys[0].toFixed(2)} to ${ys.at(-1).toFixed(2)}`);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  line.setAttribute("points", path.join(" "));
  svg.append(line);
  cell.append(svg);
}

function count() {
  const chosen = document.querySelectorAll("tr :checked").length;
  document.getElementById("chosen")?.replaceChildren(chosen ? `${chosen} chosen` : "");
}

document.addEventListener("change", count);
document.addEventListener("updated", () => {
  known.clear(); // a training has gone on
  sparklines();
  count();
});
sparklines();
