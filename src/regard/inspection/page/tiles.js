// A long map: tiles of a max-pooled pyramid on one canvas. Wheel or + and - zoom, dragging or arrows move, down to single cells.
// Only the tiles in sight are unpacked; until a fine tile is there, a coarser one stands in its place.

import { make, number, sharpCanvas, visible, announce } from "./dom.js";
import { pixels, themeNow } from "./color.js";
import { maximum } from "./data.js";
import { say } from "./i18n.js";

const MARGIN = 96;
const LABELLED = 13; // pixels a cell needs before its label is written

// What the darkest colour stands for: the first row, which in a causal map is 1 whatever the others are, is not counted, nor is
// the largest hundredth of the others, so that a few strong cells do not make all others white.
export function topOf(values, columns) {
  const others = values.subarray(columns).filter((value) => value > 0).sort();
  return others[Math.floor(others.length * 0.99)] || maximum(values);
}

export class TileMap {
  // options: map, head, rowLabels, columnLabels, rowTitle, columnTitle, title, point(row, column, value), cursor, painted(top)
  constructor(options, width, height) {
    Object.assign(this, options, { width, height, pictures: new Map(), waiting: false, top: 0, pointers: new Map() });
    this.plot = { width: width - MARGIN, height: height - MARGIN };
    this.smallest = Math.min(this.plot.width / this.map.columns, this.plot.height / this.map.rows);
    Object.assign(this, { cell: this.smallest, x: 0, y: 0 });
    const { canvas, context } = sharpCanvas(width, height, {
      class: "tiles", tabindex: 0, role: "application", "data-key": "tiles", "aria-label": say`${this.title}. ${this.map.rows} rows by ${this.map.columns} columns.`,
      "aria-description": say`Plus and minus zoom, arrow keys move`,
    });
    Object.assign(this, { canvas, context });
    this.listen();
    this.start();
  }

  async start() {
    const { columns, values } = await this.map.thumbnail(this.head);
    this.top = topOf(values, columns);
    this.pictures.clear();
    if (this.cursor) this.centre(this.cursor[0], this.cursor[1], LABELLED + 5);
    this.redraw();
    this.painted?.(this.top);
  }

  centre(row, column, cell = this.cell) {
    this.cell = cell;
    this.x = column + 0.5 - this.plot.width / cell / 2;
    this.y = row + 0.5 - this.plot.height / cell / 2;
    this.keep();
  }

  keep() {
    this.cell = Math.min(48, Math.max(this.smallest, this.cell));
    const limit = (at, count, room) => Math.min(Math.max(0, count - room / this.cell), Math.max(0, at));
    this.x = limit(this.x, this.map.columns, this.plot.width);
    this.y = limit(this.y, this.map.rows, this.plot.height);
  }

  // The picture of one tile, made once per theme.
  async picture(level, i, j) {
    const tile = await this.map.tile(this.head, level, i, j);
    const canvas = pixels(tile.values, tile.height, tile.width, this.top, { scale: "root" });
    return { canvas, values: tile.values };
  }

