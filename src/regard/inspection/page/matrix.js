// One large map with a label for every row and column. Mouse, touch and arrow keys move over the cells.

import { draw, make, formatNumber, sharpCanvas, visible, textWidths, announce } from "./dom.js";
import { pixels, shade, signedShade } from "./color.js";
import { maximum, strongest } from "./data.js";
import { t } from "./i18n.js";

const FONT_PIXELS = 13;
const SLANT = (50 * Math.PI) / 180;
const MAX_LABEL_CHARACTERS = 18;
const LABEL_PIXELS = 17; // height of a label; if cells are smaller, only some labels are shown
const MIN_CELL_PIXELS = 10; // default minimum size of a cell; wider maps are scrolled
const MIN_MAP_PIXELS = 360; // minimum height of a map; cells of lower maps become higher than they are wide
const FRAME_MARGIN_PIXELS = 170; // of the window around a map, as in style.css
const SCROLL_BAR_PIXELS = 16;
const TITLE_PIXELS = 20; // height of the title of an axis

const shortLabel = (label) => {
  const characters = Array.from(visible(label));
  return characters.length > MAX_LABEL_CHARACTERS ? `${characters.slice(0, MAX_LABEL_CHARACTERS - 1).join("")}…` : characters.join("");
};

const labelWidths = (labels) => textWidths(labels.map(shortLabel), `${FONT_PIXELS}px`);

function computeLayout(options, room) {
  const rowWidth = Math.max(20, ...labelWidths(options.rowLabels));
  const columnWidths = labelWidths(options.columnLabels);
  const left = Math.ceil(rowWidth) + 14 + (options.rowTitle ? TITLE_PIXELS : 0);
  const top = Math.ceil(Math.max(20, ...columnWidths) * Math.sin(SLANT)) + 16 + (options.columnTitle ? TITLE_PIXELS : 0);
  const right = Math.ceil(columnWidths.at(-1) * Math.cos(SLANT)) + 4;
  const fittingWidth = (room - left - right) / options.columns;
  const cellWidth = Math.max(options.minCell ?? MIN_CELL_PIXELS, Math.min(options.maxCell || 44, fittingWidth < MIN_CELL_PIXELS ? fittingWidth : Math.floor(fittingWidth)));
  const cellHeight = Math.max(cellWidth, Math.min(LABEL_PIXELS, Math.floor(MIN_MAP_PIXELS / options.rows))); // a label per row, if there are few
  return { left, top, right, cellWidth, cellHeight, width: cellWidth * options.columns, height: cellHeight * options.rows };
}

function labelsOf(options, layout) {
  const labelClass = (i, cell) => (i % Math.ceil(LABEL_PIXELS / cell) ? "between" : ""); // shown only on hover
  const rows = options.rowLabels.map((label, i) =>
    draw("text", { class: `row-label ${labelClass(i, layout.cellHeight)} ${options.rowItems?.[i].special ? "special" : ""}`, x: layout.left - 8, y: (i + 0.5) * layout.cellHeight, "text-anchor": "end",
      "dominant-baseline": "central" }, shortLabel(label), draw("title", {}, label)));
  const columns = options.columnLabels.map((label, j) => {
    const x = layout.left + (j + 0.5) * layout.cellWidth;
    const y = layout.top - 8;
    return draw("text", { class: `column-label ${labelClass(j, layout.cellWidth)} ${options.columnItems?.[j].special ? "special" : ""}`, x, y, transform: `rotate(-50 ${x} ${y})`, "dominant-baseline": "central" },
      shortLabel(label), draw("title", {}, label));
  });
  return { rows, columns };
}

// Labels of rows and columns with the titles of the axes. They stay in sight while the cells scroll.
function labelStrips(options, labels, layout, size) {
  const corner = make("div", { class: "corner", style: { width: `${layout.left}px`, height: `${layout.top}px` } });
  const columns = make("div", { class: "column-strip", style: { width: `${size.width}px`, height: `${layout.top}px` } }, corner,
    options.columnTitle ? make("span", { class: "axis-title", style: { left: `${layout.left}px` } }, options.columnTitle) : null,
    draw("svg", { width: size.width, height: layout.top, class: "labels", "aria-hidden": "true" }, labels.columns));
  const rows = make("div", { class: "row-strip", style: { width: `${layout.left}px`, height: `${layout.height}px` } },
    options.rowTitle ? make("span", { class: "axis-title", style: { top: `${layout.top}px` } }, options.rowTitle) : null,
    draw("svg", { width: layout.left, height: layout.height, class: "labels", "aria-hidden": "true" }, labels.rows));
  return [columns, rows];
}

