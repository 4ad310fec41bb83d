// Tokenizers that regard writes (BPE, byte-level BPE, unigram, words, characters), with the results of the library `tokenizers`.
// Offsets count characters (code points), as in Python.

import { segmentBpe, segmentUnigram, segmentWord } from "./subwords.js";

const [PAD, UNKNOWN, START, END] = [0, 1, 2, 3];
const REPLACEMENT = "\uFFFD";
const SPACE = "\\t-\\r\\x20\\x85\\xA0\\u1680\\u2000-\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000";
export const isSpace = (character) => new RegExp(`[${SPACE}\\x1c-\\x1f]`, "u").test(character); // as str.isspace of Python

// Characters that stand for the 256 bytes in a byte-level vocabulary (Radford et al. 2019).
function byteCharacters() {
  const isPrintable = (byte) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let added = 0;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(isPrintable(byte) ? byte : 256 + added++));
}

const BYTE_CHARACTERS = byteCharacters();
const BYTES = new Map(BYTE_CHARACTERS.map((character, byte) => [character, byte]));

const partsOf = (component, list) => (component === null || component === undefined ? [] : component.type === "Sequence" ? component[list] : [component]);
const unsupported = (component) => { throw new Error(`tokenizer component ${component.type} is not supported`); };

// A text as characters, each with the span of the characters of the input that it comes from.
class Spelled {
  constructor(characters, spans) {
    Object.assign(this, { characters, spans });
  }

  static of(text) {
    const characters = Array.from(text);
    return new Spelled(characters, characters.map((_, i) => [i, i + 1]));
  }

  lowercase() {
    const lower = this.characters.map((character) => Array.from(character.toLowerCase()));
    return new Spelled(lower.flat(), lower.flatMap((parts, i) => parts.map(() => this.spans[i])));
  }

  prepend(text) {
    if (!this.characters.length) return this;
    const added = Array.from(text);
    return new Spelled([...added, ...this.characters], [...added.map(() => this.spans[0]), ...this.spans]);
  }

  // The input is composed already when offsets are needed; else offsets are not used.
  compose() {
    const text = this.characters.join("");
    const composed = text.normalize("NFC");
    return composed === text ? this : Spelled.of(composed);
  }

  slice(start, stop) {
    return new Spelled(this.characters.slice(start, stop), this.spans.slice(start, stop));
  }

  // Every byte as one character.
  toBytes() {
    const encoder = new TextEncoder();
    const bytes = this.characters.map((character) => Array.from(encoder.encode(character), (byte) => BYTE_CHARACTERS[byte]));
    return new Spelled(bytes.flat(), bytes.flatMap((parts, i) => parts.map(() => this.spans[i])));
  }

  // Split into the matches of a pattern and the text between them.
  split(pattern) {
    const text = this.characters.join("");
    const pieces = [];
    let [unit, at] = [0, 0];
    const upTo = (stop) => {
      const start = at;
      for (; unit < stop; at++) unit += this.characters[at].length;
      if (at > start) pieces.push(this.slice(start, at));
    };
    for (const match of text.matchAll(pattern)) {
      upTo(match.index);
      upTo(match.index + match[0].length);
    }
    upTo(text.length);
    return pieces;
  }
}

