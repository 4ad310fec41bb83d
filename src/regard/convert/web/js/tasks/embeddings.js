// Word vectors: the words nearest to a word or to a sum of words, and the frequent words in two dimensions.

import { axis, inspectionOf, item, Recorder } from "../inspection.js";
import { principalPoints } from "../projection.js";
import { topIndices } from "../search.js";
import { tensor } from "../tensor.js";

export class Embeddings {
  constructor(model, programs) {
    Object.assign(this, { model, programs, index: new Map(model.words.map((word, i) => [word, i])) });
  }

  // "king - man + woman" -> [{word, sign}]
  parse(text) {
    const { words, lowercase } = this.model;
    const terms = [...(lowercase ? text.toLowerCase() : text).matchAll(/([+-]?)\s*([^\s+-]+)/g)].map(([, sign, word]) => ({ word, sign: sign === "-" ? -1 : 1 }));
    if (!terms.length) throw new Error("the input is empty; give a word, or a sum of words: king - man + woman");
    for (const { word } of terms) {
      if (!this.index.has(word)) throw new Error(`no vector for '${word}' among ${words.length.toLocaleString("en")} words; it was too rare in the text, or never there`);
    }
    return terms;
  }

  inspect({ text, options, changes }) {
    const { words, maxPoints } = this.model;
    const terms = this.parse(text);
    const queryWords = terms.map(({ word }) => this.index.get(word));
    const startedAt = performance.now();
    const inputs = [tensor([terms.length], Int32Array.from(queryWords)), tensor([terms.length], Float32Array.from(terms, ({ sign }) => sign))];
    const [cosines, unit] = this.programs.cosines.run(inputs);
    const scores = Float64Array.from(cosines.data);
    for (const word of queryWords) scores[word] = -Infinity;
    const count = Math.min(options.n ?? this.model.options.properties.n.default, words.length - new Set(queryWords).size);
    const neighbours = topIndices(scores, count);
    const seconds = (performance.now() - startedAt) / 1000;
    const points = [...new Set([...queryWords, ...neighbours, ...words.keys()])].slice(0, maxPoints);
    return inspectionOf(new Recorder(this.model, changes), {
      text, seconds, views: ["vectors"],
      axes: { words: axis(terms.map(({ word }) => item(word)), "words") },
      outputs: neighbours.map((word) => ({ text: words[word], score: null, rank: scores[word], tokens: [] })),
      extra: { vectors: vectorsView(points.map((word) => words[word]), points.map((word) => rowOf(unit, word)), new Set(queryWords).size) },
    });
  }
}

const rowOf = ({ shape, data }, row) => Array.from(data.subarray(row * shape[1], (row + 1) * shape[1]));

// The data of the page (tasks/embeddings/inspect.py); t-SNE needs Python.
function vectorsView(words, rows, numQueryWords) {
  const bytes = Int8Array.from(rows.flat(), (value) => Math.round(127 * value));
  const binary = Array.from(new Uint8Array(bytes.buffer), (byte) => String.fromCharCode(byte)).join("");
  return { words, asked: numQueryWords, points: { PCA: principalPoints(rows) }, width: rows[0].length, vectors: btoa(binary) };
}
