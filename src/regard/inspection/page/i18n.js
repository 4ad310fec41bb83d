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
