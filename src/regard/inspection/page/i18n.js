// The words of the page in the language of the browser: English, or Korean where the browser prefers it.
// A text is written in English where it is said, say`head ${head + 1}`; {0}, {1} … in the table (i18n_ko.js) stand for what is put in.

import { KOREAN } from "./i18n_ko.js";

const korean = (navigator.languages?.[0] || navigator.language || "").toLowerCase().startsWith("ko");

export const language = korean ? "ko" : "en";

export function t(strings, ...values) {
  const english = strings.reduce((text, part, i) => `${text}{${i - 1}}${part}`);
  return (korean ? KOREAN[english] ?? english : english).replace(/\{(\d+)\}/g, (_, i) => values[i]);
}

// What a task calls an axis, a map or a fact, in English; what nobody has translated stays as it is.
export function translateTerm(title) {
  if (!korean) return title;
  const [, inward] = title.match(/^(.+) self-attention$/) || [];
  if (inward) return t`${translateTerm(inward)} self-attention`;
  if (title.includes(" → ")) return title.split(" → ").map(translateTerm).join(" → ");
  const [, sentence] = title.match(/^words of sentence (\d+)$/i) || [];
  return sentence ? t`words of sentence ${sentence}` : TERMS[title.toLowerCase()] ?? title;
}

// What a task says of music or an image in a line, in English; what nobody has translated stays as it is.
export function translateSummary(line) {
  const [, name, count, nats] = line.match(/^(.+): (\d+) tokens, ([\d.]+) nats each$/) || [];
  if (name) return t`${name}: ${count} tokens, ${nats} nats each`;
  const [, bits] = line.match(/^([\d.]+) bits per dimension$/) || [];
  if (bits) return t`${bits} bits per dimension`;
  const [, source, size, rest] = line.match(/^(.+) made to (\d+x\d+)(.*)$/) || [];
  return source ? t`${source} made to ${size}${rest}` : line;
}

export const TERMS = {
  "answer": "답",
  "cells": "칸",
  "gaps": "빈칸",
  "grid": "격자",
  "items": "아이템",
  "k, projected": "k, 투영됨",
  "label": "레이블",
  "made": "만든 것",
  "model": "모델",
  "moments": "때",
  "objects": "물체",
  "output": "출력",
  "parameters": "파라미터",
  "patches": "패치",
  "profile and history": "프로파일과 이력",
  "items that are judged": "평가되는 항목",
  "read": "읽은 것",
  "run": "실행",
  "score": "점수",
  "seconds": "초",
  "seen": "본 것",
  "sentence": "문장",
  "sentences": "문장",
  "small image": "작은 이미지",
  "source": "원문",
  "target": "번역문",
  "task": "과제",
  "text": "글",
  "units": "단위",
  "users": "사용자",
  "with places": "위치와 함께",
  "words": "단어",
};
