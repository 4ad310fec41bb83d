// Decoding: greedy search, beam search and sampling over a step function, with the results of regard's search.
// A hypothesis is {tokens, score, rankScore}: score is the log probability of its tokens and EOS.

export const logSoftmax = (logits) => {
  let top = -Infinity;
  for (const value of logits) top = Math.max(top, value);
  let sum = 0;
  for (const value of logits) sum += Math.exp(value - top);
  const log = Math.fround(top + Math.log(sum));
  const scores = new Float32Array(logits.length);
  for (let i = 0; i < scores.length; i++) scores[i] = logits[i] - log;
  return scores;
};

// The n-grams that would occur twice if the next token completed them.
function forbidRepeats(scores, tokens, size) {
  if (tokens.length < size) return;
  const recent = tokens.slice(tokens.length - size + 1);
  for (let i = 0; i + size <= tokens.length; i++) {
    if (recent.every((token, k) => tokens[i + k] === token)) scores[tokens[i + size - 1]] = -Infinity;
  }
}

// Set the scores of forbidden tokens to -Infinity; at the limit only EOS is allowed.
function constrain(scores, tokens, { limit, special, settings, allowed }) {
  const end = scores[special.eos];
  for (const token of [special.pad, special.bos, ...(settings.suppress_tokens ?? [])]) scores[token] = -Infinity;
  if (settings.no_repeat_ngram_size) forbidRepeats(scores, tokens, settings.no_repeat_ngram_size);
  if (tokens.length < (settings.min_length ?? 0)) scores[special.eos] = -Infinity;
  if (allowed) allowed(tokens).forEach((isAllowed, token) => { if (!isAllowed) scores[token] = -Infinity; });
  if (tokens.length >= limit || scores.every((score) => score === -Infinity)) {
    scores.fill(-Infinity);
    scores[special.eos] = end;
  }
  return scores;
}

// Indices of the k largest values, the first of equal ones first.
export function topIndices(values, k) {
  const best = [];
  for (let i = 0; i < values.length; i++) {
    if (best.length === k && !(values[i] > values[best[k - 1]])) continue;
    let at = best.length;
    while (at > 0 && values[i] > values[best[at - 1]]) at--;
    best.splice(at, 0, i);
    if (best.length > k) best.pop();
  }
  return best;
}

// Uniform random numbers in [0, 1) from a seed (mulberry32).
export function randomNumbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

// Draw a token from scores after temperature, top-k and top-p.
export function sampleToken(scores, { temperature = 1, top_k: topK = 0, top_p: topP = 1 }, random) {
  const order = topIndices(scores, topK || scores.length).filter((token) => scores[token] > -Infinity);
  const scaled = logSoftmax(order.map((token) => (scores[token] - scores[order[0]]) / temperature));
  let [mass, size] = [0, 0];
  while (size < order.length && (size === 0 || mass < topP)) mass += Math.exp(scaled[size++]);
  let rest = random() * mass;
  for (let i = 0; i < size; i++) if ((rest -= Math.exp(scaled[i])) < 0) return order[i];
  return order[size - 1];
}

// step(token, state) -> {logits, state}; inputs: {state, first, limit, special, allowed}; decoding: {name, …settings}
// -> hypotheses, best first
export function search(step, inputs, decoding) {
  if (decoding.name === "sample") return sample(step, inputs, decoding);
  const width = decoding.name === "greedy" ? 1 : decoding.beam_width;
  return beam(step, inputs, { ...decoding, width, nbest: decoding.nbest ?? 1, penalty: decoding.name === "greedy" ? 0 : decoding.length_penalty ?? 1 });
}

function scoresAfter(step, inputs, settings, { token, state, tokens }) {
  const after = step(token, state);
  const { logits } = after;
  return { scores: constrain(logSoftmax(logits), tokens, { ...inputs, settings }), state: after.state };
}

// Beam search in which an ended hypothesis keeps its slot (full_beam: frees it); see regard/decoding/strategies/beam.py.
function beam(step, inputs, settings) {
  const { special, limit } = inputs;
  const { width, nbest, penalty } = settings;
  const isFull = settings.name === "full_beam";
  const compared = isFull ? width : nbest;
  let rows = [{ token: inputs.first ?? special.bos, state: inputs.state, tokens: [], sum: 0 }];
  const ended = [];
  let capacity = width;
  while (rows.length) {
    const length = rows[0].tokens.length;
    const count = (isFull ? 2 : 1) * capacity;
    const candidates = rows.flatMap((row) => {
      const { scores, state } = scoresAfter(step, inputs, settings, row);
      return topIndices(scores, count).map((token) => ({ row, token, state, sum: row.sum + scores[token] }));
    }).map((candidate, order) => ({ ...candidate, order })).filter(({ sum }) => sum > -Infinity).sort((a, b) => b.sum - a.sum || a.order - b.order).slice(0, count);
    let numEnded = 0;
    candidates.slice(0, capacity).forEach(({ row, token, sum }) => {
      if (token !== special.eos) return;
      ended.push({ tokens: row.tokens, score: sum, rankScore: sum / (length + 1) ** penalty });
      numEnded += 1;
    });
    if (!isFull) capacity -= numEnded;
    const growing = candidates.filter(({ token }) => token !== special.eos).slice(0, capacity);
    const ranked = ended.map(({ rankScore }) => rankScore).sort((a, b) => b - a);
    const best = growing.length ? growing[0].sum / (isFull ? length + 1 : limit + 1) ** penalty : -Infinity;
    const isFinished = ranked.length >= compared && best <= ranked[compared - 1];
    rows = isFinished ? [] : growing.map(({ row, token, state, sum }) => ({ token, state, tokens: [...row.tokens, token], sum }));
  }
  return ended.map((hypothesis, i) => ({ hypothesis, i })).sort((a, b) => b.hypothesis.rankScore - a.hypothesis.rankScore || a.i - b.i).map(({ hypothesis }) => hypothesis).slice(0, nbest);
}

function sample(step, inputs, settings) {
  const { special } = inputs;
  const samples = Array.from({ length: settings.num_samples ?? 1 }, (_, index) => {
    const random = randomNumbers((settings.seed ?? 1) * 1000003 + index);
    let row = { token: inputs.first ?? special.bos, state: inputs.state, tokens: [], sum: 0 };
    for (;;) {
      const { scores, state } = scoresAfter(step, inputs, settings, row);
      const token = sampleToken(scores, settings, random);
      const sum = row.sum + scores[token];
      if (token === special.eos) return { tokens: row.tokens, score: sum, rankScore: sum };
      row = { token, state, tokens: [...row.tokens, token], sum };
      inputs.progress?.(row.tokens.length);
    }
  });
  return samples.sort((a, b) => b.score - a.score);
}

