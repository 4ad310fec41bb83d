// Detection: the class and box of every object query, and its attention over the image and over the other queries.

import { imageTensor, pixelsOf, readImage } from "../images.js";
import { axis, inspectionOf, item, Recorder } from "../inspection.js";
import { logSoftmax } from "../search.js";

export class Detection {
  constructor(model, programs) {
    Object.assign(this, { model, programs });
  }

  async inspect({ upload, options, changes }) {
    const { classes, cells, shape } = this.model;
    const threshold = options.threshold ?? this.model.options.properties.threshold.default;
    const { name, image, original, remarks } = await readImage(upload ?? this.model.example, shape);
    const recorder = new Recorder(this.model, changes);
    const axes = { queries: { objects: "objects", grid: "grid" }, keys: { objects: "objects", grid: "grid" } };
    const startedAt = performance.now();
    const [logits, boxes] = this.programs.detect.run([imageTensor(image)], recorder.context(axes));
    const seconds = (performance.now() - startedAt) / 1000;
    const queries = Array.from({ length: logits.shape[0] }, (_, i) => {
      const scores = logSoftmax(logits.data.subarray(i * logits.shape[1], (i + 1) * logits.shape[1]));
      const indexOfLargest = (values) => values.reduce((best, value, k) => (value > values[best] ? k : best), 0);
      return { predicted: indexOfLargest(scores), label: indexOfLargest(scores.subarray(0, -1)), box: corners(boxes.data.subarray(4 * i, 4 * i + 4)), scores };
    }).map((query) => ({ ...query, share: Math.exp(query.scores[query.label]) }));
    const found = queries.filter(({ share }) => share >= threshold).sort((a, b) => b.share - a.share);
    const text = found.map(({ label, share, box }) => `${classes[label]} ${share.toFixed(2)} at ${pixels(box, original)}`).join("; ") || "nothing";
    const score = found.length ? found.reduce((sum, { share }) => sum + Math.log(Math.max(share, 1e-9)), 0) : null;
    return inspectionOf(recorder, {
      text: name, remarks, seconds, answered: "objects", views: ["boxes"],
      outputs: [{ text, score, rank: null, tokens: [] }],
      axes: {
        objects: axis(queries.map(({ predicted, box }) => item([...classes, "nothing"][predicted], { box, ...(predicted === classes.length ? { special: true } : {}) })), "objects"),
        grid: axis(cells, "grid"),
      },
      extra: { boxes: { height: image.height, width: image.width, pixels: pixelsOf(image), queries: queries.map(({ label, share, box }) => ({ label: classes[label], share, box })), least: threshold } },
    });
  }
}

// Center and size -> left, top, right, bottom inside the image
function corners([x, y, width, height]) {
  return [x - width / 2, y - height / 2, x + width / 2, y + height / 2].map((edge) => Math.min(1, Math.max(0, edge)));
}

function pixels([left, top, right, bottom], { height, width }) {
  return `${Math.round(left * width)},${Math.round(top * height)}-${Math.round(right * width)},${Math.round(bottom * height)}`;
}
