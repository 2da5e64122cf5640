// A table of values by query (row) and key (column) on a canvas, with tokens, a cursor and marks.
// One pixel a cell is drawn first and then enlarged, so 512 × 512 cells cost as much as 8 × 8.

const LABELLED = 72; // tokens that are written beside a map; more cannot be read
const MIN_LABEL_CELL = 9;

export function colours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return { accent: read("--accent"), ink: read("--ink"), quiet: read("--quiet"), line: read("--line"), paper: read("--paper"), bad: read("--bad-line"), warn: read("--warn-line") };
}

export function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

export function floats(text) {
  return new Float32Array(bytes(text).buffer);
}

const scratch = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
function rgb(colour) {
  scratch.fillStyle = colour;
  scratch.fillRect(0, 0, 1, 1);
  return scratch.getImageData(0, 0, 1, 1).data;
}

/** An image of `size` × `size` pixels; `level(cell)` is [colour, opacity in 0 … 1]. */
export function cellImage(size, level, palette) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d");
  const image = context.createImageData(size, size);
  const known = new Map();
  for (let cell = 0; cell < size * size; cell++) {
    const [name, opacity] = level(cell);
    if (!known.has(name)) known.set(name, rgb(palette[name]));
    const [red, green, blue] = known.get(name);
    image.data.set([red, green, blue, Math.round(255 * opacity)], 4 * cell);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** A small map without labels, as wide as its canvas is on the page. */
export function drawSmall(canvas, levels, size, palette) {
  const pixels = Math.round((canvas.clientWidth || 80) * devicePixelRatio);
  canvas.width = canvas.height = pixels;
  const context = canvas.getContext("2d");
  context.fillStyle = palette.line;
  context.globalAlpha = 0.5;
  context.fillRect(0, 0, pixels, pixels);
  context.globalAlpha = 1;
  context.imageSmoothingEnabled = false;
  context.drawImage(cellImage(size, (cell) => ["accent", levels[cell] / 255], palette), 0, 0, pixels, pixels);
}

export class Heatmap {
  /** `on.point(query, key, by)` when the cursor moves, `on.press(query, key, event)` at a press. */
  constructor(canvas, on = {}) {
    this.canvas = canvas;
    this.on = on;
    this.size = 0;
    this.cursor = null;
    canvas.addEventListener("pointermove", (event) => this.moved(event));
    canvas.addEventListener("pointerleave", () => this.on.leave?.());
    canvas.addEventListener("pointerdown", (event) => {
      const cell = this.at(event);
      if (cell && event.button === 0) this.on.press?.(...cell, event);
    });
    canvas.addEventListener("keydown", (event) => this.typed(event));
  }

  /** `content`: tokens, level(cell), and optionally dots(cell), bars (a value for each query). */
  show(content) {
    this.content = content;
    this.size = content.tokens.length;
    this.draw();
  }

  draw() {
    const width = this.canvas.clientWidth;
    if (!this.content || !width) return;
    const { tokens, level, bars } = this.content, size = this.size, ratio = devicePixelRatio;
    this.palette = colours();
    const context = this.context = this.canvas.getContext("2d");
    const font = Math.max(9, Math.min(13, (0.8 * (width - 90)) / size));
    context.font = `${font}px system-ui, sans-serif`;
    const isLabelled = size <= LABELLED && (width - 70) / size >= MIN_LABEL_CELL;
    const longest = isLabelled ? Math.min(Math.max(...tokens.map((one) => context.measureText(clipped(one)).width)), 0.27 * width) : 0;
    this.left = isLabelled ? longest + 8 : 1;
    this.top = isLabelled ? longest + 8 : 1;
    const right = bars ? Math.max(26, 0.09 * width) : 1;
    this.cell = (width - this.left - right) / size;
    const height = this.top + this.cell * size + 1;
    this.canvas.dataset.cells = `${this.left} ${this.top} ${this.cell}`;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const side = this.cell * size;
    context.globalAlpha = 0.5;
    context.fillStyle = this.palette.line;
    context.fillRect(this.left, this.top, side, side);
    context.globalAlpha = 1;
    context.imageSmoothingEnabled = false;
    context.drawImage(cellImage(size, level, this.palette), this.left, this.top, side, side);
    if (this.cell >= 7) this.drawGaps(side);
    this.drawDots();
    if (isLabelled) this.drawLabels(font);
    if (bars) this.drawBars(bars, right);
    this.drawCursor();
  }

  drawGaps(side) {
    const { context, left, top, cell } = this;
    context.strokeStyle = this.palette.paper;
    context.lineWidth = cell > 16 ? 1.5 : 0.75;
    context.beginPath();
    for (let n = 0; n <= this.size; n++) {
      context.moveTo(left + n * cell, top);
      context.lineTo(left + n * cell, top + side);
      context.moveTo(left, top + n * cell);
      context.lineTo(left + side, top + n * cell);
    }
    context.stroke();
  }

  drawDots() {
    if (!this.content.dots || this.cell < 3) return;
    const { context, left, top, cell } = this;
    for (let at = 0; at < this.size ** 2; at++) {
      const colour = this.content.dots(at);
      if (!colour) continue;
      context.fillStyle = this.palette[colour];
      context.beginPath();
      context.arc(left + ((at % this.size) + 0.5) * cell, top + (Math.floor(at / this.size) + 0.5) * cell, Math.max(1, 0.14 * cell), 0, 7);
      context.fill();
    }
  }

  drawLabels(font) {
    const { context, left, top, cell, palette } = this;
    context.font = `${font}px system-ui, sans-serif`;
    context.textBaseline = "middle";
    this.content.tokens.forEach((token, n) => {
      const text = fitted(context, clipped(token), left - 8);
      context.fillStyle = this.cursor?.[0] === n ? palette.accent : palette.ink;
      context.textAlign = "right";
      context.fillText(text, left - 6, top + (n + 0.5) * cell);
      context.save();
      context.translate(left + (n + 0.5) * cell, top - 6);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillStyle = this.cursor?.[1] === n ? palette.accent : palette.ink;
      context.fillText(text, 0, 0);
      context.restore();
    });
  }

  drawBars(bars, room) {
    const { context, left, top, cell, palette, size } = this;
    const x = left + size * cell + 5, most = Math.log(size) || 1;
    bars.forEach((value, n) => {
      context.fillStyle = palette.line;
      context.fillRect(x, top + (n + 0.2) * cell, room - 6, 0.6 * cell);
      context.fillStyle = palette.quiet;
      context.fillRect(x, top + (n + 0.2) * cell, ((room - 6) * value) / most, 0.6 * cell);
    });
  }

  drawCursor() {
    if (!this.cursor) return;
    const { context, left, top, cell, size } = this, [query, key] = this.cursor;
    if (query >= size || key >= size) return;
    context.strokeStyle = this.palette.ink;
    context.globalAlpha = 0.35;
    context.lineWidth = 1;
    context.strokeRect(left, top + query * cell, size * cell, cell);
    context.strokeRect(left + key * cell, top, cell, size * cell);
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.strokeRect(left + key * cell, top + query * cell, cell, cell);
  }

  point(cell) {
    if (this.cursor?.[0] === cell?.[0] && this.cursor?.[1] === cell?.[1]) return;
    this.cursor = cell;
    this.draw();
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const key = Math.floor((event.clientX - box.left - this.left) / this.cell);
    const query = Math.floor((event.clientY - box.top - this.top) / this.cell);
    const isInside = query >= 0 && key >= 0 && query < this.size && key < this.size;
    return isInside ? [query, key] : null;
  }

  moved(event) {
    const cell = this.at(event);
    if (cell) this.on.point?.(...cell, "pointer", event);
    else this.on.leave?.();
  }

  typed(event) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    let [query, key] = this.cursor ?? [0, 0];
    if (event.key in steps) {
      if (this.cursor) [query, key] = [query + steps[event.key][0], key + steps[event.key][1]];
    } else if (event.key === "Home") key = 0;
    else if (event.key === "End") key = this.size - 1;
    else return this.on.key?.(query, key, event);
    event.preventDefault();
    const inside = (n) => Math.max(0, Math.min(this.size - 1, n));
    this.on.point?.(inside(query), inside(key), "keyboard", event);
  }
}

function clipped(token) {
  return token.length > 14 ? `${token.slice(0, 13)}…` : token;
}

function fitted(context, text, room) {
  let shown = text;
  while (shown.length > 2 && context.measureText(shown).width > room) shown = `${shown.slice(0, -2)}…`;
  return shown;
}
