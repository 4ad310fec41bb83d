// Positional encodings as a heat map, and the dot product of two positions by their distance.

import { draw, make, formatNumber, sharpCanvas } from "../dom.js";
import { legend } from "../matrix.js";
import { pixels } from "../color.js";
import { t } from "../i18n.js";

function linePlot(values, width, height = 220) {
  const [low, high] = [Math.min(0, ...values), Math.max(...values)];
  const x = (i) => 48 + (i / Math.max(1, values.length - 1)) * (width - 60);
  const y = (value) => height - 28 - ((value - low) / (high - low || 1)) * (height - 44);
  const path = Array.from(values, (value, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const ticks = [low, (low + high) / 2, high].map((value) => [
    draw("line", { class: "rule", x1: 44, x2: width - 8, y1: y(value), y2: y(value) }),
    draw("text", { x: 38, y: y(value), "text-anchor": "end", "dominant-baseline": "central", class: "tick" }, formatNumber(value, 1))]);
  const distanceLabels = [0, Math.floor((values.length - 1) / 2), values.length - 1].map((i) => draw("text", { x: x(i), y: height - 8, "text-anchor": "middle", class: "tick" }, String(i)));
  return draw("svg", { width, height, class: "plot", role: "img",
    "aria-label": t`Dot product of two encodings by distance: ${formatNumber(values[0], 2)} at distance 0, ${formatNumber(values.at(-1), 2)} at distance ${values.length - 1}` },
  ticks, distanceLabels, draw("text", { x: width / 2, y: height - 8, "text-anchor": "middle", class: "tick", "dx": "4em" }, t`distance`), draw("path", { d: path, class: "plot-line" }));
}

function heatMap(table, room) {
  const [rows, columns] = table.shape;
  const top = table.values.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
  const width = Math.min(room, 720);
  const height = Math.min(420, Math.max(200, rows * 6));
  const { canvas, context } = sharpCanvas(width, height, { role: "img", class: "position-map", "aria-label": t`Positional encodings: ${rows} positions by ${columns} dimensions` });
  context.imageSmoothingEnabled = false;
  context.drawImage(pixels(table.values, rows, columns, top, { scale: "signed" }), 0, 0, width, height);
  return [canvas, legend(top, { scale: "signed", label: t`encoding` })];
}

export const view = {
  name: "positions",
  title: t`Positions`,
  suits: (data) => Boolean(data.positions),
  show(data, element) {
    const { table, by_distance: dotProducts } = data.positions;
    const room = Math.max(240, element.clientWidth - 48);
    element.append(
      make("section", { class: "card" }, make("h2", {}, t`Positional encodings`, make("span", { class: "quiet" }, ` ${data.positions.scheme}`)),
        make("p", { class: "quiet" }, t`Each row is a position, from ${0} at the top to ${table.shape[0] - 1}; each column is a dimension, from ${0} on the left to ${table.shape[1] - 1}.`), heatMap(table, room)),
      make("section", { class: "card" }, make("h2", {}, t`Dot product by distance`),
        make("p", { class: "quiet" }, t`Similarity of two positions, averaged over all pairs at that distance.`), linePlot(dotProducts.values, Math.min(room, 720))));
  },
};
