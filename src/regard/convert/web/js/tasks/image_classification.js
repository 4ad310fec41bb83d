// Image classification: the most likely classes, attention between patches, rollout, and the prediction without the strongest patches.

import { axis, inspectionOf, item, Recorder } from "../inspection.js";
import { imageTensor, pixelsOf, readImage } from "../images.js";
import { logSoftmax, topIndices } from "../search.js";
import { tensor } from "../tensor.js";

const MAX_CLASSES = 5;
const REMOVED = [0, 1, 2, 4, 8, 16, 32];

export class ImageClassification {
  constructor(model, programs) {
    Object.assign(this, { model, programs });
  }

  async inspect({ upload, changes }) {
    const { classes, patches, classTokens, shape } = this.model;
    const read = await readImage(upload ?? this.model.example, shape);
    const recorder = new Recorder(this.model, changes);
    const names = { queries: { image: "answer", patches: "patches" }, keys: { patches: "patches" } };
    const images = imageTensor(read.image);
    const startedAt = performance.now();
    const scores = this.run(images, recorder.context(names));
    const seconds = (performance.now() - startedAt) / 1000;
    const ranked = topIndices(scores, MAX_CLASSES).map((index) => [classes[index], scores[index]]);
    const axes = { answer: axis([item(ranked[0][0])], "answer") };
    if (patches.length) axes.patches = axis([...Array.from({ length: classTokens }, () => item("class", { special: true })), ...patches], "patches");
    return inspectionOf(recorder, {
      text: read.name, remarks: read.remarks, seconds, answered: "answer", axes, views: patches.length ? ["overlay"] : [],
      outputs: ranked.map(([text, score]) => ({ text, score, rank: score, tokens: [{ text, score, alternatives: ranked }] })),
      extra: { overlay: this.overlay(recorder, read.image, images, recorder.silent(names)) },
    });
  }

  run(images, context) {
    return logSoftmax(this.programs.logits.run([images], context)[0].data);
  }

  overlay(recorder, image, images, context) {
    const { classes, patches, classTokens } = this.model;
    const data = { height: image.height, width: image.width, pixels: pixelsOf(image), before: classTokens };
    if (!patches.length) return data;
    const relevance = patchRelevance([...recorder.entries.values()].map(({ calls }) => calls[0]), this.model.modules, classTokens);
    const order = topIndices(relevance, relevance.length);
    data.rollout = Array.from(relevance);
    data.removed = REMOVED.filter((count) => count < order.length).map((count) => {
      const scores = this.run(without(images, order.slice(0, count).map((i) => patches[i])), context);
      const [best] = topIndices(scores, 1);
      return { patches: order.slice(0, count), answer: classes[best], share: Math.exp(scores[best]) };
    });
    return data;
  }
}

// Attention rollout (Abnar and Zuidema 2020): the relevance of each patch for the prediction.
function patchRelevance(calls, modules, classTokens) {
  let total = null;
  for (const { module, weights } of calls) {
    if (modules[module].queries !== "patches" || modules[module].keys !== "patches") continue;
    const [, heads, size] = weights.shape;
    const layer = Array.from({ length: size }, (_, i) => Array.from({ length: size }, (_unused, j) => {
      let sum = 0;
      for (let head = 0; head < heads; head++) sum += weights.data[(head * size + i) * size + j];
      return (sum / heads + (i === j ? 1 : 0)) / 2;
    }));
    total = total === null ? layer : layer.map((row) => total[0].map((_, j) => row.reduce((sum, weight, k) => sum + weight * total[k][j], 0)));
  }
  const pooling = calls.find(({ module }) => modules[module].queries === "image");
  const size = total[0].length;
  const rows = pooling ? Array.from(pooling.weights.data.subarray(0, size)) : Array.from({ length: size }, (_, i) => (classTokens ? Number(i === 0) : 1 / size));
  return total[0].map((_, j) => rows.reduce((sum, weight, i) => sum + weight * total[i][j], 0)).slice(classTokens);
}

// The image with some patches in grey.
function without(images, patches) {
  const [, channels, height, width] = images.shape;
  const data = images.data.slice();
  for (const { box: [left, top, right, bottom] } of patches) {
    for (let c = 0; c < channels; c++) for (let y = Math.round(top * height); y < Math.round(bottom * height); y++) data.fill(0, (c * height + y) * width + Math.round(left * width), (c * height + y) * width + Math.round(right * width));
  }
  return tensor(images.shape, data);
}