// Masked cells are hatched, so that they differ from cells with weight zero.
function hatch(context, options, { cellWidth, cellHeight }) {
  if (!options.allows) return;
  context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--hatch");
  context.lineWidth = 1;
  context.beginPath();
  for (let i = 0; i < options.rows; i++) {
    for (let j = 0; j < options.columns; j++) {
      if (options.allows(i, j)) continue;
      context.moveTo((j + 0.3) * cellWidth, (i + 0.7) * cellHeight);
      context.lineTo((j + 0.7) * cellWidth, (i + 0.3) * cellHeight);
    }
  }
  context.stroke();
}

function paintCells(options, layout) {
  const { canvas, context } = sharpCanvas(layout.width, layout.height, { class: "cells", "aria-hidden": "true" });
  canvas.style.left = `${layout.left}px`;
  canvas.style.top = `${layout.top}px`;
  context.imageSmoothingEnabled = false;
  context.drawImage(pixels(options.drawn ?? options.values, options.rows, options.columns, options.top, { scale: options.scale }), 0, 0, layout.width, layout.height);
  hatch(context, options, layout);
  if (layout.cellWidth >= 16) {
    context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--cell-gap");
    context.lineWidth = 1;
    context.beginPath();
    for (let i = 1; i < options.rows; i++) context.rect(0, i * layout.cellHeight, layout.width, 0);
    for (let j = 1; j < options.columns; j++) context.rect(j * layout.cellWidth, 0, 0, layout.height);
    context.stroke();
  }
  return canvas;
}

// options: rows, columns, values, rowLabels, columnLabels, rowItems, columnItems, title, rowTitle, columnTitle,
// cursor [row, column], markers [[row, column]], minCell and maxCell (pixels of a cell), allows(row, column),
// drawn (the numbers behind the colors, if they are not `values`), scale ("sequential", "root", "row" or "signed"), top (value of the darkest color), point(row, column), pick(row, column)
export function matrix(options, room) {
  options.top ??= maximum(options.values.map ? options.values.map(Math.abs) : options.values);
  const tooHigh = (candidate) => candidate.top + candidate.height > window.innerHeight - FRAME_MARGIN_PIXELS; // it gets a scroll bar
  const fitting = computeLayout(options, room);
  const layout = tooHigh(fitting) ? computeLayout(options, room - SCROLL_BAR_PIXELS) : fitting;
  const labels = labelsOf(options, layout);
  const [row, column] = options.cursor || [-1, -1];
  const ring = draw("rect", { class: "ring", width: layout.cellWidth, height: layout.cellHeight, rx: 2, visibility: "hidden" });
  const band = draw("rect", { class: "band", width: layout.width + 4, height: layout.cellHeight, x: layout.left - 2, rx: 3, visibility: "hidden" });
  const markers = (options.markers || []).map(([i, j]) =>
    draw("circle", { class: "marker", cx: layout.left + (j + 0.5) * layout.cellWidth, cy: layout.top + (i + 0.5) * layout.cellHeight,
      r: Math.max(2.5, layout.cellWidth * 0.16) }));
  const size = { width: layout.left + layout.width + layout.right, height: layout.top + layout.height + 6 };
  const overlay = draw("svg", { ...size, class: "overlay", "aria-hidden": "true" }, band, markers, ring);
  const frame = make("div", {
    class: "matrix", tabindex: 0, "data-scroll": `matrix:${options.title}`, role: "application", "data-key": "matrix", "aria-label": altText(options),
    "aria-description": t`Arrow keys move over the cells`,
  }, make("div", { class: "matrix-inner", style: { width: `${size.width}px`, height: `${size.height}px` } },
    paintCells(options, layout), overlay, labelStrips(options, labels, layout, size)));

  let cursor = [row, column];
  const show = (i, j) => {
    cursor = [i, j];
    for (const [list, index] of [[labels.rows, i], [labels.columns, j]]) list.forEach((label, k) => label.classList.toggle("on", k === index));
    ring.setAttribute("x", layout.left + j * layout.cellWidth);
    ring.setAttribute("y", layout.top + i * layout.cellHeight);
    band.setAttribute("y", layout.top + i * layout.cellHeight);
    ring.setAttribute("visibility", j >= 0 ? "visible" : "hidden");
    band.setAttribute("visibility", i >= 0 ? "visible" : "hidden");
  };
  show(row, column);
  addEvents(frame, { options, layout, show, cursor: () => cursor });
  frame.highlight = show; // another map may highlight a cell here
  if (row >= 0) requestAnimationFrame(() => scrollToCell(frame, layout, cursor));
  return frame;
}

