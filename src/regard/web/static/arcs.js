// One head as arcs between tokens on a line: above it to keys before a query, below it to later ones.
const SVG = "http://www.w3.org/2000/svg";
const MIN_WEIGHT = 0.03;
const ALL = 96; // tokens up to which the arcs of every query are drawn; else of the chosen one alone

function element(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

/** Replace what `place` shows; `choose(query)` is called when a token is chosen. */
export function drawArcs(place, { tokens, weights, query, label, choose }) {
  const size = tokens.length, step = Math.max(size > ALL ? 1 : 13, (place.clientWidth - 24) / size);
  const longest = Math.max(...tokens.map((one) => Math.min(one.length, 14)));
  const isLabelled = step >= 13, isFlat = isLabelled && step > 7.2 * longest;
  const room = isLabelled ? (isFlat ? 24 : 7 * longest + 14) : 8;
  let above = 14, below = 6;
  const arcs = [];
  for (let i = 0; i < size; i++) {
    if (size > ALL && i !== query) continue;
    for (let j = 0; j < size; j++) {
      const weight = weights[i * size + j];
      if (weight < MIN_WEIGHT) continue;
      const radius = Math.min((Math.abs(i - j) * step) / 2, 150);
      if (j <= i) above = Math.max(above, radius + 8);
      else below = Math.max(below, radius + 8);
      arcs.push({ i, j, weight, radius });
    }
  }
  const x = (n) => 12 + (n + 0.5) * step, width = 24 + size * step, line = above + room;
  const svg = element("svg", { width, height: line + below, viewBox: `0 0 ${width} ${line + below}`, role: "img", "aria-label": label });
  for (const { i, j, weight, radius } of arcs.sort((a, b) => (a.i === query) - (b.i === query))) {
    const y = j <= i ? above : line;
    const d = i === j
      ? `M${x(i) - 3} ${above}a4.5 6 0 1 1 6 0`
      : `M${x(i)} ${y}A${Math.abs(x(i) - x(j)) / 2} ${radius} 0 0 0 ${x(j)} ${y}`;
    const shade = (0.25 + 0.75 * weight) * (i === query ? 1 : j > i ? 0.7 : 0.36);
    const arc = element("path", { d, class: j > i ? "arc later" : "arc", "stroke-width": (0.6 + 6 * weight).toFixed(2), "stroke-opacity": shade.toFixed(2) });
    arc.append(element("title", {}, `${tokens[i]} → ${tokens[j]}: ${weight.toFixed(3)}`));
    svg.append(arc);
  }
  if (isLabelled) tokens.forEach((token, n) => svg.append(word(token, n)));
  else svg.append(element("line", { x1: 12, x2: width - 12, y1: above + 4, y2: above + 4, class: "baseline" }));
  place.replaceChildren(svg);
  if (width > place.clientWidth) place.scrollLeft = x(query) - place.clientWidth / 2;

  function word(token, n) {
    const short = token.length > 14 ? `${token.slice(0, 13)}…` : token;
    const attributes = isFlat
      ? { x: x(n), y: above + 16, "text-anchor": "middle" }
      : { transform: `translate(${x(n)} ${above + 8}) rotate(90)`, "dominant-baseline": "middle" };
    const text = element("text", { ...attributes, class: n === query ? "chosen-word" : "" }, short);
    text.addEventListener("click", () => choose(n));
    return text;
  }
}
