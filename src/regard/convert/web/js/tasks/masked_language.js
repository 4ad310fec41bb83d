// Masked language modeling: the most likely ways to fill the masks of a text, and self-attention over the text.

import { tokenTensor } from "../decoder.js";
import { axis, inspectionOf, item, Recorder } from "../inspection.js";
import { logSoftmax, topIndices } from "../search.js";
import { Tokenizer } from "../tokenizer.js";
import { unknownWordRemarks, unknownWords } from "../unknown_words.js";

const MASK = /\[MASK\]|<mask>|\[mask\]/g;
const VISIBLE = { "\n": "↵", "\t": "⇥", " ": "␣" };

export class MaskedLanguage {
  constructor(model, programs) {
    Object.assign(this, { model, programs, tokenizer: new Tokenizer(model.tokenizers[0]) });
  }

  // Text with [MASK] -> {tokens, masks: positions}
  parse(text) {
    const { mask, hasSpaces, maxLength } = this.model;
    const withoutLastSpace = (part, isBefore) => (isBefore && hasSpaces && part.endsWith(" ") ? part.slice(0, -1) : part);
    const [first, ...rest] = text.split(MASK);
    if (!rest.length) throw new Error("no [MASK] in the text; write [MASK] for each word to predict");
    const tokens = first.trim() ? this.tokenizer.encode(withoutLastSpace(first, true)) : [];
    const masks = [];
    rest.forEach((part, i) => {
      masks.push(tokens.length);
      tokens.push(mask);
      const stripped = withoutLastSpace(part, i < rest.length - 1);
      // The newline in front is a token by itself, so that the text is encoded as if it followed another token.
      if (stripped) tokens.push(...this.tokenizer.encodeWithOffsets(`\n${stripped}`).filter(({ start }) => start >= 1).map(({ token }) => token));
    });
    if (tokens.length + 2 > maxLength) throw new Error(`the text has ${tokens.length + 2} tokens, special tokens included; the model's context is ${maxLength}; shorten the text`);
    return { tokens, masks };
  }

  name(token) {
    const text = this.tokenizer.tokenText(token);
    return VISIBLE[text] ?? text;
  }

  inspect({ text, options, changes }) {
    const { special, excluded, candidates: least } = this.model;
    const n = options.n ?? this.model.options.properties.n.default;
    const { tokens, masks } = this.parse(text);
    const recorder = new Recorder(this.model, changes);
    const startedAt = performance.now();
    const [logits] = this.programs.logits.run([tokenTensor([special.bos, ...tokens, special.eos])], recorder.context({ queries: { text: "text" }, keys: { text: "text" } }));
    const seconds = (performance.now() - startedAt) / 1000;
    const size = logits.shape[2];
    const candidates = masks.map((position) => {
      const row = logits.data.slice((position + 1) * size, (position + 2) * size);
      for (const token of excluded) row[token] = -Infinity;
      const scores = logSoftmax(row);
      return topIndices(scores, Math.max(n, least)).filter((token) => scores[token] > -Infinity).map((token) => ({ token, score: scores[token] }));
    });
    const filled = candidates.map((row) => {
      const words = row.map(({ token, score }) => [this.name(token), score]);
      return { text: words[0][0], score: words[0][1], alternatives: words };
    });
    const outputs = bestFillings(candidates, n).map(({ score, filling }, index) => {
      const row = [...tokens];
      masks.forEach((position, i) => { row[position] = filling[i]; });
      return { text: this.tokenizer.decode(row), score, rank: score, tokens: index ? [] : filled };
    });
    const items = tokens.map((token, position) => item(masks.includes(position) ? "[MASK]" : this.name(token)));
    const mark = (token) => item(this.tokenizer.tokenText(token), { special: true });
    return inspectionOf(recorder, {
      text, title: text.replace(MASK, "___"), outputs, seconds, answered: "gaps", views: ["masked"], remarks: unknownWordRemarks(unknownWords(text.replace(MASK, " "), this.tokenizer)),
      axes: { text: axis([mark(special.bos), ...items, mark(special.eos)], "text"), gaps: axis(masks.map((_, i) => item(`gap ${i + 1}`)), "gaps") },
      extra: { masked: { gaps: masks.map((position) => position + 1) } },
    });
  }
}

// Candidates of each mask, best first -> the best ways to fill all masks
function bestFillings(candidates, count) {
  const total = (ranks) => ranks.reduce((sum, rank, i) => sum + candidates[i][rank].score, 0);
  const queue = [candidates.map(() => 0)];
  const queued = new Set([queue[0].join()]);
  const fillings = [];
  while (queue.length && fillings.length < count) {
    queue.sort((a, b) => total(b) - total(a));
    const ranks = queue.shift();
    fillings.push({ score: total(ranks), filling: ranks.map((rank, i) => candidates[i][rank].token) });
    ranks.forEach((rank, i) => {
      const next = ranks.map((other, k) => (k === i ? rank + 1 : other));
      if (rank + 1 < candidates[i].length && !queued.has(next.join())) {
        queued.add(next.join());
        queue.push(next);
      }
    });
  }
  return fillings;
}
