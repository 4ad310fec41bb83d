// Captioning: an image -> its captions, the attention of each word over the image, and the captions of the image without its parts.

import { bestHypotheses, Decoder, outputsOf } from "../decoder.js";
import { imageTensor, pixelsOf, readImage } from "../images.js";
import { axis, inspectionOf, item, Recorder } from "../inspection.js";
import { Tokenizer } from "../tokenizer.js";

export class Captioning {
  constructor(model, programs) {
    Object.assign(this, { model, decoder: new Decoder(programs), tokenizer: new Tokenizer(model.tokenizers[0]) });
  }

  search(image, n, context) {
    const { special, maxLength, decoding } = this.model;
    return bestHypotheses(this.decoder, { state: this.decoder.start([imageTensor(image)], context), limit: maxLength - 1, special }, decoding, n, context);
  }

  async inspect({ upload, options, changes }) {
    const { special, shape, cells, boxes } = this.model;
    const { name, image, remarks } = await readImage(upload ?? this.model.example, shape);
    const recorder = new Recorder(this.model, changes);
    const axes = { queries: { words: "words" }, keys: { cells: "cells", read: "read" } };
    const silent = recorder.silent(axes);
    const startedAt = performance.now();
    const hypotheses = this.search(image, options.n ?? 1, silent);
    const seconds = (performance.now() - startedAt) / 1000;
    const again = boxes.map((box) => ({ box, text: this.tokenizer.decode(this.search(without(image, box), 1, silent)[0].tokens) }));
    const start = (context) => this.decoder.start([imageTensor(image)], context);
    const outputs = outputsOf(this.decoder, hypotheses, { start, special, tokenizer: this.tokenizer }, recorder.context(axes), silent);
    const words = [...this.tokenizer.decodeWithOffsets(hypotheses[0].tokens).map(({ text, start: from, stop }, word) => item(text, { word, span: [from, stop] })), item("<end>", { special: true })];
    return inspectionOf(recorder, {
      text: name, remarks, outputs, seconds, answered: "words", views: ["captions"],
      axes: { words: axis(words, "words"), cells: axis(cells, "cells"), read: axis([item(this.tokenizer.tokenText(special.bos), { special: true }), ...words.slice(0, -1)], "read") },
      extra: { captions: { height: image.height, width: image.width, pixels: pixelsOf(image), again } },
    });
  }
}

const GREY = 128;

// The image with a region of at least one pixel in grey.
function without(image, [left, top, right, bottom]) {
  const data = image.data.slice();
  const [first, last] = [Math.round(top * image.height), Math.max(Math.round(bottom * image.height), Math.round(top * image.height) + 1)];
  const [start, stop] = [Math.round(left * image.width), Math.max(Math.round(right * image.width), Math.round(left * image.width) + 1)];
  for (let row = first; row < last; row++) data.fill(GREY, (row * image.width + start) * image.channels, (row * image.width + stop) * image.channels);
  return { ...image, data };
}
