// Classification of a document: its label, the attention over the words of each sentence and over the sentences.

import { tokenTensor } from "../decoder.js";
import { axis, inspectionOf, item, Recorder } from "../inspection.js";
import { logSoftmax } from "../search.js";
import { splitSentences } from "../sentences.js";
import { concat, tensor } from "../tensor.js";
import { collapse, part, shorten } from "../text.js";
import { Tokenizer } from "../tokenizer.js";
import { unknownWordRemarks, unknownWordsOfSpans } from "../unknown_words.js";

const MAX_SENTENCE_CHARACTERS = 60; // of a sentence on its axis
const MAX_TITLE_CHARACTERS = 200;

export class Classification {
  constructor(model, programs) {
    Object.assign(this, { model, programs, tokenizer: new Tokenizer(model.tokenizers[0]) });
  }

  // Text -> rows of tokens with the span of their sentence, within the limits of the model; `total`: tokens of the complete text
  tokenize(text) {
    const [maxTokens, maxSentences, maxSentenceTokens] = this.model.limits;
    const rows = [];
    let remaining = maxTokens;
    rows.total = 0;
    for (const span of splitSentences(text, this.model.splitter)) {
      const tokens = this.tokenizer.encode(part(text, ...span));
      rows.total += tokens.length;
      for (let start = 0; start < tokens.length; start += maxSentenceTokens) {
        if (remaining <= 0 || rows.length >= maxSentences) continue;
        const row = tokens.slice(start, start + Math.min(maxSentenceTokens, remaining));
        rows.push({ tokens: row, span, start });
        remaining -= row.length;
      }
    }
    return rows;
  }

  // Items of the words of each row, numbered through the document.
  wordItems(text, rows) {
    let index = 0;
    return rows.map(({ tokens, span, start }) => this.tokenizer.encodeWithOffsets(part(text, ...span)).slice(start, start + tokens.length)
      .map((piece) => item(piece.text, { word: index++, span: [span[0] + piece.start, span[0] + piece.stop] })));
  }

  inspect({ text, options, changes }) {
    if (!text.trim()) throw new Error("the document is empty; give some text");
    const rows = this.tokenize(text);
    const words = this.wordItems(text, rows);
    const recorder = new Recorder(this.model, changes);
    const startedAt = performance.now();
    const sentences = rows.map(({ tokens }, i) => {
      const context = recorder.context({ queries: { words: `words.${i}`, label: "label" }, keys: { words: `words.${i}`, label: "label" } }, rows.length > 1 ? i : null);
      return this.programs.words.run([tokenTensor(tokens)], context)[0];
    });
    const features = concat(sentences, 0);
    const context = recorder.context({ queries: { sentences: "sentences", label: "label" }, keys: { sentences: "sentences", label: "label" } });
    const [logits] = this.programs.sentences.run([tensor([1, ...features.shape], features.data)], context);
    const scores = logSoftmax(logits.data);
    const seconds = (performance.now() - startedAt) / 1000;
    const outputs = this.model.labels.map((label, i) => ({ text: label, score: scores[i], rank: scores[i], tokens: [] })).sort((a, b) => b.score - a.score).slice(0, options.n ?? 1);
    const axes = { label: axis([item(outputs[0].text, { word: 0 })], "label"), sentences: axis(rows.map(({ span }, i) => sentenceItem(text, words[i], span, i)), "sentences") };
    words.forEach((items, i) => { axes[`words.${i}`] = axis(items, `words of sentence ${i + 1}`, { axis: "sentences", item: i }); });
    return inspectionOf(recorder, { text, title: shorten(text, MAX_TITLE_CHARACTERS), outputs, seconds, axes, views: ["document"], remarks: [...cutRemarks(rows), ...unknownWordRemarks(unknownWordsOfSpans(text, splitSentences(text, this.model.splitter), this.tokenizer))], extra: { document: { text, deciding: null } } });
  }
}

// A remark if the model does not read the complete text.
function cutRemarks(rows) {
  const used = rows.reduce((sum, { tokens }) => sum + tokens.length, 0);
  return used < rows.total ? [`only the first ${used} of ${rows.total} tokens are read`] : [];
}

function sentenceItem(text, words, span, index) {
  const range = words.length ? [words[0].span[0], words.at(-1).span[1]] : span;
  const characters = Array.from(collapse(part(text, ...range)));
  const shown = characters.length <= MAX_SENTENCE_CHARACTERS ? characters.join("") : `${characters.slice(0, MAX_SENTENCE_CHARACTERS).join("")}…`;
  return item(shown, { word: index, span: range });
}
