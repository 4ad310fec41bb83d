// Tagging: the entities of a text, the tags of its units with alternatives, and self-attention over the sentence.

import { tokenTensor } from "../decoder.js";
import { axis, inspectionOf, item, Recorder } from "../inspection.js";
import { topIndices } from "../search.js";
import { TagChain } from "../tag_chain.js";
import { tensor } from "../tensor.js";
import { collapse, part, withCommas } from "../text.js";
import { Tokenizer } from "../tokenizer.js";
import { splitUnits } from "../units.js";
import { unknownWordRemarks, unknownWords, wordsInSpans } from "../unknown_words.js";

const ALTERNATIVES = 4;
const MIN_LOG_PROBABILITY = Math.log(1e-9);

export class Tagging {
  constructor(model, programs) {
    Object.assign(this, { model, programs, tokenizer: new Tokenizer(model.tokenizers[0]), chain: new TagChain(model.transitions, model.isChain) });
  }

  // Text -> units with their tokens and characters; of a long text, the first part. `total`: units of the complete text
  encode(text) {
    const { units: kind, maxTokens, maxUnitCharacters, alphabet, special } = this.model;
    const ids = new Map(Array.from(alphabet, (character, i) => [character, i + 4]));
    const pieces = kind === "tokens" ? this.tokenizer.encodeWithOffsets(text).filter(({ start, stop }) => stop > start).map(({ token, start, stop }) => [[start, stop], [token]])
      : splitUnits(text, kind).map((span) => [span, this.tokenizer.encode(part(text, ...span)).slice(0, maxTokens)]);
    const units = [];
    let count = 0;
    for (const [span, tokens] of pieces) {
      const row = tokens.length ? tokens : [special.unk];
      if (count + row.length > maxTokens && units.length) break;
      const characters = alphabet ? Array.from(part(text, ...span).normalize("NFC")).slice(0, maxUnitCharacters).map((character) => ids.get(character) ?? special.unk) : [];
      units.push({ span, tokens: row, first: count, characters });
      count += row.length;
    }
    return Object.assign(units, { total: pieces.length });
  }

  remarks(text, units) {
    const isTokens = this.model.units === "tokens";
    const isUnknown = (span) => this.tokenizer.encode(part(text, ...span)).includes(this.model.special.unk);
    const words = isTokens ? unknownWords(text, this.tokenizer) : wordsInSpans(text, splitUnits(text, this.model.units).filter(isUnknown));
    const cut = units.length < units.total ? [`only the first ${withCommas(units.length)} of ${withCommas(units.total)} words or characters are shown`] : [];
    return [...cut, ...unknownWordRemarks(words)];
  }

  run(units, context) {
    const width = Math.max(0, ...units.map(({ characters }) => characters.length));
    const characters = new Int32Array(units.length * width);
    units.forEach((unit, i) => characters.set(unit.characters, i * width));
    const [logits] = this.programs.logits.run([tokenTensor(units.flatMap(({ tokens }) => tokens)), tokenTensor(units.map(({ first }) => first)), tensor([1, units.length, width], characters)], context);
    const size = logits.shape[2];
    return units.map((_, i) => Array.from(logits.data.subarray(i * size, (i + 1) * size)));
  }

  inspect({ text, changes }) {
    const { tags, special, scheme } = this.model;
    const units = this.encode(text);
    if (!units.length) throw new Error("the text is empty; give some text");
    const names = { queries: { sentence: "sentence", text: "text" }, keys: { sentence: "sentence", text: "text" } };
    const recorder = new Recorder(this.model, changes);
    const startedAt = performance.now();
    const logits = this.run(units, recorder.context(names));
    const best = this.chain.best(logits);
    const { marginals, score } = this.chain.probabilities(logits, best);
    const seconds = (performance.now() - startedAt) / 1000;
    const unitItems = units.map(({ span }, i) => item(part(text, ...span), { word: i, span }));
    const tokenItems = units.flatMap(({ span, tokens }, i) => tokens.map((token) => item(token === special.unk && tokens.length === 1 ? unitItems[i].text : this.tokenizer.tokenText(token), { word: i, span })));
    const isOneEach = tokenItems.length === unitItems.length;
    const items = isOneEach ? unitItems : tokenItems;
    const mark = (token) => item(this.tokenizer.tokenText(token), { special: true });
    const found = entitiesOf(best.map((tag) => tags[tag]), scheme).map(({ start, stop, type }) => ({ start: units[start].span[0], stop: units[stop - 1].span[1], type }));
    const clamped = marginals.map((row) => row.map((value) => Math.max(value, MIN_LOG_PROBABILITY)));
    const tokens = best.map((tag, i) => ({ text: tags[tag], score: clamped[i][tag], alternatives: topIndices(clamped[i], ALTERNATIVES).map((other) => [tags[other], clamped[i][other]]) }));
    return inspectionOf(recorder, {
      text, title: collapse(text), seconds, answered: isOneEach ? "sentence" : "units", views: ["entities"], remarks: this.remarks(text, units),
      outputs: [{ text: marked(text, found), score, rank: score, tokens }],
      axes: { sentence: axis(items, "sentence"), text: axis([mark(special.bos), ...items, mark(special.eos)], "text"), units: axis(unitItems, "units") },
      extra: { entities: { text, entities: found, tags: best.map((tag) => tags[tag]), firsts: units.map(({ first }) => first), types: [...new Set(tags.filter((tag) => tag.includes("-")).map((tag) => tag.slice(tag.indexOf("-") + 1)))].sort() } },
    });
  }
}

// Tags of a scheme -> entities as ranges of units
function entitiesOf(tags, scheme) {
  const parsed = tags.map((tag) => (tag.includes("-") ? [tag.slice(0, tag.indexOf("-")), tag.slice(tag.indexOf("-") + 1)] : [tag, ""]));
  const isStart = parsed.map(([prefix, type], i) => prefix === "B" || prefix === "S" || (scheme === "iob1" && prefix === "I" && (i === 0 || parsed[i - 1][0] === "O" || parsed[i - 1][1] !== type)));
  return parsed.flatMap(([, type], start) => {
    if (!isStart[start]) return [];
    let stop = start + 1;
    while (stop < parsed.length && !isStart[stop] && ["I", "E"].includes(parsed[stop][0])) stop++;
    return [{ start, stop, type }];
  });
}

// The text with entities as <name:TYPE>, in one line.
function marked(text, entities) {
  const characters = Array.from(text);
  let end = 0;
  const parts = entities.flatMap(({ start, stop, type }) => {
    const before = characters.slice(end, start).join("");
    end = stop;
    return [before, `<${characters.slice(start, stop).join("")}:${type}>`];
  });
  return [...parts, characters.slice(end).join("")].join("").split("\n").join(" ");
}
