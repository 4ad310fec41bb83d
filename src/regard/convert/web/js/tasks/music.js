// Music: the attention with which each token of a piece was predicted, and on request a continuation of the piece.

import { Decoder, tokenTensor, withAlternatives } from "../decoder.js";
import { Grid } from "../grid.js";
import { axis, inspectionOf, item, Recorder } from "../inspection.js";
import { readMidi } from "../midi.js";
import { withCommas } from "../text.js";
import { bytesOf } from "../weights.js";

const SPECIAL_NAMES = ["pad", "unknown", "start", "end"];

export class Music {
  constructor(model, programs) {
    Object.assign(this, { model, decoder: new Decoder(programs), grid: new Grid(model.grid) });
  }

  inspect({ upload, options, changes }) {
    const { special, maxTokens, pitches } = this.model;
    const { name, file } = upload ?? this.model.example;
    const piece = this.read(name, file);
    const recorder = new Recorder(this.model, changes);
    const axes = { queries: { target: "output" }, keys: { target: "read" } };
    const all = this.continued(piece, options, recorder.silent(axes));
    const tokens = all.slice(0, maxTokens);
    const startedAt = performance.now();
    const scores = this.decoder.replay(this.start(recorder.silent(axes)), [special.bos, ...tokens.slice(0, -1)], recorder.context(axes));
    const seconds = (performance.now() - startedAt) / 1000;
    const total = tokens.reduce((sum, token, i) => sum + scores[i][token], 0);
    const nameOf = (token, position) => SPECIAL_NAMES[token] ?? piece.grid.label(token, position, pitches);
    const items = tokens.map((token, position) => {
      const pitch = piece.grid.pitchOf(token);
      return item(nameOf(token, position), pitch < 0 ? {} : { time: (Math.floor(position / 4) + 0.5) * piece.grid.stepSeconds, pitch });
    });
    const nats = -total / Math.max(1, tokens.length);
    const count = tokens.length === all.length ? `${tokens.length} tokens` : `the first ${tokens.length} of ${all.length} tokens`;
    return inspectionOf(recorder, {
      text: name, seconds, answered: "output", views: ["pianoroll"], remarks: tokens.length < all.length ? [`only the first ${withCommas(tokens.length)} of ${withCommas(all.length)} tokens are shown`] : [],
      outputs: [{ text: `${name}: ${count}, ${nats.toFixed(3)} nats each`, score: total, rank: -nats, tokens: withAlternatives(tokens, scores, nameOf) }],
      axes: { output: axis(items, "output"), read: axis([item("start", { special: true }), ...items.slice(0, -1)], "read") },
      extra: { roll: { notes: piece.grid.notes(tokens), voices: this.grid.voices } },
    });
  }

  read(name, file) {
    try {
      const notes = readMidi(bytesOf(file));
      const grid = this.grid.withTempo(notes.tempo);
      return { grid, tokens: grid.encode(notes) };
    } catch (error) {
      throw new Error(`${name}: ${error.message}`);
    }
  }

  start(context) {
    return this.decoder.start([tokenTensor([this.model.special.pad])], context);
  }

  // Tokens of the piece, followed by a continuation if the request asks for one.
  continued({ grid, tokens }, { continue_seconds: seconds = 0, ...settings }, context) {
    const { special, maxTokens } = this.model;
    if (!(seconds > 0)) return tokens;
    const prompt = tokens.slice(0, Math.max(4, maxTokens - grid.maxTokens(seconds)));
    const limit = Math.min(grid.maxTokens(seconds), maxTokens - prompt.length);
    let state = this.start(context);
    for (const token of [special.bos, ...prompt.slice(0, -1)]) ({ state } = this.decoder.step(token, state, context));
    const decoding = { name: settings.temperature === 0 ? "greedy" : "sample", ...settings };
    const [hypothesis] = this.decoder.search(state, { first: prompt.at(-1), limit, special, allowed: grid.grammar(prompt.length, prompt.length + limit) }, decoding, context);
    return [...prompt, ...hypothesis.tokens];
  }
}
