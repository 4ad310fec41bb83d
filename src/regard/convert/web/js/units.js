// Units of tagged text, words or characters, by the rules of regard/data/text/word_units.py.

import { characterIndex, SPACE } from "./text.js";
import { composedSpans } from "./tokenizer.js";

const W = "[\\p{L}\\p{N}_]";
const WORDS = new RegExp(`https?://[^${SPACE}]+|[@#]${W}+|\\p{Nd}+(?:[.,:]\\p{Nd}+)*%?|n't(?!${W})|${W}+?(?=n't(?!${W}))|${W}+(?:-${W}+)*|'${W}+|\\.{2,}|[^\\p{L}\\p{N}_${SPACE}]`, "giu");

// Raw text -> [start, stop] of each unit, in characters
export function splitUnits(text, kind) {
  const spans = composedSpans(text);
  if (kind === "characters") return spans.filter((span, i) => i === 0 || span !== spans[i - 1]);
  const composed = text.normalize("NFC");
  const index = characterIndex(composed);
  return [...composed.matchAll(WORDS)].map((match) => [spans[index(match.index)][0], spans[index(match.index + match[0].length) - 1][1]]);
}
