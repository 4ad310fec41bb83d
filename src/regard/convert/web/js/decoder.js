// A model that decodes: programs `start` and `step`, search, and the teacher-forced run whose attention is shown.

import { logSoftmax, search, topIndices } from "./search.js";
import { tensor } from "./tensor.js";

const ALTERNATIVES = 5;

export const tokenTensor = (row) => tensor([1, row.length], Int32Array.from(row));

export class Decoder {
  constructor(programs) {
    this.programs = programs;
  }

  start(inputs, context) {
    return this.programs.start.run(inputs, context);
  }

  // One token after a state -> {logits, state}
  step(token, state, context) {
    const [logits, ...after] = this.programs.step.run([tokenTensor([token]), ...state], context);
    return { logits: logits.data, state: after };
  }

  // inputs: as of `search`, without a state
  search(state, inputs, decoding, context) {
    return search((token, before) => this.step(token, before, context), { ...inputs, state }, decoding);
  }

  // Feed tokens, the first of which is BOS -> the log probabilities after each.
  replay(state, tokens, context) {
    let current = state;
    return tokens.map((token) => {
      const after = this.step(token, current, context);
      current = after.state;
      return logSoftmax(after.logits);
    });
  }
}

// Tokens and the log probabilities (an array per position) -> each token with the most likely tokens at its position.
export function withAlternatives(tokens, scores, nameOf, count = ALTERNATIVES) {
  return tokens.map((token, i) => ({
    text: nameOf(token, i), score: scores[i][token],
    alternatives: topIndices(scores[i], count).map((candidate) => [nameOf(candidate, i), scores[i][candidate]]),
  }));
}

// The n best hypotheses; the first does not depend on n. inputs: {state, limit, special}
export function bestHypotheses(decoder, inputs, decoding, n, context) {
  const find = (strategy) => decoder.search(inputs.state, inputs, strategy, context);
  if (n === 1) return find(decoding);
  const hasBeam = "beam_width" in decoding;
  const wide = hasBeam ? { ...decoding, beam_width: Math.max(decoding.beam_width, n), nbest: n } : { ...decoding, name: "beam", beam_width: Math.max(5, n), nbest: n, length_penalty: 1 };
  const hypotheses = find(wide);
  if (hasBeam && wide.beam_width === decoding.beam_width) return hypotheses;
  const [first] = find(decoding);
  const penalty = wide.length_penalty ?? 0;
  const rest = hypotheses.filter((hypothesis) => hypothesis.tokens.join() !== first.tokens.join());
  return [{ ...first, rankScore: first.score / (first.tokens.length + 1) ** penalty }, ...rest].slice(0, n);
}

// Hypotheses -> outputs with their tokens; the attention of the first is recorded by `context`.
export function outputsOf(decoder, hypotheses, { start, special, tokenizer }, context, silent) {
  return hypotheses.map(({ tokens, score, rankScore }, rank) => {
    const run = rank ? silent : context;
    const scores = decoder.replay(start(run), [special.bos, ...tokens], run);
    return { text: tokenizer.decode(tokens), score, rank: rankScore, tokens: withAlternatives([...tokens, special.eos], scores, (token) => tokenizer.tokenText(token)) };
  });
}
