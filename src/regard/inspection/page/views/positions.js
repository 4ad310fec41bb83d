// Positional encodings as a heat map, and the dot product of two positions by their distance.

import { draw, make, number, sharpCanvas } from "../dom.js";
import { floats } from "../data.js";
import { legend } from "../matrix.js";
import { pixels } from "../color.js";
import { say } from "../i18n.js";

function plot(values, width, height = 220) {
  const [low, high] = [Math.min(0, ...values), Math.max(...values)];
  const x = (i) => 48 + (i / Math.max(1, values.length - 1)) * (width - 60);
  const y = (value) => height - 28 - ((value - low) / (high - low || 1)) * (height - 44);
  const path = Array.from(values, (value, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const ticks = [low, (low + high) / 2, high].map((value) => [
    draw("line", { class: "rule", x1: 44, x2: width - 8, y1: y(value), y2: y(value) }),
    draw("text", { x: 38, y: y(value), "text-anchor": "end", "dominant-baseline": "central", class: "tick" }, number(value, 1))]);
  const below = [0, Math.floor((values.length - 1) / 2), values.length - 1].map((i) => draw("text", { x: x(i), y: height - 8, "text-anchor": "middle", class: "tick" }, String(i)));
  return draw("svg", { width, height, class: "plot", role: "img",
    "aria-label": say`Dot product of two encodings by distance: ${number(values[0], 2)} at distance 0, ${number(values.at(-1), 2)} at distance ${values.length - 1}` },
  ticks, below, draw("path", { d: path, class: "plot-line" }));
}

function heat(table, room) {
  const [rows, columns] = table.shape;
  const top = table.values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const width = Math.min(room, 720);
  const height = Math.min(420, Math.max(200, rows * 6));
  const { canvas, context } = sharpCanvas(width, height, { role: "img", class: "position-map", "aria-label": say`Positional encodings: ${rows} positions by ${columns} dimensions` });
  context.imageSmoothingEnabled = false;
  context.drawImage(pixels(table.values, rows, columns, top, { scale: "signed" }), 0, 0, width, height);
  return [canvas, legend(top, { scale: "signed", label: say`encoding` })];
}

export const view = {
  name: "positions",
  title: say`Positions`,
  suits: (data) => Boolean(data.positions),
  show(data, element) {
    const table = floats(data.positions.table);
    const dots = floats(data.positions.by_distance);
    const room = Math.max(240, element.clientWidth - 48);
    element.append(
      make("section", { class: "card" }, make("h2", {}, say`Positional encodings`, make("span", { class: "quiet" }, ` ${data.positions.scheme}`)),
        make("p", { class: "quiet" }, say`Each row is a position, each column a dimension.`), heat(table, room)),
      make("section", { class: "card" }, make("h2", {}, say`Dot product by distance`),
        make("p", { class: "quiet" }, say`How alike two positions are, averaged over all pairs that far apart.`), plot(dots.values, Math.min(room, 720))));
  },
};
