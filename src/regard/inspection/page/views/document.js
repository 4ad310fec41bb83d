// Document with a bar per sentence and shaded words: the attention of the label at both levels.
// A click opens a sentence. If the deciding words are known, they are underlined.

import { textColorOn, shade } from "../color.js";
import { make, formatNumber, percent, slicer, visible } from "../dom.js";
import { strongest } from "../data.js";
import { t } from "../i18n.js";

const LABEL_AXIS = "label";
const WORD_AXES = ["document", "text"]; // axes of all words, for models without sentence level

const labelMap = (data, keys) => data.maps.find((map) => map.queries === LABEL_AXIS && map.keys === keys && !map.long);
const sentenceMap = (data, item) => data.maps.find((map) => map.queries === LABEL_AXIS && !map.long && map.parent?.axis === "sentences" && map.parent.item === item);
const isDeciding = (data, span) => (data.extra.document.deciding?.words || []).some(([start, stop]) => span[0] < stop && span[1] > start);

// Words and the text between them as in the raw text; each word is shaded by its weight relative to the largest.
function shadedWords(data, items, weights, shaded) {
  const textOf = slicer(data.extra.document.text);
  const top = Math.max(...weights, 1e-9);
  const spanned = items.map((item, i) => ({ item, weight: weights[i] })).filter(({ item }) => item.span);
  const parts = [];
  let end = spanned.length ? spanned[0].item.span[0] : 0;
  for (const { item, weight } of spanned) {
    const [start, stop] = item.span;
    if (start > end) parts.push(textOf(end, start));
    const share = weight / top;
    const style = shaded ? { background: shade(share), color: textColorOn(share), "border-radius": "4px", padding: "1px 2px" } : {};
    if (isDeciding(data, item.span)) Object.assign(style, { "text-decoration": "underline", "text-underline-offset": "4px", "text-decoration-thickness": "2px" });
    parts.push(make("span", { class: `document-word${isDeciding(data, item.span) ? " deciding" : ""}`, style, title: `${visible(item.text)} ${formatNumber(weight, 3)}` }, textOf(Math.max(start, end), stop)));
    end = Math.max(end, stop);
  }
  return make("span", { class: "document-text" }, parts);
}

function bar(weight, top) {
  return make("span", { class: "share-track", "aria-hidden": "true", style: { "min-width": "120px" } },
    make("span", { class: "share-bar", style: { width: `${(100 * weight) / top}%` } }));
}

// One sentence: its weight as a bar, its words below, shaded if it is open.
function sentence(data, i, weight, { top, open, toggle }) {
  const map = sentenceMap(data, i);
  const items = map ? data.items(map.keys) : [];
  const words = map ? shadedWords(data, items, map.row(-1, 0), open) : make("span", {}, data.labels("sentences")[i]);
  const label = t`Sentence ${i + 1}, weight ${formatNumber(weight, 3)}`;
  return make("li", { class: `document-sentence${open ? " open" : ""}`, style: { display: "grid", gap: "4px", padding: "8px 0", "border-bottom": "1px solid var(--line)" } },
    make("button", { type: "button", class: "document-opener", "aria-expanded": String(open), "aria-label": label, "data-key": `sentence:${i}`, onclick: toggle,
      style: { display: "flex", gap: "12px", "align-items": "center", background: "none", border: "0", padding: "0", cursor: "pointer" } },
    make("span", { class: "quiet" }, String(i + 1)), bar(weight, top), make("span", { class: "figure" }, formatNumber(weight, 3))), words);
}

function prediction(data) {
  const [best, ...alternatives] = data.outputs;
  const share = (output) => (output.score === null ? "" : ` ${percent(output.score)}`);
  return make("p", { class: "document-label" }, make("span", { class: "big" }, best.text), make("span", { class: "figure quiet" }, share(best)),
    alternatives.length ? make("span", { class: "quiet" }, `   ${t`alternatives: ${alternatives.map((output) => output.text + share(output)).join(" · ")}`}`) : null);
}

// The sentence that is open; the one with the largest weight at first.
function openSentence(data, page) {
  return page.state.row ?? strongest(labelMap(data, "sentences").row(-1, 0));
}

function sentenceList(data, page) {
  const weights = labelMap(data, "sentences").row(-1, 0);
  const top = Math.max(...weights, 1e-9);
  const chosen = openSentence(data, page);
  const rows = Array.from(weights, (weight, i) => sentence(data, i, weight, { top, open: i === chosen, toggle: () => page.change({ row: i === chosen ? -1 : i }) }));
  return make("ol", { class: "document-sentences", style: { "list-style": "none" } }, rows);
}

export const view = {
  name: "document",
  title: t`Document`,
  sidePanel: true,
  opensFirst: true, // the page opens with this view
  suits: (data) => Boolean(data.extra.document) && ["sentences", ...WORD_AXES].some((keys) => labelMap(data, keys)),
  show(data, element, page) {
    const wordMap = WORD_AXES.map((keys) => labelMap(data, keys)).find(Boolean);
    const sentences = labelMap(data, "sentences");
    const openMap = sentences ? sentenceMap(data, openSentence(data, page)) : null; // its words are drawn too
    page.selection = { map: sentences || wordMap, head: -1, also: openMap ? [{ map: openMap, head: -1 }] : [] };
    const decidingHint = data.extra.document.deciding ? make("p", { class: "quiet" }, t`Underlined: the deciding words.`) : null;
    const body = labelMap(data, "sentences") ? sentenceList(data, page)
      : make("p", { class: "document-flat", style: { "line-height": "2" } }, shadedWords(data, data.items(wordMap.keys), wordMap.row(-1, 0), true));
    const hint = labelMap(data, "sentences") ? t`Bars: attention of the label to each sentence. Click a sentence to see its words.` : t`Darker words get more attention from the label.`;
    element.append(make("section", { class: "card" }, prediction(data), make("p", { class: "quiet" }, hint), decidingHint, body));
  },
};
