// Translation: a sentence -> the n best translations, their tokens with alternatives, and every attention map.

import { bestHypotheses, Decoder, outputsOf, tokenTensor } from "../decoder.js";
import { axis, inspectionOf, item, Recorder } from "../inspection.js";
import { isSpace, Tokenizer } from "../tokenizer.js";
import { unknownWordRemarks, unknownWords } from "../unknown_words.js";

export class Translation {
  constructor(model, programs) {
    this.model = model;
    this.decoder = new Decoder(programs);
    [this.source, this.target] = [model.tokenizers[0], model.tokenizers.at(-1)].map((state) => new Tokenizer(state));
  }

  // Text -> source tokens with EOS
  encode(text) {
    const { maxLength, special } = this.model;
    const tokens = [...this.source.encode(text), special.eos];
    if (tokens.length > maxLength) throw new Error(`the text has ${tokens.length} tokens including EOS; the model was trained for at most ${maxLength}: split the text`);
    return tokens;
  }

  inspect({ text, options, changes }) {
    if (!text.trim()) throw new Error("there is no sentence to look at; give some text");
    const { special, maxLength, lengthRatio, lengthMargin } = this.model;
    const recorder = new Recorder(this.model, changes);
    const axes = { queries: { source: "source", target: "output" }, keys: { source: "source", target: "read" } };
    const silent = recorder.silent(axes);
    const startedAt = performance.now();
    const tokens = this.encode(text);
    const start = (context) => this.decoder.start([tokenTensor(tokens)], context);
    const limit = Math.min(lengthRatio * tokens.length + lengthMargin, maxLength - 1);
    const hypotheses = bestHypotheses(this.decoder, { state: start(silent), limit, special }, this.model.decoding, options.n ?? 1, silent);
    const seconds = (performance.now() - startedAt) / 1000;
    const outputs = outputsOf(this.decoder, hypotheses, { start, special, tokenizer: this.target }, recorder.context(axes), silent);
    const name = (token) => this.target.tokenText(token);
    const output = itemsOf(outputs[0].text, this.target.decodeWithOffsets(hypotheses[0].tokens));
    return inspectionOf(recorder, {
      text, outputs, seconds, answered: "output", views: ["alignment"], remarks: unknownWordRemarks(unknownWords(text, this.source)),
      axes: {
        source: axis(itemsOf(text, this.source.encodeWithOffsets(text)), "source"),
        output: axis(output, "output"),
        read: axis([item(name(special.bos), { special: true }), ...output.slice(0, -1)], "read"),
      },
    });
  }
}

// Tokens of a text, each with the index of its word, and EOS.
function itemsOf(text, pieces) {
  const characters = Array.from(text);
  const starts = characters.flatMap((character, i) => (!isSpace(character) && (i === 0 || isSpace(characters[i - 1])) ? [i] : []));
  const wordOf = (start) => Math.max(0, starts.filter((position) => position <= start).length - 1);
  return [...pieces.map(({ text: shown, start, stop }) => item(shown, { word: wordOf(start), span: [start, stop] })), item("<end>", { special: true })];
}
