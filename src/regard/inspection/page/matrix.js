// One map, large, with a label for every row and column. Mouse, touch and arrow keys move over the cells.

import { draw, make, number, sharpCanvas, visible, widthsOf, announce } from "./dom.js";
import { pixels, shade, signed } from "./color.js";
import { maximum, strongest } from "./data.js";
import { say } from "./i18n.js";

const FONT = 13;
const SLANT = (50 * Math.PI) / 180;
const LONGEST = 18;
const ROOM = 17; // pixels that a label needs; where cells are smaller, only some labels are written
const SMALLEST = 10; // pixels of a cell, unless told; a wider map is moved under its frame
const LOW = 360; // pixels below which a map of narrower cells is made higher than its cells are wide
const TITLE = 20; // pixels for the title of an axis

const short = (label) => {
  const letters = Array.from(visible(label));
  return letters.length > LONGEST ? `${letters.slice(0, LONGEST - 1).join("")}…` : letters.join("");
};

const widths = (labels) => widthsOf(labels.map(short), `${FONT}px`);

function layout(options, room) {
  const rowWidth = Math.max(20, ...widths(options.rowLabels));
  const columnWidths = widths(options.columnLabels);
  const left = Math.ceil(rowWidth) + 14 + (options.rowTitle ? TITLE : 0);
  const top = Math.ceil(Math.max(20, ...columnWidths) * Math.sin(SLANT)) + 16 + (options.columnTitle ? TITLE : 0);
  const right = Math.ceil(columnWidths.at(-1) * Math.cos(SLANT)) + 4;
  const fits = (room - left - right) / options.columns;
  const across = Math.max(options.smallest ?? SMALLEST, Math.min(options.largest || 44, fits < SMALLEST ? fits : Math.floor(fits)));
  const down = Math.max(across, Math.min(SMALLEST, Math.floor(LOW / options.rows)));
  return { left, top, right, across, down, width: across * options.columns, height: down * options.rows };
}

function labelsOf(options, place) {
  const seen = (i, cell) => (i % Math.ceil(ROOM / cell) ? "between" : ""); // written only while it is pointed at
  const rows = options.rowLabels.map((label, i) =>
    draw("text", { class: `row-label ${seen(i, place.down)} ${options.rowItems?.[i].special ? "special" : ""}`, x: place.left - 8, y: place.top + (i + 0.5) * place.down, "text-anchor": "end",
      "dominant-baseline": "central" }, short(label), draw("title", {}, label)));
  const columns = options.columnLabels.map((label, j) => {
    const x = place.left + (j + 0.5) * place.across;
    const y = place.top - 8;
    return draw("text", { class: `column-label ${seen(j, place.across)} ${options.columnItems?.[j].special ? "special" : ""}`, x, y, transform: `rotate(-50 ${x} ${y})`, "dominant-baseline": "central" },
      short(label), draw("title", {}, label));
  });
  return { rows, columns };
}

// What the rows and the columns are.
function titlesOf(options, place) {
  const half = widthsOf([options.rowTitle ?? ""], "12px")[0] / 2 + 2; // beside few rows the title would reach below the picture
  const middle = Math.min(place.top + place.height / 2, place.top + place.height + 6 - half);
  return [
    options.rowTitle ? draw("text", { class: "axis-title", x: 11, y: middle, transform: `rotate(-90 11 ${middle})`, "text-anchor": "middle" }, options.rowTitle) : null,
    options.columnTitle ? draw("text", { class: "axis-title", x: place.left + place.width / 2, y: 13, "text-anchor": "middle" }, options.columnTitle) : null,
  ].filter(Boolean);
}

// Cells that may not be looked at are hatched, so that "may not" and "does not" are told apart.
function hatch(context, options, { across, down }) {
  if (!options.allows) return;
  context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--hatch");
  context.lineWidth = 1;
  context.beginPath();
  for (let i = 0; i < options.rows; i++) {
    for (let j = 0; j < options.columns; j++) {
      if (options.allows(i, j)) continue;
      context.moveTo((j + 0.3) * across, (i + 0.7) * down);
      context.lineTo((j + 0.7) * across, (i + 0.3) * down);
    }
  }
  context.stroke();
}

function paintCells(options, place) {
  const { canvas, context } = sharpCanvas(place.width, place.height, { class: "cells", "aria-hidden": "true" });
  canvas.style.left = `${place.left}px`;
  canvas.style.top = `${place.top}px`;
  context.imageSmoothingEnabled = false;
  context.drawImage(pixels(options.values, options.rows, options.columns, options.top, { scale: options.scale }), 0, 0, place.width, place.height);
  hatch(context, options, place);
  if (place.across >= 16) {
    context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--cell-gap");
    context.lineWidth = 1;
    context.beginPath();
    for (let i = 1; i < options.rows; i++) context.rect(0, i * place.down, place.width, 0);
    for (let j = 1; j < options.columns; j++) context.rect(j * place.across, 0, 0, place.height);
    context.stroke();
  }
  return canvas;
}

