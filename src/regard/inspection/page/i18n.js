// Texts of the page in the language of the browser: Korean if the browser prefers it, else English.
// A text is written in English where it is used, t`head ${head + 1}`; {0}, {1} … in the tables (i18n_ko.js, i18n_ko_phrases.js) stand for the values.

import { KOREAN_SENTENCES } from "./i18n_ko.js";
import { KOREAN_PHRASES } from "./i18n_ko_phrases.js";

const KOREAN = { ...KOREAN_SENTENCES, ...KOREAN_PHRASES };

const korean = (navigator.languages?.[0] || navigator.language || "").toLowerCase().startsWith("ko");

export const language = korean ? "ko" : "en";

export function t(strings, ...values) {
  const english = strings.reduce((text, part, i) => `${text}{${i - 1}}${part}`);
  return (korean ? KOREAN[english] ?? english : english).replace(/\{(\d+)\}/g, (_, i) => values[i]);
}

// Translate the title of an axis, a map or a fact, which a task gives in English; unknown titles are returned unchanged.
export function translateTerm(title) {
  if (!korean) return title;
  const [, inward] = title.match(/^(.+) self-attention$/) || [];
  if (inward) return t`${translateTerm(inward)} self-attention`;
  if (title.includes(" → ")) return title.split(" → ").map(translateTerm).join(" → ");
  if (/^words of every sentence$/i.test(title)) return t`words of every sentence`;
  if (/^every sentence$/i.test(title)) return t`every sentence`;
  const [, sentence] = title.match(/^words of sentence (\d+)$/i) || [];
  return sentence ? t`words of sentence ${sentence}` : TERMS[title.toLowerCase()] ?? title;
}

// Translate the one-line summary of music or an image, which a task gives in English; unknown lines are returned unchanged.
export function translateSummary(line) {
  const [, name, count, nats] = line.match(/^(.+): (\d+) tokens, ([\d.]+) nats each$/) || [];
  if (name) return t`${name}: ${count} tokens, ${nats} nats each`;
  const [, bits] = line.match(/^([\d.]+) bits per dimension$/) || [];
  if (bits) return t`${bits} bits per dimension`;
  const [, source, size, rest] = line.match(/^(.+) made to (\d+x\d+)(.*)$/) || [];
  return source ? t`${source} made to ${size}${rest}` : line;
}

// Translate a remark on the input, which a task gives in English; unknown remarks are returned unchanged.
export function translateRemark(remark) {
  const match = (pattern) => remark.match(pattern)?.slice(1);
  const words = match(/^not in the vocabulary, or spelled out in characters: (.+)$/);
  if (words) return t`not in the vocabulary, or spelled out in characters: ${words[0]}`;
  const context = match(/^the context has (\d+) tokens: only the last ([\d,]+) of the ([\d,]+) input tokens are used$/);
  if (context) return t`the context has ${context[0]} tokens: only the last ${context[1]} of the ${context[2]} input tokens are used`;
  const read = match(/^only the first ([\d,]+) of ([\d,]+) tokens are read$/);
  if (read) return t`only the first ${read[0]} of ${read[1]} tokens are read`;
  const tokens = match(/^only the first ([\d,]+) of ([\d,]+) tokens are shown$/);
  if (tokens) return t`only the first ${tokens[0]} of ${tokens[1]} tokens are shown`;
  const units = match(/^only the first ([\d,]+) of ([\d,]+) words or characters are shown$/);
  if (units) return t`only the first ${units[0]} of ${units[1]} words or characters are shown`;
  const sizes = match(/^(\d+)x(\d+) pixels: resized to (\d+)x(\d+)$/);
  if (sizes) return t`${sizes[1]} × ${sizes[0]} pixels: resized to ${sizes[3]} × ${sizes[2]}`;
  return remark === "transparent: placed on a white background" ? t`transparent: placed on a white background` : remark;
}

export const TERMS = {
  "transcript": "전사",
  "time": "시간",
  "answer": "답",
  "cells": "칸",
  "gaps": "빈칸",
  "grid": "격자",
  "items": "아이템",
  "k, projected": "k, 투영됨",
  "label": "레이블",
  "made": "생성 결과",
  "model": "모델",
  "moments": "시점",
  "objects": "객체",
  "output": "출력",
  "parameters": "파라미터",
  "patches": "패치",
  "profile and history": "프로파일과 이력",
  "items that are judged": "평가 대상 아이템",
  "read": "읽은 토큰",
  "run": "실행",
  "score": "점수",
  "seconds": "초",
  "seen": "생성된 부분",
  "sentence": "문장",
  "sentences": "문장",
  "small image": "작은 이미지",
  "source": "원문",
  "target": "번역문",
  "task": "과제",
  "text": "텍스트",
  "units": "단위",
  "users": "사용자",
  "with positions": "위치 반영",
  "words": "단어",
};