export class Tokenizer {
  // state: the JSON of a tokenizer file
  constructor(state) {
    this.normalizers = partsOf(state.normalizer, "normalizers");
    this.preTokenizers = partsOf(state.pre_tokenizer, "pretokenizers");
    this.decoders = partsOf(state.decoder, "decoders");
    this.model = state.model;
    this.isUnigram = this.model.type === "Unigram";
    this.names = this.isUnigram ? this.model.vocab.map(([name]) => name) : [];
    if (!this.isUnigram) for (const [name, id] of Object.entries(this.model.vocab)) this.names[id] = name;
    this.ids = new Map(this.names.map((name, id) => [name, id]));
    this.added = (state.added_tokens ?? []).map(({ content, id }) => [content, id]);
    for (const [content, id] of this.added) if (!this.ids.has(content)) { this.ids.set(content, id); this.names[id] = content; }
    this.isByteLevel = this.decoders.some(({ type }) => type === "ByteLevel");
    this.patterns = this.preTokenizers.filter(({ type }) => type === "Split").map(({ pattern, behavior }) => (behavior === "Isolated" ? new RegExp(pattern.Regex.replaceAll("\\s\\S", "\\u{0}-\\u{10FFFF}").replaceAll("[^\\s", `[^${SPACE}`).replaceAll(/(?<!\[\^?)\\s/g, `[${SPACE}]`).replaceAll("\\S", `[^${SPACE}]`), "gu") : unsupported({ type: `Split ${behavior}` })));
    this.preTokenizers.filter(({ type }) => !["Split", "ByteLevel"].includes(type)).forEach(unsupported);
    if (!["BPE", "Unigram", "WordLevel"].includes(this.model.type)) unsupported(this.model);
    this.addsPrefix = this.normalizers.some(({ type, prepend }) => type === "Prepend" && prepend === " ");
    this.segment = { BPE: segmentBpe, Unigram: segmentUnigram, WordLevel: segmentWord }[this.model.type](this);
  }

  get vocabSize() {
    return this.names.length;
  }

  normalize(spelled) {
    return this.normalizers.reduce((text, part) => {
      if (part.type === "NFC") return text.compose();
      if (part.type === "Lowercase") return text.lowercase();
      if (part.type === "Prepend") return text.prepend(part.prepend);
      return unsupported(part);
    }, spelled);
  }

  // Text between special tokens that are written out in it, which some vocabularies match.
  *sections(text) {
    let rest = Spelled.of(text);
    while (this.added.length) {
      const raw = rest.characters.join("");
      const found = this.added.map(([content, id]) => [raw.indexOf(content), id, content]).filter(([at]) => at >= 0).sort((a, b) => a[0] - b[0] || b[2].length - a[2].length)[0];
      if (!found) break;
      const [at, id, content] = found;
      const start = Array.from(raw.slice(0, at)).length;
      const stop = start + Array.from(content).length;
      if (start) yield { part: rest.slice(0, start) };
      yield { id, span: [rest.spans[start][0], rest.spans[stop - 1][1]] };
      rest = rest.slice(stop);
    }
    if (rest.characters.length) yield { part: rest };
  }

  // Text -> [{id, start, stop}], offsets into the text if it is composed (NFC)
  pieces(text) {
    const result = [];
    for (const { part, id, span } of this.sections(text)) {
      if (!part) {
        result.push({ id, start: span[0], stop: span[1] });
        continue;
      }
      let words = [this.normalize(part)];
      for (const pattern of this.patterns) words = words.flatMap((word) => word.split(pattern));
      if (this.preTokenizers.some(({ type }) => type === "ByteLevel")) words = words.map((word) => word.toBytes());
      for (const word of words) {
        if (!word.characters.length) continue;
        let at = 0;
        for (const [token, length] of this.segment(word.characters)) {
          result.push({ id: token, start: word.spans[at][0], stop: word.spans[at + length - 1][1] });
          at += length;
        }
      }
    }
    return result;
  }

  encode(text) {
    return this.pieces(text).map(({ id }) => id);
  }

  // Token ids -> text; special tokens are removed, an unknown token becomes U+FFFD.
  decode(row) {
    const names = row.filter((id) => id !== PAD && id !== START && id !== END).map((id) => this.names[id]);
    let text;
    if (this.isByteLevel) {
      const encoder = new TextEncoder();
      const bytes = names.flatMap((name) => {
        const characters = Array.from(name);
        return characters.every((character) => BYTES.has(character)) ? characters.map((character) => BYTES.get(character)) : Array.from(encoder.encode(name));
      });
      text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
    } else {
      text = names.join("");
      for (const { type, content, start } of this.decoders) if (type === "Strip" && start && text.startsWith(content)) text = text.slice(content.length);
    }
    return text.replaceAll(this.names[UNKNOWN], REPLACEMENT);
  }

  isSpecial(token) {
    const name = this.names[token];
    return Array.from(name).length > 1 && name.endsWith(" ");
  }

  // True for a token of one character or byte of a subword tokenizer.
  spells(token) {
    const name = Array.from(this.names[token]);
    return this.model.type !== "WordLevel" && (name.length === 1 || (name.length === 2 && " Ġ".includes(name[0])));
  }

  // Text of a token for display, without the leading space.
  tokenText(token) {
    let name = this.names[token];
    if (this.isSpecial(token)) return name.trim();
    if (this.isByteLevel) name = this.decode([token]);
    return (name.startsWith(" ") ? name.slice(1) : name) || name;
  }

  // Raw text, composed or not -> [{token, text, start, stop}] with offsets into the raw text
  encodeWithOffsets(text) {
    const characters = Array.from(text);
    const rawSpans = composedSpans(text);
    return this.pieces(text.normalize("NFC")).map(({ id, start, stop }, i) => {
      const isPrefix = i === 0 && this.addsPrefix && this.names[id] === " ";
      const spans = isPrefix ? [] : rawSpans.slice(start, stop);
      const [first, last] = spans.length ? [spans[0][0], spans.at(-1)[1]] : [0, 0];
      const from = withoutSpace(characters, first, last);
      const unknown = id === UNKNOWN ? characters.slice(from, last).join("") : "";
      return { token: id, text: unknown || this.tokenText(id), start: from, stop: last };
    });
  }

  // Token ids without special tokens -> the tokens with offsets into the decoded text
  decodeWithOffsets(row) {
    const characters = Array.from(this.decode(row));
    let first = 0;
    return row.map((token, i) => {
      const last = Array.from(this.decode(row.slice(0, i + 1))).length;
      const piece = { token, text: this.tokenText(token), start: withoutSpace(characters, first, last), stop: last };
      first = last;
      return piece;
    });
  }
}

// Start of a token at first … last without leading spaces; at least one character remains.
function withoutSpace(characters, first, last) {
  let from = first;
  while (last - from > 1 && isSpace(characters[from])) from += 1;
  return from;
}

// Raw text -> for each character of its NFC form, the span of the raw characters it is composed of.
export function composedSpans(text) {
  const characters = Array.from(text);
  if (text.normalize("NFC") === text) return characters.map((_, i) => [i, i + 1]);
  const spans = [];
  let start = 0;
  for (let stop = 1; stop <= characters.length; stop++) {
    const before = characters.slice(start, stop).join("");
    if (stop === characters.length || isBoundary(before, characters[stop])) {
      for (const _ of before.normalize("NFC")) spans.push([start, stop]);
      start = stop;
    }
  }
  return spans;
}

// True if a character is neither reordered into nor composed with the text before it.
function isBoundary(before, character) {
  if (isCombining(character)) return false;
  return (before + character).normalize("NFC") === before.normalize("NFC") + character.normalize("NFC");
}

// True if the canonical combining class is not 0: the character changes places with a mark of another class.
function isCombining(character) {
  if (!/\p{M}/u.test(character)) return false;
  const [low, high] = ["\u0334", "\u0345"]; // classes 1 and 240, the lowest and highest
  return (`a${character}${low}`).normalize("NFD") !== `a${character}${low}`.split("").join("") || (`a${high}${character}`).normalize("NFD") !== `a${high}${character.normalize("NFD")}` || character === low || character === high || /[\u0334-\u0338]/u.test(character);
}