// options: rows, columns, values, rowLabels, columnLabels, rowItems, columnItems, title, cursor [row, column], marks [[row, column]],
// smallest and largest (pixels of a cell), rowTitle, columnTitle, allows(row, column), scale ("sequential" or "signed"), top (value of the darkest colour), point(row, column), pick(row, column)
export function matrix(options, room) {
  options.top ??= maximum(options.values.map ? options.values.map(Math.abs) : options.values);
  const place = layout(options, room);
  const labels = labelsOf(options, place);
  const [row, column] = options.cursor || [-1, -1];
  const ring = draw("rect", { class: "ring", width: place.across, height: place.down, rx: 2, visibility: "hidden" });
  const band = draw("rect", { class: "band", width: place.width + 4, height: place.down, x: place.left - 2, rx: 3, visibility: "hidden" });
  const marks = (options.marks || []).map(([i, j]) =>
    draw("circle", { class: "mark", cx: place.left + (j + 0.5) * place.across, cy: place.top + (i + 0.5) * place.down,
      r: Math.max(2.5, place.across * 0.16) }));
  const total = { width: place.left + place.width + place.right, height: place.top + place.height + 6 };
  const overlay = draw("svg", { ...total, class: "overlay", "aria-hidden": "true" }, titlesOf(options, place), labels.rows, labels.columns, band, marks, ring);
  const frame = make("div", {
    class: "matrix", tabindex: 0, role: "application", "data-key": "matrix", "aria-label": describe(options),
    "aria-description": say`Arrow keys move over the cells`,
  }, make("div", { class: "matrix-inner", style: { width: `${total.width}px`, height: `${total.height}px` } },
    paintCells(options, place), overlay));

  let at = [row, column];
  const show = (i, j) => {
    at = [i, j];
    for (const [list, index] of [[labels.rows, i], [labels.columns, j]]) list.forEach((label, k) => label.classList.toggle("on", k === index));
    ring.setAttribute("x", place.left + j * place.across);
    ring.setAttribute("y", place.top + i * place.down);
    band.setAttribute("y", place.top + i * place.down);
    ring.setAttribute("visibility", j >= 0 ? "visible" : "hidden");
    band.setAttribute("visibility", i >= 0 ? "visible" : "hidden");
  };
  show(row, column);
  follow(frame, { options, place, show, at: () => at });
  return frame;
}

function follow(frame, { options, place, show, at }) {
  const value = (i, j) => options.values[i * options.columns + j];
  const go = (i, j) => {
    show(i, j);
    options.point?.(i, j, value(i, j));
  };
  const cellAt = (event) => {
    const box = frame.firstElementChild.getBoundingClientRect();
    const j = Math.floor((event.clientX - box.left - place.left) / place.across);
    const i = Math.floor((event.clientY - box.top - place.top) / place.down);
    // Over a row's label the whole row is meant, so the column stays where it was.
    return i < 0 || i >= options.rows || j >= options.columns ? null : [i, j < 0 ? Math.max(0, at()[1]) : j];
  };
  frame.addEventListener("pointermove", (event) => {
    const cell = cellAt(event);
    if (cell && (cell[0] !== at()[0] || cell[1] !== at()[1])) go(...cell);
  });
  frame.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell) options.pick?.(...cell);
  });
  frame.addEventListener("keydown", (event) => {
    const by = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (event.key === "Enter" && at()[0] >= 0) return options.pick?.(...at());
    if (!by) return;
    event.preventDefault();
    const i = Math.min(options.rows - 1, Math.max(0, at()[0] + by[0]));
    const j = Math.min(options.columns - 1, Math.max(0, at()[1] + by[1]));
    go(i, j);
    announce(say`${options.rowLabels[i]} to ${options.columnLabels[j]}: ${number(value(i, j), 3)}`);
  });
}

// Alt text: the size of the map and its strongest cell.
function describe(options) {
  const best = strongest(options.values);
  const [i, j] = [Math.floor(best / options.columns), best % options.columns];
  return `${say`${options.title}. ${options.rows} rows by ${options.columns} columns.`} ` +
    say`Strongest: ${options.rowLabels[i]} to ${options.columnLabels[j]}, ${number(options.values[best], 3)}.`;
}

// The colour bar with its two ends.
export function legend(top, { scale = "sequential", label = say`weight`, masked = false } = {}) {
  const colour = scale === "signed" ? (share) => signed(share * 2 - 1) : (share) => shade(share, scale);
  const stops = Array.from({ length: 9 }, (_, i) => colour(i / 8)).join(",");
  return make("div", { class: "legend" },
    make("span", { class: "figure" }, scale === "signed" ? number(-top, 2) : "0"),
    make("span", { class: "legend-bar", style: { background: `linear-gradient(to right, ${stops})` } }),
    make("span", { class: "figure" }, number(top, 2)), make("span", { class: "quiet" }, label),
    masked ? make("span", { class: "quiet legend-masked" }, make("span", { class: "hatched", "aria-hidden": "true" }), say`may not look`) : null);
}
