// Translation: a sentence -> the n best translations, their tokens with alternatives, and every attention map.

import { Decoder, tokenTensor, withAlternatives } from "../decoder.js";
import { axis, inspectionOf, item, Recorder } from "../inspection.js";
import { isSpace, Tokenizer } from "../tokenizer.js";

export class Translation {
  constructor(model, programs) {
    this.model = model;
    this.decoder = new Decoder(programs);
    [this.source, this.target] = [model.tokenizers[0], model.tokenizers.at(-1)].map((state) => new Tokenizer(state));
  }

  // The decoding strategy of a request: a beam at least as wide as the number of translations.
  strategy({ n = 1, beam_width: width }) {
    const decoding = width ? { length_penalty: 1, ...this.model.decoding, name: "beam", beam_width: width } : this.model.decoding;
    if (n === 1) return decoding;
    return "beam_width" in decoding ? { ...decoding, beam_width: Math.max(decoding.beam_width, n), nbest: n } : { ...decoding, name: "beam", beam_width: Math.max(5, n), nbest: n, length_penalty: 1 };
  }

  // Text -> source tokens with EOS
  encode(text) {
    const { maxLength, special } = this.model;
    const tokens = [...this.source.encode(text), special.eos];
    if (tokens.length > maxLength) throw new Error(`the text has ${tokens.length} tokens including EOS; the model was trained for at most ${maxLength}: split the text`);
    return tokens;
  }

  search(tokens, options, context) {
    const { maxLength, lengthRatio, lengthMargin, special } = this.model;
    const limit = Math.min(lengthRatio * tokens.length + lengthMargin, maxLength - 1);
    const state = this.decoder.start([tokenTensor(tokens)], context);
    const find = (strategy) => this.decoder.search(state, { limit, special }, strategy, context);
    const [single, wide] = [this.strategy({ ...options, n: 1 }), this.strategy(options)];
    const found = find(wide);
    if (wide.name === single.name && (wide.beam_width ?? 1) === (single.beam_width ?? 1)) return found;
    const [first] = find(single); // the first translation does not depend on the number of translations
    const rest = found.filter((hypothesis) => hypothesis.tokens.join() !== first.tokens.join());
    return [first, ...rest].slice(0, options.n);
  }

  inspect({ text, options, changes }) {
    if (!text.trim()) throw new Error("there is no sentence to look at; give some text");
    const { special } = this.model;
    const recorder = new Recorder(this.model, changes);
    const axes = { queries: { source: "source", target: "output" }, keys: { source: "source", target: "read" } };
    const silent = recorder.silent(axes);
    const startedAt = performance.now();
    const tokens = this.encode(text);
    const hypotheses = this.search(tokens, options, silent);
    const seconds = (performance.now() - startedAt) / 1000;
    const context = recorder.context(axes);
    const name = (token) => this.target.tokenText(token);
    const outputs = hypotheses.map((hypothesis, rank) => {
      const state = this.decoder.start([tokenTensor(tokens)], rank ? silent : context);
      const best = [...hypothesis.tokens, special.eos];
      const scores = this.decoder.replay(state, [special.bos, ...hypothesis.tokens], rank ? silent : context);
      return { text: this.target.decode(hypothesis.tokens), score: hypothesis.score, rank: hypothesis.rankScore, tokens: withAlternatives(best, scores, name) };
    });
    const output = itemsOf(outputs[0].text, this.target.decodeWithOffsets(hypotheses[0].tokens));
    return inspectionOf(recorder, {
      text, outputs, seconds, answered: "output", views: ["alignment"],
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
