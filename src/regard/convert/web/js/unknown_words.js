// Words of an input that the training data did not contain, by the rules of regard/data/text/unknown_words.py.

import { characterIndex, part, SPACE } from "./text.js";

const WORD = new RegExp(`[\\p{L}\\p{N}_]+|[^\\p{L}\\p{N}_${SPACE}]`, "gu");
const MIN_SPELLED_CHARACTERS = 3; // a shorter word may be spelled out although it is common
const MAX_WORDS = 20; // words that are named
const UNKNOWN = 1;

// Text -> [{word, start, stop}] in characters
function wordsOf(text) {
  const index = characterIndex(text);
  return [...text.matchAll(WORD)].map((match) => ({ word: match[0], start: index(match.index), stop: index(match.index + match[0].length) }));
}

const distinct = (words) => [...new Set(words.map(({ word }) => word))].slice(0, MAX_WORDS);

// Text -> its words with an unknown token, and words that a subword tokenizer spells out character by character
export function unknownWords(text, tokenizer) {
  const pieces = tokenizer.encodeWithOffsets(text).filter(({ start, stop }) => stop > start);
  let first = 0; // index of the first piece that ends inside or after the word
  return distinct(wordsOf(text).filter(({ word, start, stop }) => {
    while (first < pieces.length && pieces[first].stop <= start) first++;
    const inside = [];
    for (let i = first; i < pieces.length && pieces[i].start < stop; i++) inside.push(pieces[i].token);
    const isSpelled = stop - start >= MIN_SPELLED_CHARACTERS && inside.length >= stop - start && /^\p{L}+$/u.test(word);
    return inside.includes(UNKNOWN) || (isSpelled && inside.every((token) => tokenizer.spells(token)));
  }));
}

// The unknown words of the parts of a text that the model reads, such as its sentences without the breaks between them
export const unknownWordsOfSpans = (text, spans, tokenizer) => [...new Set(spans.flatMap((span) => unknownWords(part(text, ...span), tokenizer)))].slice(0, MAX_WORDS);

// The words of a text that overlap at least one of the spans [start, stop]
export function wordsInSpans(text, spans) {
  return spans.length ? distinct(wordsOf(text).filter(({ start, stop }) => spans.some(([from, to]) => from < stop && to > start))) : [];
}

// The remark on unknown words, none without such words
export const unknownWordRemarks = (words) => (words.length ? [`not in the vocabulary, or spelled out in characters: ${words.join(", ")}`] : []);
