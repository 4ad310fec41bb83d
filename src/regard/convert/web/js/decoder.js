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
export function withAlternatives(tokens, scores, nameOf) {
  return tokens.map((token, i) => ({
    text: nameOf(token, i), score: scores[i][token],
    alternatives: topIndices(scores[i], ALTERNATIVES).map((candidate) => [nameOf(candidate, i), scores[i][candidate]]),
  }));
}
