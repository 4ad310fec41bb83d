// The result of a run in the form of its task, for the header: highlighted entities, an image, detected objects, notes, or a text.

import { make, formatNumber, percent, slicer } from "./dom.js";
import { headColor, textColorOnHex } from "./color.js";
import { ImageCanvas } from "./image_canvas.js";
import { t } from "./i18n.js";

const IMAGE_PIXELS = 72; // of an image in the header
const MAX_NAMES = 3; // names of a list of results

// Color of a type of entity: the same in every text, because it depends on all types of the task.
export function entityColor(data, type) {
  const types = data.extra.entities.types ?? [...new Set(data.extra.entities.entities.map((entity) => entity.type))].sort();
  return headColor(types.indexOf(type));
}

// The text with each entity on a background of its color, followed by its type.
function highlightedText(data) {
  const { entities } = data.extra.entities;
  const textOf = slicer(data.extra.entities.text);
  let end = 0;
  const parts = [...entities].sort((a, b) => a.start - b.start).flatMap((entity) => {
    const before = textOf(end, entity.start);
    end = entity.stop;
    const color = entityColor(data, entity.type);
    return [before, make("span", { class: "entity", style: { background: color, color: textColorOnHex(color) } }, textOf(entity.start, entity.stop), make("small", {}, ` ${entity.type}`))];
  });
  return [...parts, textOf(end)];
}

function smallImage(image, label) {
  return new ImageCanvas(image, IMAGE_PIXELS, { "aria-label": label, class: "picture small-picture" }).canvas;
}

function detectedObjects({ queries, least }) {
  const found = queries.filter((query) => query.share >= least).sort((a, b) => b.share - a.share);
  return found.length ? found.map((query) => `${query.label} ${percent(Math.log(query.share))}`).join(" · ") : t`no object`;
}

function noteCount({ notes }) {
  return t`${notes.length} notes in ${formatNumber(Math.max(0, ...notes.map((note) => note[1])), 0)} seconds`;
}

// The image that a task reads, shown next to the name of its file.
export function inputImage(data) {
  const { overlay, boxes, captions, canvas } = data.extra || {};
  const image = [overlay, boxes, captions, canvas?.small].find((candidate) => candidate?.pixels);
  return image ? smallImage(image, t`the input image`) : null;
}

// What two inspections with the same result have in common: the image or the notes, whose output text is a score; else the text.
export function resultKey({ extra, outputs }) {
  if (extra?.canvas) return JSON.stringify(extra.canvas.pixels);
  if (extra?.roll) return JSON.stringify(extra.roll.notes);
  return outputs[0].text;
}

// {content, isText, isScored}: `isText`: the content is the output text, so its tokens are listed; `isScored`: its probability is shown.
export function resultOf(data) {
  const { entities, canvas, boxes, roll, vectors, recommendation } = data.extra || {};
  const [best] = data.outputs || [];
  const names = () => data.outputs.slice(0, MAX_NAMES).map((output) => output.text).join(" · ");
  if (!best) return null;
  if (entities) return { content: highlightedText(data), isScored: true };
  if (canvas) return { content: [smallImage(canvas, t`the generated image`), make("span", { class: "quiet result-note", title: best.text }, t`${canvas.width} × ${canvas.height} pixels`)] };
  if (boxes) return { content: detectedObjects(boxes) };
  if (roll) return { content: make("span", { title: best.text }, noteCount(roll)) };
  if (vectors || recommendation) return { content: names() };
  return { content: best.text, isText: true, isScored: true };
}
