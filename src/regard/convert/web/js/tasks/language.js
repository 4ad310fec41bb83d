// Language modeling: a text and its continuation, the alternatives of every token, and the attention over the text so far.

import { Decoder, tokenTensor, withAlternatives } from "../decoder.js";
import { axis, inspectionOf, item, Recorder } from "../inspection.js";
import { topIndices } from "../search.js";
import { withCommas } from "../text.js";
import { Tokenizer } from "../tokenizer.js";
import { unknownWordRemarks, unknownWords } from "../unknown_words.js";

const VISIBLE = { "\n": "↵", "\t": "⇥", " ": "␣" };

export class Language {
  constructor(model, programs) {
    Object.assign(this, { model, decoder: new Decoder(programs), tokenizer: new Tokenizer(model.tokenizers[0]) });
  }

  name(token) {
    const text = this.tokenizer.tokenText(token);
    return VISIBLE[text] ?? text;
  }

  // The decoding of the run with the options of a request.
  strategy({ temperature, top_k, top_p, seed }) {
    const { decoding, special } = this.model;
    const overrides = Object.fromEntries(Object.entries({ temperature, top_k, top_p, seed }).filter(([, value]) => value !== undefined));
    const suppressed = { suppress_tokens: [...(decoding?.suppress_tokens ?? []), special.unk] };
    if (overrides.temperature === 0) return { ...decoding, ...suppressed, name: "greedy" };
    if (!Object.keys(overrides).length && decoding) return { ...decoding, ...suppressed };
    return { ...(decoding?.name === "sample" ? decoding : {}), ...suppressed, ...overrides, name: "sample" };
  }

  inspect({ text, options, changes }) {
    const { special, startTokens, maxLength, alternatives } = this.model;
    const pieces = this.tokenizer.encodeWithOffsets(text);
    const encoded = pieces.map(({ token }) => token);
    const whole = encoded.length || startTokens.length ? encoded : [special.bos];
    const room = maxLength - 1;
    const count = Math.min(options.tokens ?? this.model.options.properties.tokens.default, Math.max(room - whole.length, 1));
    const used = whole.slice(Math.max(0, whole.length + count - room));
    const [first, ...prompt] = [...startTokens, ...used];
    const recorder = new Recorder(this.model, changes);
    const axes = { queries: { text: "output" }, keys: { text: "read" } };
    const silent = recorder.silent(axes);
    const startedAt = performance.now();
    const added = this.continuation([first, ...prompt], count, options, silent);
    const row = [...prompt, ...added.tokens, ...(added.isFinished ? [special.eos] : [])];
    const scores = this.decoder.replay(this.start(silent), [first, ...row.slice(0, -1)], recorder.context(axes));
    const seconds = (performance.now() - startedAt) / 1000;
    const shown = pieces.slice(pieces.length - prompt.length);
    const names = row.map((token, i) => (i < prompt.length && shown[i]?.token === special.unk ? shown[i].text : this.name(token)));
    const itemOf = (token, name) => item(name, token < 4 && token !== special.unk ? { special: true } : {});
    const items = row.map((token, i) => itemOf(token, names[i]));
    const tokens = withAlternatives(row, scores, (token) => this.name(token), alternatives).map((token, i) => ({ ...token, text: names[i] }));
    const [decodedPrompt, decoded] = [prompt, [...prompt, ...added.tokens]].map((part) => this.tokenizer.decode([first, ...part]));
    const title = (used.length === whole.length ? text : "") || decodedPrompt;
    const score = row.slice(prompt.length).reduce((sum, token, i) => sum + scores[prompt.length + i][token], 0);
    const isCut = used.length < whole.length;
    return inspectionOf(recorder, {
      text, title: title || "a text from nothing", seconds, answered: "output", views: ["next_token"],
      remarks: [...(isCut ? [`the context has ${maxLength} tokens: only the last ${withCommas(used.length)} of the ${withCommas(whole.length)} input tokens are used`] : []), ...unknownWordRemarks(unknownWords(text, this.tokenizer))],
      outputs: [{ text: decoded.startsWith(decodedPrompt) ? title + decoded.slice(decodedPrompt.length) : decoded, score, rank: score, tokens }],
      axes: { output: axis(items, "text"), read: axis([item(this.name(first), first < 4 ? { special: true } : {}), ...items.slice(0, -1)], "read") },
      extra: { next_token: { given: prompt.length, pieces: row.map((token) => this.model.rawTexts[token]), alternatives: scores.map((part) => topIndices(part, alternatives).map((token) => this.model.rawTexts[token])) } },
    });
  }

  start(context) {
    return this.decoder.start([{ shape: [1], data: Int32Array.of(0) }], context);
  }

  // New tokens after a prompt -> {tokens, isFinished: by EOS, not by the limit}
  continuation(prompt, limit, options, context) {
    let state = this.start(context);
    for (const token of prompt.slice(0, -1)) ({ state } = this.decoder.step(token, state, context));
    const [{ tokens }] = this.decoder.search(state, { first: prompt.at(-1), limit, special: this.model.special }, this.strategy(options), context);
    return { tokens, isFinished: tokens.length < limit };
  }
}
