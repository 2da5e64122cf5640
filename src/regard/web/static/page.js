// What every page does: draws its charts at the width they have, and replaces what has changed.
const dark = matchMedia("(prefers-color-scheme: dark)");
const vegaAddress = document.querySelector("script[data-vega]").dataset.vega;
let loading;

function vega() {
  loading ??= import(vegaAddress).then(() => window.vegaEmbed);
  return loading;
}

/** Draw a Vega-Lite specification in `place`; what was there stays until the new picture is whole. */
export async function drawSpec(place, spec) {
  const embed = await vega();
  const fresh = document.createElement("div");
  // `ast`: expressions are interpreted, never evaluated as code.
  await embed(fresh, spec, { ast: true, renderer: "svg", actions: false, defaultStyle: false, tooltip: false });
  const svg = fresh.querySelector("svg");
  svg.setAttribute("aria-hidden", "true"); // the figure has a label, and its numbers stand in a table
  for (const mark of svg.querySelectorAll("[aria-label]")) {
    const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
    title.textContent = mark.getAttribute("aria-label");
    for (const name of ["aria-label", "role", "aria-roledescription"]) mark.removeAttribute(name);
    mark.append(title);
  }
  for (const part of svg.querySelectorAll("[role]")) part.removeAttribute("role");
  place.replaceChildren(svg);
  place.classList.remove("waiting");
}

export function options(place) {
  const width = Math.round(Math.max(place.clientWidth, 240));
  return `theme=${dark.matches ? "dark" : "light"}&width=${width}`;
}

async function draw(place) {
  const wanted = `${place.dataset.chart}.json?${options(place)}`;
  const key = `${wanted} ${place.dataset.version}`;
  if (place.drawn === key || !place.clientWidth) return;
  place.drawn = key;
  const answer = await fetch(wanted);
  if (answer.status === 204) return; // nothing to draw yet
  if (answer.ok) await drawSpec(place, await answer.json());
  else refuse(place, await answer.text());
  place.dispatchEvent(new CustomEvent("drawn", { bubbles: true }));
}

function refuse(place, text) {
  const sentence = document.createElement("p");
  sentence.className = "refused";
  sentence.textContent = text;
  place.replaceChildren(sentence);
}

function saveLinks(place) {
  const chart = place.closest(".chart");
  if (!chart || chart.nextElementSibling?.matches(".save")) return;
  const links = document.createElement("p");
  links.className = "save";
  for (const format of ["svg", "png", "csv"]) {
    const link = document.createElement("a");
    link.href = `${place.dataset.chart}.${format}`;
    link.textContent = format.toUpperCase();
    link.setAttribute("download", "");
    links.append(link);
  }
  chart.after(links);
}

const visible = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
}, { rootMargin: "400px" });

function mount(root) {
  for (const place of root.querySelectorAll(".plot[data-chart]")) {
    visible.observe(place);
    saveLinks(place);
  }
  reachable(root);
  for (const tabs of root.querySelectorAll(".tabs")) tabs.addEventListener("change", showTab);
}

/** What scrolls is reached by keyboard, so that it can be scrolled by keyboard. */
export function reachable(root) {
  for (const part of root.querySelectorAll(".scroll, pre")) {
    const scrolls = part.scrollWidth > part.clientWidth || part.scrollHeight > part.clientHeight;
    if (scrolls) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
}

function showTab(event) {
  const section = event.currentTarget.parentElement;
  for (const figure of section.querySelectorAll("[data-tab]")) figure.hidden = figure.dataset.tab !== event.target.value;
  redraw();
}

function redraw() {
  for (const place of document.querySelectorAll(".plot[data-chart]")) {
    if (place.getBoundingClientRect().top < innerHeight + 400) draw(place);
  }
}

let resizing;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => {
    redraw();
    reachable(document);
  }, 150);
});
dark.addEventListener("change", redraw);

// Live: a stream says that something changed, and the page asks for itself and replaces what differs.
const stream = document.querySelector("[data-events]");
const served = new Map();
for (const part of document.querySelectorAll("[data-live]")) served.set(part.dataset.live, part.innerHTML);
let source, updating = false, again = false;

async function update() {
  if (updating) { again = true; return; }
  updating = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok) return say(await sentence(answer));
    const now = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const fresh = now.querySelector(`[data-live="${part.dataset.live}"]`);
      if (!fresh || fresh.innerHTML === served.get(part.dataset.live)) continue;
      served.set(part.dataset.live, fresh.innerHTML);
      replace(part, fresh);
    }
    document.dispatchEvent(new CustomEvent("updated"));
  } finally {
    updating = false;
    if (again) { again = false; update(); }
  }
}

/** Take the new content, with the pictures, ticks and tabs of the old until theirs are there. */
function replace(part, fresh) {
  const pictures = new Map([...part.querySelectorAll(".plot[data-chart]")].map((one) => [one.dataset.chart, one]));
  const ticked = new Set([...part.querySelectorAll("input:checked")].map((one) => one.name + one.value));
  const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const tab = part.querySelector(".tabs :checked")?.value;
  part.replaceChildren(...fresh.childNodes);
  for (const place of part.querySelectorAll(".plot[data-chart]")) {
    const old = pictures.get(place.dataset.chart);
    if (old?.firstElementChild?.matches("svg")) place.replaceChildren(old.firstElementChild);
  }
  for (const input of part.querySelectorAll("input")) if (ticked.has(input.name + input.value)) input.checked = true;
  if (tab) for (const figure of part.querySelectorAll("[data-tab]")) figure.hidden = figure.dataset.tab !== tab;
  if (focused) part.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
  mount(part);
}

function follow() {
  source?.close();
  source = undefined;
  if (document.hidden || !stream) return; // a browser opens six connections to a host
  source = new EventSource(stream.dataset.events);
  source.addEventListener("change", update);
  source.addEventListener("open", () => say(""));
  source.addEventListener("error", lost);
}

/** The server was ended, or started again with another token: what is seen is not live any more. */
async function lost() {
  try {
    const answer = await fetch(location.href);
    if (answer.status === 403) say("`regard serve` was started again: open the address that it printed.");
    else if (!answer.ok) say(await sentence(answer));
  } catch {
    say("`regard serve` does not answer: this is what it showed last.");
  }
}

/** The sentence of an answer that is no page any more: a run that was deleted while it was watched. */
async function sentence(answer) {
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  return page.querySelector(".lead")?.textContent ?? page.body.textContent.trim();
}

/** One notice above the content; none if the text is empty. */
function say(text) {
  let notice = document.getElementById("not-live");
  if (!notice) {
    if (!text) return;
    notice = document.createElement("p");
    notice.id = "not-live";
    notice.className = "notice";
    notice.setAttribute("role", "alert");
    document.getElementById("content").prepend(notice);
  }
  notice.hidden = !text;
  notice.textContent = text;
}
document.addEventListener("visibilitychange", () => {
  follow();
  if (!document.hidden && stream) update();
});

mount(document);
follow();
