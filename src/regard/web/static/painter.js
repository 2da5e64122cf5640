// Painted cells of a mask, on top of what an expression says: by mouse, by touch, by keyboard.
import { Heatmap } from "./heatmap.js";

const KEYS = 4096; // more than a row has: a cell is query · KEYS + key

/** `4-9.7-12,5.8`: queries and keys, as the server reads them. */
function decode(text) {
  const cells = [];
  for (const part of text.split(",").filter(Boolean)) {
    const [[top, bottom = top], [left, right = left]] = part.split(".").map((range) => range.split("-").map(Number));
    for (let i = top; i <= bottom; i++) for (let j = left; j <= right; j++) cells.push(i * KEYS + j);
  }
  return cells;
}

function encode(cells) {
  const runs = []; // of one query: [query, first key, last key]
  for (const cell of [...cells].sort((a, b) => a - b)) {
    const [i, j] = [Math.floor(cell / KEYS), cell % KEYS], last = runs.at(-1);
    if (last?.[0] === i && last[2] === j - 1) last[2] = j;
    else runs.push([i, j, j]);
  }
  const open = new Map(), rectangles = [];
  for (const [i, left, right] of runs) {
    const above = open.get(`${left}-${right}`);
    if (above?.bottom === i - 1) above.bottom = i;
    else {
      const made = { top: i, bottom: i, left, right };
      open.set(`${left}-${right}`, made);
      rectangles.push(made);
    }
  }
  const range = (from, to) => (from === to ? `${from}` : `${from}-${to}`);
  return rectangles.map((one) => `${range(one.top, one.bottom)}.${range(one.left, one.right)}`).join(",");
}

export class Painter {
  /** `changed()` after each stroke, `pointed(query, key, by)` when the cursor moves. */
  constructor(canvas, { changed, pointed, left }) {
    this.painted = new Map(); // cell -> whether it may attend
    this.changed = changed;
    this.map = new Heatmap(canvas, {
      point: (query, key, by, event) => this.moved(query, key, by, event, pointed),
      press: (query, key, event) => this.began(query, key, event),
      key: (query, key, event) => this.typed(query, key, event),
      leave: left,
    });
    canvas.addEventListener("pointerup", () => this.ended());
    canvas.addEventListener("pointercancel", () => this.ended());
    canvas.addEventListener("click", (event) => this.tapped(event));
  }

  restore(allow, forbid) {
    for (const cell of decode(allow)) this.painted.set(cell, true);
    for (const cell of decode(forbid)) this.painted.set(cell, false);
  }

  parameters() {
    const of = (value) => encode([...this.painted].filter(([, painted]) => painted === value).map(([cell]) => cell));
    return { allow: of(true), forbid: of(false) };
  }

  clear() {
    this.painted.clear();
    this.show();
    this.changed();
  }

  /** What the server says: the expression's table, and the pairs that the audit found to leak. */
  set({ tokens, plain }) {
    this.tokens = tokens;
    this.plain = plain;
    this.leaks = null;
    this.show();
  }

  setLeaks(pairs) {
    this.leaks = pairs;
    this.show();
  }

  mayAttend(query, key) {
    return this.painted.get(query * KEYS + key) ?? Boolean(this.plain[query * this.tokens.length + key]);
  }

  show() {
    if (!this.tokens) return;
    const size = this.tokens.length;
    const place = (cell) => [Math.floor(cell / size), cell % size];
    this.map.show({
      tokens: this.tokens,
      level: (cell) => {
        if (!this.mayAttend(...place(cell))) return this.leaks?.[cell] ? ["bad", 0.45] : ["line", 0];
        return this.leaks?.[cell] ? ["bad", 1] : ["accent", 1];
      },
      dots: (cell) => {
        const [query, key] = place(cell), painted = this.painted.get(query * KEYS + key);
        return painted === undefined ? null : painted ? "paper" : "quiet";
      },
    });
  }

  paint(query, key, value) {
    const cell = query * KEYS + key;
    if (value === Boolean(this.plain[query * this.tokens.length + key])) this.painted.delete(cell);
    else this.painted.set(cell, value);
    this.leaks = null; // found for another mask
  }

  began(query, key, event) {
    if (event.pointerType === "touch") return; // a finger scrolls; a tap paints
    this.value = !this.mayAttend(query, key);
    this.last = [query, key];
    this.map.canvas.setPointerCapture(event.pointerId);
    this.paint(query, key, this.value);
    this.show();
    this.changed();
  }

  tapped(event) {
    const cell = event.pointerType === "touch" ? this.map.at(event) : null;
    if (!cell) return;
    this.paint(...cell, !this.mayAttend(...cell));
    this.show();
    this.changed();
  }

  ended() {
    this.last = null;
  }

  moved(query, key, by, event, pointed) {
    if (by === "keyboard" && event.shiftKey && this.map.cursor) {
      this.paint(query, key, this.mayAttend(...this.map.cursor));
      this.show();
      this.changed();
    }
    if (by === "pointer" && this.last) {
      const [fromQuery, fromKey] = this.last; // a fast stroke skips cells
      const steps = Math.max(Math.abs(query - fromQuery), Math.abs(key - fromKey), 1);
      for (let n = 1; n <= steps; n++) {
        this.paint(Math.round(fromQuery + ((query - fromQuery) * n) / steps), Math.round(fromKey + ((key - fromKey) * n) / steps), this.value);
      }
      this.last = [query, key];
      this.show();
      this.changed();
    }
    pointed(query, key, by);
  }

  typed(query, key, event) {
    if (event.key !== " " && event.key !== "Enter") return;
    event.preventDefault();
    this.paint(query, key, !this.mayAttend(query, key));
    this.show();
    this.changed();
    this.map.on.point(query, key, "keyboard", {});
  }
}