// Scroll the cells inside the frame until one of them is in sight.
function scrollToCell(frame, layout, [i, j]) {
  const scrolled = (at, start, size, room) => (start < at ? start : start + size > at + room ? start + size - room : at);
  frame.scrollTop = scrolled(frame.scrollTop, i * layout.cellHeight, layout.cellHeight, frame.clientHeight - layout.top);
  frame.scrollLeft = scrolled(frame.scrollLeft, Math.max(0, j) * layout.cellWidth, layout.cellWidth, frame.clientWidth - layout.left);
}

function addEvents(frame, { options, layout, show, cursor }) {
  const value = (i, j) => options.values[i * options.columns + j];
  const moveTo = (i, j) => {
    show(i, j);
    options.point?.(i, j, value(i, j));
  };
  const cellAt = (event) => {
    const box = frame.firstElementChild.getBoundingClientRect();
    const area = frame.getBoundingClientRect();
    if (event.clientY - area.top < layout.top) return null; // over the labels of the columns, under which cells are scrolled
    const isLabel = event.clientX - area.left < layout.left;
    const j = isLabel ? -1 : Math.floor((event.clientX - box.left - layout.left) / layout.cellWidth);
    const i = Math.floor((event.clientY - box.top - layout.top) / layout.cellHeight);
    // Over a row label the entire row is meant, so the column does not change.
    return i < 0 || i >= options.rows || j >= options.columns ? null : [i, j < 0 ? Math.max(0, cursor()[1]) : j];
  };
  frame.addEventListener("pointermove", (event) => {
    const cell = cellAt(event);
    if (cell && (cell[0] !== cursor()[0] || cell[1] !== cursor()[1])) moveTo(...cell);
  });
  frame.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell) options.pick?.(...cell);
  });
  frame.addEventListener("keydown", (event) => {
    const offset = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (event.key === "Enter" && cursor()[0] >= 0) return options.pick?.(...cursor());
    if (!offset) return;
    event.preventDefault();
    const i = Math.min(options.rows - 1, Math.max(0, cursor()[0] + offset[0]));
    const j = Math.min(options.columns - 1, Math.max(0, cursor()[1] + offset[1]));
    moveTo(i, j);
    scrollToCell(frame, layout, [i, j]);
    announce(t`${options.rowLabels[i]} to ${options.columnLabels[j]}: ${formatNumber(value(i, j), 3)}`);
  });
}

// Alt text: the size of the map and its strongest cell.
function altText(options) {
  const best = strongest(options.values);
  const [i, j] = [Math.floor(best / options.columns), best % options.columns];
  return `${t`${options.title}. ${options.rows} rows by ${options.columns} columns.`} ` +
    t`Strongest: ${options.rowLabels[i]} to ${options.columnLabels[j]}, ${formatNumber(options.values[best], 3)}.`;
}

// Color bar with its two ends.
export function legend(top, { scale = "sequential", label = t`weight`, masked = false } = {}) {
  const color = scale === "signed" ? (share) => signedShade(share * 2 - 1) : (share) => shade(share, scale);
  const stops = Array.from({ length: 9 }, (_, i) => color(i / 8)).join(",");
  return make("div", { class: "legend" },
    make("span", { class: "figure" }, scale === "signed" ? formatNumber(-top, 2) : "0"),
    make("span", { class: "legend-bar", style: { background: `linear-gradient(to right, ${stops})` } }),
    make("span", { class: "figure" }, formatNumber(top, 2)), make("span", { class: "quiet" }, label),
    masked ? make("span", { class: "quiet legend-masked" }, make("span", { class: "hatched", "aria-hidden": "true" }), t`masked`) : null);
}
