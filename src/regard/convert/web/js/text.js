// Text as Python's str sees it: characters are code points, and whitespace is that of str.isspace.

export const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xA0\\u1680\\u2000-\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000";
const BLANKS = new RegExp(`[${SPACE}]+`, "gu");

export const words = (text) => text.split(BLANKS).filter(Boolean);
export const collapse = (text) => words(text).join(" ");

// Collapsed text of at most `size` characters, cut after a word.
export function shorten(text, size, placeholder = " …") {
  const parts = words(text);
  if (Array.from(parts.join(" ")).length <= size) return parts.join(" ");
  let count = parts.length;
  while (count && Array.from(parts.slice(0, count).join(" ") + placeholder).length > size) count--;
  return parts.slice(0, count).join(" ") + placeholder;
}

// Function: index of a UTF-16 unit of a text -> index of its character
export function characterIndex(text) {
  const indices = new Int32Array(text.length + 1);
  let unit = 0;
  let count = 0;
  for (const character of text) {
    for (let i = 0; i < character.length; i++) indices[unit++] = count;
    count++;
  }
  indices[unit] = count;
  return (position) => indices[position];
}

// 12345 -> "12,345"
export const withCommas = (value) => value.toLocaleString("en");

// Part of a text by character indices.
export const part = (text, start, stop) => Array.from(text).slice(start, stop).join("");
