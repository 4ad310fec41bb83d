// Image generation: an image of the user, or a new one, and the attention with which each of its positions was predicted.

import { withAlternatives } from "../decoder.js";
import { readImage } from "../images.js";
import { axis, inspectionOf, item, Recorder } from "../inspection.js";
import { logSoftmax, randomNumbers, sampleToken, topIndices } from "../search.js";
import { tensor } from "../tensor.js";

export class ImageGeneration {
  constructor(model, programs) {
    Object.assign(this, { model, programs });
  }

  // Levels so far in the order of generation -> log probabilities (n levels) of every position
  logProbs(levels, label, context) {
    const { order, levels: size } = this.model;
    const tokens = Int32Array.from(order, (_, i) => (i === 0 ? size : levels[i - 1] ?? 0));
    const [logits] = this.programs.logits.run([tensor([1, order.length], tokens), tensor([1], Int32Array.of(label))], context);
    return order.map((_, i) => logSoftmax(logits.data.subarray(i * size, (i + 1) * size)));
  }

  // Options -> the levels of a new image in the order of generation
  generate(label, { temperature = 1, top_k, top_p, seed = 1 }, context) {
    const random = randomNumbers(seed);
    const levels = [];
    while (levels.length < this.model.order.length) {
      const scores = this.logProbs(levels, label, context)[levels.length];
      levels.push(temperature === 0 ? topIndices(scores, 1)[0] : sampleToken(scores, { temperature, top_k, top_p }, random));
    }
    return levels;
  }

  // Pixels 0 … 255 in raster order -> levels in the order of generation
  levelsOf(pixels) {
    const { order, levels } = this.model;
    return order.map((index) => Math.floor((pixels[index] * (levels - 1) + 127) / 255));
  }

  async inspect({ upload, options, changes }) {
    const { order, positions, classes, shape, levels: size, brightness, blocks } = this.model;
    const name = options.class ?? "";
    if (name && !classes.includes(name)) throw new Error(`no class '${name}'; the classes are ${classes.join(", ")}`);
    const label = name ? classes.indexOf(name) : classes.length;
    const recorder = new Recorder(this.model, changes);
    const axes = { queries: { image: "made" }, keys: { image: "seen" } };
    const read = upload ? await readImage(upload, shape) : null;
    const startedAt = performance.now();
    const levels = read ? this.levelsOf(read.image.data) : this.generate(label, options, recorder.silent(axes));
    const scores = this.logProbs(levels, label, recorder.context(axes));
    const seconds = (performance.now() - startedAt) / 1000;
    const total = levels.reduce((sum, level, i) => sum + scores[i][level], 0);
    const bits = -total / levels.length / Math.log(2);
    const pixels = new Array(order.length);
    order.forEach((index, i) => { pixels[index] = brightness[levels[i]]; });
    const made = positions.map(({ text, box }, i) => item(`${text}=${levels[i]}`, { box }));
    const [of, canvas] = [name ? ` of class ${name}` : "", `${shape.height}x${shape.width}`];
    const remarks = read?.remarks ?? [];
    const title = read ? `${read.name} made to ${canvas}${of}` : `an image of ${canvas}${of}`;
    return inspectionOf(recorder, {
      text: read?.name ?? "", title, remarks, seconds, answered: "made", views: ["canvas"],
      axes: { made: axis(made, "made"), seen: axis([item("start", { special: true }), ...made.slice(0, -1)], "seen") },
      outputs: [{ text: `${bits.toFixed(3)} bits per dimension`, score: total, rank: -bits, tokens: withAlternatives(levels, scores, String) }],
      extra: { canvas: {
        height: shape.height, width: shape.width, channels: shape.channels, blocks: blocks.bounds, memories: blocks.memories,
        pixels: Array.from({ length: pixels.length / shape.channels }, (_, i) => pixels.slice(i * shape.channels, (i + 1) * shape.channels)),
      } },
    });
  }
}
