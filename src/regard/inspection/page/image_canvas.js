// An image on a canvas with an attention overlay: items have boxes (left, top, right, bottom as shares of the image).
// Cells without attention are dimmed, so that the image stays recognizable; a line surrounds the cells with half of the weight.

import { textColorOnHex } from "./color.js";
import { make, formatNumber, sharpCanvas } from "./dom.js";
import { t } from "./i18n.js";

const THUMBNAIL_PIXELS = 104; // CSS pixels of the image of a single head
const DIMMING = 0.55; // opacity of the shadow on cells that get no attention
const SHADOW = "60, 62, 70"; // grey, so that both dark and light images are dimmed
const MAX_COLUMNS = 4; // of the images of the heads
const HALF_COLOR = "#ff8c1a";

// The fewest items that have half of the weight.
function halfOfWeight(items, weights) {
  const order = Array.from(weights, (_, i) => i).filter((i) => items[i].box).sort((a, b) => weights[b] - weights[a]);
  const total = order.reduce((sum, i) => sum + weights[i], 0);
  let sum = 0;
  return order.filter((i) => {
    const isNeeded = sum < total / 2;
    sum += weights[i];
    return isNeeded;
  }).map((i) => items[i]);
}

// Legend of `highlight`: the brightness scale with its largest weight, and the line.
export function highlightLegend(weights) {
  const top = Math.max(0, ...weights);
  return make("div", { class: "legend" },
    make("span", { class: "figure" }, "0"),
    make("span", { class: "legend-bar", style: { background: `linear-gradient(to right, rgba(${SHADOW}, ${DIMMING}), rgba(${SHADOW}, 0))` } }),
    make("span", { class: "figure" }, formatNumber(top, 2)), make("span", { class: "quiet" }, t`weight of a cell, by brightness`),
    make("span", { class: "quiet" }, make("span", { class: "legend-line", "aria-hidden": "true" }), t`cells with half of the weight`));
}

// {height, width, pixels: [[grey] or [red, green, blue], …]} -> canvas with one pixel each.
function pixelCanvas({ height, width, pixels }) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const bytes = new Uint8ClampedArray(width * height * 4);
  pixels.forEach((pixel, i) => {
    for (let c = 0; c < 3; c++) bytes[i * 4 + c] = pixel[pixel.length === 1 ? 0 : c];
    bytes[i * 4 + 3] = 255;
  });
  canvas.getContext("2d").putImageData(new ImageData(bytes, width, height), 0, 0);
  return canvas;
}

// An image whose longer side is about `size` CSS pixels.
export class ImageCanvas {
  constructor(image, size, properties = {}) {
    const scale = Math.max(1, Math.floor(size / Math.max(image.width, image.height)));
    Object.assign(this, { image, scale, width: image.width * scale, height: image.height * scale, source: pixelCanvas(image) });
    Object.assign(this, sharpCanvas(this.width, this.height, { class: "picture", role: "img", ...properties }));
    this.reset();
  }

  reset() {
    this.context.imageSmoothingEnabled = false;
    this.context.clearRect(0, 0, this.width, this.height);
    this.context.drawImage(this.source, 0, 0, this.width, this.height);
  }

  toPixels([left, top, right, bottom]) {
    return [left * this.width, top * this.height, (right - left) * this.width, (bottom - top) * this.height];
  }

  // Keep the colors of the image; dim a cell the less, the more weight it gets. A line surrounds the cells with half of the weight.
  highlight(items, weights) {
    const top = Math.max(1e-9, ...weights);
    const shadow = document.createElement("canvas");
    [shadow.width, shadow.height] = [this.width, this.height];
    const context = shadow.getContext("2d");
    context.fillStyle = `rgba(${SHADOW}, ${DIMMING})`;
    context.fillRect(0, 0, this.width, this.height);
    context.globalCompositeOperation = "destination-out";
    items.forEach((item, i) => {
      if (!item.box || !weights[i]) return;
      context.fillStyle = `rgba(0, 0, 0, ${weights[i] / top})`;
      context.fillRect(...this.toPixels(item.box));
    });
    this.context.drawImage(shadow, 0, 0);
    this.outline(halfOfWeight(items, weights), HALF_COLOR, { width: 2 });
  }

  frame(box, color, { width = 2, dash = [] } = {}) {
    Object.assign(this.context, { strokeStyle: color, lineWidth: width });
    this.context.setLineDash(dash);
    this.context.strokeRect(...this.toPixels(box));
    this.context.setLineDash([]);
  }

  // Draw a label on a background of its color, above the box, or inside it if there is no room above.
  label(box, text, color) {
    const [x, y] = this.toPixels(box);
    this.context.font = "600 13px sans-serif";
    const width = this.context.measureText(text).width + 8;
    const [left, top] = [Math.max(0, Math.min(x, this.width - width)), y < 20 ? y : y - 18];
    this.context.fillStyle = color;
    this.context.fillRect(left, top, width, 18);
    this.context.fillStyle = textColorOnHex(color);
    this.context.fillText(text, left + 4, top + 13);
  }

  // Draw the outline of a set of items, which need not be a rectangle.
  outline(items, color, { width = 2 } = {}) {
    const pointKey = (x, y) => `${Math.round(x)},${Math.round(y)}`;
    const boxes = items.filter((item) => item.box).map((item) => this.toPixels(item.box));
    const centers = new Set(boxes.map(([x, y, w, h]) => pointKey(x + w / 2, y + h / 2)));
    Object.assign(this.context, { strokeStyle: color, lineWidth: width });
    this.context.beginPath();
    for (const [x, y, w, h] of boxes) {
      const sides = [[0, -h, x, y, x + w, y], [0, h, x, y + h, x + w, y + h], [-w, 0, x, y, x, y + h], [w, 0, x + w, y, x + w, y + h]];
      for (const [across, down, x1, y1, x2, y2] of sides) {
        if (centers.has(pointKey(x + w / 2 + across, y + h / 2 + down))) continue;
        this.context.moveTo(x1, y1);
        this.context.lineTo(x2, y2);
      }
    }
    this.context.stroke();
  }

  // Return the index of the item under the pointer, or -1.
  itemAt(items, event) {
    const area = this.canvas.getBoundingClientRect();
    const [x, y] = [(event.clientX - area.left) / area.width, (event.clientY - area.top) / area.height];
    return items.findIndex(({ box }) => box && x >= box[0] && x < box[2] && y >= box[1] && y < box[3]);
  }
}

// One small image per head; a click selects the head.
export function headThumbnails(image, map, head, pick) {
  const canvases = Array.from({ length: map.heads }, (_, i) => new ImageCanvas(image, THUMBNAIL_PIXELS, { "aria-label": t`attention of head ${i + 1}` }));
  const columns = Math.ceil(map.heads / Math.ceil(map.heads / MAX_COLUMNS)); // rows of equal length, as far as possible
  const element = make("div", { class: "pictures", style: { display: "grid", "grid-template-columns": `repeat(${columns}, minmax(0, max-content))` } }, canvases.map((thumbnail, i) => make("figure", { class: "pictured" },
    make("button", { type: "button", class: "thumb", style: { width: "auto" }, title: t`head ${i + 1}`, "aria-pressed": String(i === head), "data-key": `eye:${i}`, onclick: () => pick(i) }, thumbnail.canvas),
    make("figcaption", { class: "quiet" }, t`head ${i + 1}`))));
  return { canvases, element };
}
