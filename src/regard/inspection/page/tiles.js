// A long map: tiles of a max-pooled pyramid on one canvas. Wheel or + and - zoom, dragging or arrow keys move, down to single cells.
// Only visible tiles are unpacked; until a fine tile is available, a coarser one is drawn instead.

import { make, formatNumber, sharpCanvas, visible, announce } from "./dom.js";
import { pixels, currentTheme } from "./color.js";
import { maximum } from "./data.js";
import { t } from "./i18n.js";

const MARGIN = 96;
const LABELLED_CELL_PIXELS = 13; // minimum size of a cell with a label

// Value of the darkest color. The first row, which is always 1 in a causal map, is not counted, nor is the largest hundredth
// of the other cells, so that a few large weights do not make all other cells white.
export function colorMaximum(values, columns) {
  const positive = values.subarray(columns).filter((value) => value > 0).sort();
  return positive[Math.floor(positive.length * 0.99)] || maximum(values);
}

export class TileMap {
  // options: map, head, rowLabels, columnLabels, rowTitle, columnTitle, title, point(row, column, value), cursor, onPainted(top)
  constructor(options, width, height) {
    Object.assign(this, options, { width, height, tileImages: new Map(), redrawScheduled: false, top: 0, pointers: new Map() });
    this.plot = { width: width - MARGIN, height: height - MARGIN };
    this.minCell = Math.min(this.plot.width / this.map.columns, this.plot.height / this.map.rows);
    Object.assign(this, { cell: this.minCell, x: 0, y: 0 });
    const { canvas, context } = sharpCanvas(width, height, {
      class: "tiles", tabindex: 0, role: "application", "data-key": "tiles", "aria-label": t`${this.title}. ${this.map.rows} rows by ${this.map.columns} columns.`,
      "aria-description": t`Plus and minus zoom, arrow keys move`,
    });
    Object.assign(this, { canvas, context });
    this.listen();
    this.start();
  }

  async start() {
    const { columns, values } = await this.map.thumbnail(this.head);
    this.top = colorMaximum(values, columns);
    this.tileImages.clear();
    if (this.cursor) this.centre(this.cursor[0], this.cursor[1], LABELLED_CELL_PIXELS + 5);
    this.redraw();
    this.onPainted?.(this.top);
  }

  centre(row, column, cell = this.cell) {
    this.cell = cell;
    this.x = column + 0.5 - this.plot.width / cell / 2;
    this.y = row + 0.5 - this.plot.height / cell / 2;
    this.clampView();
  }

  clampView() {
    this.cell = Math.min(48, Math.max(this.minCell, this.cell));
    const limit = (start, count, room) => Math.min(Math.max(0, count - room / this.cell), Math.max(0, start));
    this.x = limit(this.x, this.map.columns, this.plot.width);
    this.y = limit(this.y, this.map.rows, this.plot.height);
  }

  // Draw one tile; the result is cached per theme.
  async renderTile(level, i, j) {
    const tile = await this.map.tile(this.head, level, i, j);
    const canvas = pixels(tile.values, tile.height, tile.width, this.top, { scale: "root" });
    return { canvas, values: tile.values };
  }

  tileImage(level, i, j) {
    const key = `${currentTheme()}/${level}/${i}/${j}`;
    if (!this.tileImages.has(key)) {
      this.tileImages.set(key, null);
      this.renderTile(level, i, j).then((image) => {
        this.tileImages.set(key, image.canvas);
        this.redraw();
      });
    }
    return this.tileImages.get(key);
  }

