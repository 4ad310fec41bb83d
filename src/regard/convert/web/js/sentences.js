// Sentences of a text in English or Korean, by the rules of regard/data/text/sentence_splitter.py.

import { characterIndex, SPACE } from "./text.js";
import { composedSpans } from "./tokenizer.js";

const CLOSING = "\"'”’»」』)\\]}";
const OPENING = "\"'“‘«「『(\\[{";
const KOREAN_ENDINGS = "다요까죠네음임";
const BEFORE_NUMBERS = ["no", "vol", "fig", "p", "pp", "ch"];
const LOOKAHEAD = 20;
const QUOTE_CONTINUATION = new RegExp(`^[${SPACE}]?(?:라고|이라고|라는|라며|라면서|하고|고[${SPACE}]|며[${SPACE}]|는[${SPACE}]|란[${SPACE}])`, "u");
const BLANK = new RegExp(`[${SPACE}]`, "u");
const LEADING = new RegExp(`^[${SPACE}]+`, "u");
const TRAILING = new RegExp(`[${SPACE}]+$`, "u");
const LAST_WORD = new RegExp(`[${SPACE}${OPENING}]`, "u");
const trim = (text) => text.replace(LEADING, "").replace(TRAILING, "");
const firstOf = (text) => Array.from(text)[0] ?? "";

// True if a sentence ends after a match of punctuation.
function endsSentence(before, after, mark, closing, abbreviations) {
  const following = firstOf(after.replace(LEADING, ""));
  const isSpaced = BLANK.test(firstOf(after));
  const isKorean = KOREAN_ENDINGS.includes(Array.from(before).at(-1) ?? " ") && /^[가-힣]/u.test(after);
  if (!isSpaced && !isKorean) return false;
  if (/^\p{Lowercase}$/u.test(following) || (closing && QUOTE_CONTINUATION.test(after))) return false;
  if (mark !== ".") return true;
  const word = before.split(LAST_WORD).at(-1);
  const isInitial = Array.from(word).length === 1 && /^\p{Uppercase}$/u.test(word);
  const isListNumber = /^\p{Nd}+$/u.test(trim(before));
  const lower = word.toLowerCase();
  const isAbbreviation = abbreviations.includes(lower) || (BEFORE_NUMBERS.includes(lower) && /^\p{Nd}/u.test(following));
  return trim(before) !== "" && !(isInitial || isListNumber || isAbbreviation);
}

// Raw text -> [start, stop] of each sentence, in characters of the raw text
export function splitSentences(text, { marks, breaks, abbreviations }) {
  const composed = text.normalize("NFC");
  const edges = [0];
  if (breaks) for (const match of composed.matchAll(new RegExp(breaks, "gu"))) edges.push(match.index, match.index + match[0].length);
  edges.push(composed.length);
  const ends = marks ? new RegExp(`([${marks.replace(/[\\\]^-]/g, "\\$&")}]+)([${CLOSING}]*)`, "gu") : null;
  const spans = [];
  for (let i = 0; i < edges.length; i += 2) {
    const [low, high] = [edges[i], edges[i + 1]];
    const starts = [low];
    for (const match of ends ? composed.slice(low, high).matchAll(ends) : []) {
      const [at, stop] = [low + match.index, low + match.index + match[0].length];
      const after = Array.from(composed.slice(stop, stop + 2 * LOOKAHEAD)).slice(0, LOOKAHEAD).join("");
      if (stop < high && endsSentence(composed.slice(starts.at(-1), at), after, match[1], match[2], abbreviations)) starts.push(stop);
    }
    starts.forEach((start, k) => {
      const sentence = composed.slice(start, starts[k + 1] ?? high);
      const first = start + sentence.length - sentence.replace(LEADING, "").length;
      if (trim(sentence)) spans.push([first, first + trim(sentence).length]);
    });
  }
  const index = characterIndex(composed);
  const characters = spans.map(([start, stop]) => [index(start), index(stop)]);
  if (composed === text) return characters;
  const raw = composedSpans(text);
  return characters.map(([start, stop]) => [raw[start][0], raw[stop - 1][1]]);
}
