// What the pages of the playground share: numbers as words, elements, questions to the server.

/** 12 %, 0.3 %, < 0.01 % */
export function percent(p) {
  const hundred = 100 * p;
  if (hundred >= 99.95) return hundred > 99.995 ? "100 %" : "99.9 %";
  if (hundred >= 10) return `${hundred.toFixed(0)} %`;
  if (hundred >= 1) return `${hundred.toFixed(1)} %`;
  return hundred < 0.01 ? "< 0.01 %" : `${Number(hundred.toPrecision(1))} %`;
}

const LIMITS = [0.5, 0.2, 0.05, 0.01, 0.001];

/** From 0, the model expected it, to 5, it was surprised. */
export function level(p) {
  const at = LIMITS.findIndex((limit) => p >= limit);
  return at < 0 ? LIMITS.length : at;
}

/** Texts come from models: they are set as text, never as markup. */
export function element(name, attributes, content) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (content !== undefined) made.textContent = content;
  return made;
}

/** JSON, or an error with the sentence that was answered. */
export async function ask(address, signal) {
  let answer;
  try {
    answer = await fetch(address, { signal });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Error("The page does not answer: is `regard serve` still running?");
  }
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

/** Links to the files behind a view. */
export function links(place, address, values, formats = ["svg", "png", "csv", "json"]) {
  const label = place.querySelector("span");
  place.replaceChildren(label, ...formats.map((format) => element("a", { href: `${address}.${format}?${values}`, download: "" }, format.toUpperCase())));
}

export function onWidth(act) {
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) act();
    width = innerWidth;
  });
}