  redraw() {
    if (this.redrawScheduled) return;
    this.redrawScheduled = true;
    requestAnimationFrame(() => {
      this.redrawScheduled = false;
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
    const targetLevel = Math.max(this.map.finestLevel(this.head), Math.min(coarsest, Math.floor(Math.log2(1 / this.cell) + 0.5)));
    for (const level of new Set([coarsest, Math.min(coarsest, targetLevel + 1), targetLevel])) this.drawLevel(level);
    context.restore();
    this.drawLabels(style);
    if (this.tileImages.size && !performance.getEntriesByName("first-map").length) performance.mark("first-map");
  }

  drawLevel(level) {
    const span = 2 ** level * this.map.tileSize;
    const { shape } = this.map.levels(this.head)[level];
    const last = (size) => Math.ceil(size / this.map.tileSize) - 1;
    const from = [Math.floor(this.y / span), Math.floor(this.x / span)];
    const to = [Math.min(last(shape[0]), Math.floor((this.y + this.plot.height / this.cell) / span)),
      Math.min(last(shape[1]), Math.floor((this.x + this.plot.width / this.cell) / span))];
    for (let i = from[0]; i <= to[0]; i++) {
      for (let j = from[1]; j <= to[1]; j++) {
        const canvas = this.tileImage(level, i, j);
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
    const every = this.cell >= LABELLED_CELL_PIXELS ? 1 : 2 ** Math.ceil(Math.log2(64 / this.cell));
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
    this.cell = Math.min(48, Math.max(this.minCell, before * factor));
    this.x = column - px / this.cell;
    this.y = row - py / this.cell;
    this.clampView();
    this.redraw();
  }

  move(dx, dy) {
    this.x += dx / this.cell;
    this.y += dy / this.cell;
    this.clampView();
    this.redraw();
  }

  async reportCell(px, py) {
    const row = Math.floor(this.y + py / this.cell);
    const column = Math.floor(this.x + px / this.cell);
    if (px < 0 || py < 0 || row >= this.map.rows || column >= this.map.columns || row < 0) return;
    const level = this.map.finestLevel(this.head);
    const [i, j] = [row >> level, column >> level];
    const { tileSize } = this.map;
    const tile = await this.map.tile(this.head, level, Math.floor(i / tileSize), Math.floor(j / tileSize));
    const value = tile.values[(i % tileSize) * tile.width + (j % tileSize)];
    this.point?.(row, column, value, level);
  }

  listen() {
    const { canvas } = this;
    const plotPosition = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left - MARGIN, event.clientY - box.top - MARGIN];
    };
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * 0.0022), ...plotPosition(event));
    }, { passive: false });
    canvas.addEventListener("dblclick", (event) => this.zoom(4, ...plotPosition(event)));
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, event);
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener("pointermove", (event) => {
      const before = this.pointers.get(event.pointerId);
      if (!before) return this.reportCell(...plotPosition(event));
      const otherPointer = [...this.pointers.values()].find((pointer) => pointer.pointerId !== event.pointerId);
      const distance = (pointer) => Math.hypot(pointer.clientX - otherPointer.clientX, pointer.clientY - otherPointer.clientY);
      if (otherPointer) this.zoom(distance(event) / Math.max(1, distance(before)), ...plotPosition(event));
      else this.move(before.clientX - event.clientX, before.clientY - event.clientY);
      this.pointers.set(event.pointerId, event);
    });
    canvas.addEventListener("keydown", (event) => this.onKey(event));
  }

  onKey(event) {
    const offset = { ArrowRight: [60, 0], ArrowLeft: [-60, 0], ArrowDown: [0, 60], ArrowUp: [0, -60] }[event.key];
    const factor = { "+": 1.6, "=": 1.6, "-": 1 / 1.6 }[event.key];
    if (!offset && !factor) return;
    event.preventDefault();
    if (offset) this.move(...offset);
    else this.zoom(factor);
    announce(t`showing rows from ${Math.floor(this.y) + 1}, columns from ${Math.floor(this.x) + 1}, ${formatNumber(this.cell, 1)} pixels per cell`);
  }
}

// Tile map with zoom buttons.
export function tileMap(options, width, height) {
  const tiles = new TileMap(options, width, height);
  const button = (label, text, act) => make("button", { type: "button", class: "tool", "aria-label": label, title: label, onclick: act }, text);
  return make("div", { class: "tile-frame" }, tiles.canvas, make("div", { class: "tile-tools" },
    button(t`Zoom in`, "+", () => tiles.zoom(1.6)), button(t`Zoom out`, "−", () => tiles.zoom(1 / 1.6)),
    button(t`Entire map`, "⤢", () => { tiles.cell = 0; tiles.clampView(); tiles.redraw(); })));
}