  ready(level, i, j) {
    const key = `${themeNow()}/${level}/${i}/${j}`;
    if (!this.pictures.has(key)) {
      this.pictures.set(key, null);
      this.picture(level, i, j).then((made) => {
        this.pictures.set(key, made.canvas);
        this.redraw();
      });
    }
    return this.pictures.get(key);
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  draw() {
    const { context } = this;
    const style = getComputedStyle(document.documentElement);
    context.clearRect(0, 0, this.width, this.height);
    context.imageSmoothingEnabled = false;
    context.save();
    context.translate(MARGIN, MARGIN);
    context.beginPath();
    context.rect(0, 0, Math.min(this.plot.width, this.map.columns * this.cell), Math.min(this.plot.height, this.map.rows * this.cell));
    context.clip();
    const coarsest = this.map.levels(this.head).length - 1;
    const wanted = Math.max(this.map.finest(this.head), Math.min(coarsest, Math.floor(Math.log2(1 / this.cell) + 0.5)));
    for (const level of new Set([coarsest, Math.min(coarsest, wanted + 1), wanted])) this.drawLevel(level);
    context.restore();
    this.drawLabels(style);
    if (this.pictures.size && !performance.getEntriesByName("first-map").length) performance.mark("first-map");
  }

  drawLevel(level) {
    const span = 2 ** level * this.map.side;
    const { shape } = this.map.levels(this.head)[level];
    const last = (size) => Math.ceil(size / this.map.side) - 1;
    const from = [Math.floor(this.y / span), Math.floor(this.x / span)];
    const to = [Math.min(last(shape[0]), Math.floor((this.y + this.plot.height / this.cell) / span)),
      Math.min(last(shape[1]), Math.floor((this.x + this.plot.width / this.cell) / span))];
    for (let i = from[0]; i <= to[0]; i++) {
      for (let j = from[1]; j <= to[1]; j++) {
        const canvas = this.ready(level, i, j);
        const scale = 2 ** level * this.cell;
        if (canvas) this.context.drawImage(canvas, (j * span - this.x) * this.cell, (i * span - this.y) * this.cell, canvas.width * scale, canvas.height * scale);
      }
    }
  }

  drawLabels(style) {
    const { context } = this;
    context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    context.fillStyle = style.getPropertyValue("--ink-soft");
    context.textBaseline = "middle";
    const every = this.cell >= LABELLED ? 1 : 2 ** Math.ceil(Math.log2(64 / this.cell));
    const text = (labels, i) => (every === 1 ? Array.from(visible(labels[i])).slice(0, 11).join("") : String(i + 1));
    context.textAlign = "center";
    if (this.columnTitle) context.fillText(this.columnTitle, MARGIN + this.plot.width / 2, 9);
    context.save();
    context.translate(9, MARGIN + this.plot.height / 2);
    context.rotate(-Math.PI / 2);
    if (this.rowTitle) context.fillText(this.rowTitle, 0, 0);
    context.restore();
    context.textAlign = "right";
    for (let i = Math.ceil(this.y / every) * every; i < this.map.rows && (i - this.y) * this.cell < this.plot.height; i += every) {
      context.fillText(text(this.rowLabels, i), MARGIN - 8, MARGIN + (i + 0.5 - this.y) * this.cell);
    }
    context.textAlign = "left";
    for (let j = Math.ceil(this.x / every) * every; j < this.map.columns && (j - this.x) * this.cell < this.plot.width; j += every) {
      context.save();
      context.translate(MARGIN + (j + 0.5 - this.x) * this.cell, MARGIN - 8);
      context.rotate(-1);
      context.fillText(text(this.columnLabels, j), 0, 0);
      context.restore();
    }
  }

  zoom(factor, px = this.plot.width / 2, py = this.plot.height / 2) {
    const before = this.cell;
    const [column, row] = [this.x + px / before, this.y + py / before];
    this.cell = Math.min(48, Math.max(this.smallest, before * factor));
    this.x = column - px / this.cell;
    this.y = row - py / this.cell;
    this.keep();
    this.redraw();
  }

  move(dx, dy) {
    this.x += dx / this.cell;
    this.y += dy / this.cell;
    this.keep();
    this.redraw();
  }

  async tell(px, py) {
    const row = Math.floor(this.y + py / this.cell);
    const column = Math.floor(this.x + px / this.cell);
    if (px < 0 || py < 0 || row >= this.map.rows || column >= this.map.columns || row < 0) return;
    const level = this.map.finest(this.head);
    const [i, j] = [row >> level, column >> level];
    const { side } = this.map;
    const tile = await this.map.tile(this.head, level, Math.floor(i / side), Math.floor(j / side));
    const value = tile.values[(i % side) * tile.width + (j % side)];
    this.point?.(row, column, value, level);
  }

  listen() {
    const { canvas } = this;
    const local = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left - MARGIN, event.clientY - box.top - MARGIN];
    };
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * 0.0022), ...local(event));
    }, { passive: false });
    canvas.addEventListener("dblclick", (event) => this.zoom(4, ...local(event)));
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, event);
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener("pointermove", (event) => {
      const before = this.pointers.get(event.pointerId);
      if (!before) return this.tell(...local(event));
      const other = [...this.pointers.values()].find((one) => one.pointerId !== event.pointerId);
      const apart = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
      if (other) this.zoom(apart(event) / Math.max(1, apart(before)), ...local(event));
      else this.move(before.clientX - event.clientX, before.clientY - event.clientY);
      this.pointers.set(event.pointerId, event);
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const by = { ArrowRight: [60, 0], ArrowLeft: [-60, 0], ArrowDown: [0, 60], ArrowUp: [0, -60] }[event.key];
    const factor = { "+": 1.6, "=": 1.6, "-": 1 / 1.6 }[event.key];
    if (!by && !factor) return;
    event.preventDefault();
    if (by) this.move(...by);
    else this.zoom(factor);
    announce(say`showing rows from ${Math.floor(this.y) + 1}, columns from ${Math.floor(this.x) + 1}, ${number(this.cell, 1)} pixels a cell`);
  }
}

// The tile map with its zoom buttons.
export function tileMap(options, width, height) {
  const tiles = new TileMap(options, width, height);
  const button = (label, text, act) => make("button", { type: "button", class: "tool", "aria-label": label, title: label, onclick: act }, text);
  return make("div", { class: "tile-frame" }, tiles.canvas, make("div", { class: "tile-tools" },
    button(say`Zoom in`, "+", () => tiles.zoom(1.6)), button(say`Zoom out`, "−", () => tiles.zoom(1 / 1.6)),
    button(say`Whole map`, "⤢", () => { tiles.cell = 0; tiles.keep(); tiles.redraw(); })));
}
