// Word vectors: a scatter plot in two dimensions, the nearest words of one word, and sums of words typed by the user, all computed
// here from the vectors in 8 bits.

import { announce, choice, draw, make, formatNumber, textWidths } from "../dom.js";
import { clamp } from "../state.js";
import { t } from "../i18n.js";

const NEAREST = 12;

function unpack(raw) {
  const bytes = Uint8Array.from(atob(raw.vectors), (character) => character.charCodeAt(0));
  const all = new Int8Array(bytes.buffer);
  return raw.words.map((_, i) => Array.from(all.subarray(i * raw.width, (i + 1) * raw.width)));
}

function cosine(first, second) {
  const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
  return dot(first, second) / (Math.sqrt(dot(first, first) * dot(second, second)) || 1);
}

// "king - man + woman" -> [{index, sign}], or the missing word.
function parseTerms(text, words) {
  const terms = [];
  for (const [, sign, word] of text.matchAll(/([+-]?)\s*([^\s+-]+)/g)) {
    const index = words.indexOf(word) >= 0 ? words.indexOf(word) : words.indexOf(word.toLowerCase());
    if (index < 0) return { missing: word };
    terms.push({ index, sign: sign === "-" ? -1 : 1 });
  }
  return { terms };
}

function nearest(vectors, terms) {
  const unit = (vector) => vector.map((value) => value / (Math.sqrt(squaredNorm(vector)) || 1));
  const sum = vectors[0].map((_, i) => terms.reduce((total, { index, sign }) => total + sign * unit(vectors[index])[i], 0));
  const queryIndices = new Set(terms.map(({ index }) => index));
  return vectors.map((vector, index) => [index, queryIndices.has(index) ? -2 : cosine(sum, vector)]).sort((a, b) => b[1] - a[1])
    .slice(0, Math.min(NEAREST, vectors.length - queryIndices.size));
}

const squaredNorm = (vector) => vector.reduce((sum, value) => sum + value * value, 0);

function scatter(raw, points, { width, height, chosen, neighbours, pick }) {
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const scale = (values, size) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return (value) => 40 + ((value - low) / (high - low || 1)) * (size - 80);
  };
  const [x, y] = [scale(xs, width), scale(ys, height)];
  const labelBoxes = [];
  const rank = (i) => (i === chosen ? 2 : neighbours.has(i) ? 1 : 0);
  const dots = raw.words.map((_, i) => i).sort((a, b) => rank(b) - rank(a)).map((i) => { // selected words get their labels first
    const word = raw.words[i];
    const [cx, cy] = [x(points[i][0]), y(points[i][1])];
    const [size] = textWidths([word], i === chosen ? "700 14px" : neighbours.has(i) ? "600 12px" : "12px");
    const hasRoom = !labelBoxes.some(([a, b, w]) => Math.abs(a - cx) < (w + size) / 2 + 4 && Math.abs(b - cy) < 14);
    if (hasRoom) labelBoxes.push([cx, cy, size]);
    return draw("g", { class: `dot ${i === chosen ? "on" : neighbours.has(i) ? "near" : ""}`, onclick: () => pick(i), "data-index": i },
      draw("circle", { cx, cy, r: i === chosen ? 6 : 3 }, draw("title", {}, word)),
      hasRoom ? draw("text", { x: cx, y: cy - 7, "text-anchor": "middle" }, word) : null);
  });
  return draw("svg", { width, height, class: "scatter", role: "img", "aria-label": t`${raw.words.length} words in two dimensions` },
    dots.reverse()); // and are drawn over the others
}

function neighbourList(raw, neighbours, pick) {
  return make("ol", { class: "shares" }, neighbours.map(([index, similarity]) => make("li", { class: "share" },
    make("button", { type: "button", class: "link share-label", onclick: () => pick(index) }, raw.words[index]),
    make("span", { class: "share-track" }, make("span", { class: "share-bar", style: { width: `${100 * Math.max(0, similarity)}%` } })),
    make("span", { class: "figure share-value" }, formatNumber(similarity, 3)))));
}

export const view = {
  name: "vectors",
  title: t`Word vectors`,
  opensFirst: true, // the page opens with this view
  suits: (data) => Boolean(data.extra?.vectors),
  show(data, element, page) {
    const raw = data.extra.vectors;
    const vectors = (raw.unpacked ||= unpack(raw));
    const chosen = clamp(page.state.word, raw.words.length);
    const methods = Object.keys(raw.points);
    const method = methods.includes(page.state.method) ? page.state.method : methods.at(-1);
    const pick = (word) => page.change({ word, sum: undefined });
    const typed = page.state.sum || raw.words[chosen];
    const { terms, missing } = parseTerms(typed, raw.words);
    const neighbours = terms?.length ? nearest(vectors, terms) : [];
    const submit = (event) => {
      event.preventDefault();
      page.change({ sum: new FormData(event.target).get("sum").trim() });
      announce(t`nearest to ${page.state.sum}`);
    };
    const box = make("form", { class: "controls", onsubmit: submit },
      make("label", { class: "choice" }, make("span", { class: "choice-label" }, t`A word, or a sum: king - man + woman`),
        make("input", { type: "text", name: "sum", value: typed, "data-key": "vectors:sum", autocomplete: "off", spellcheck: "false" })),
      make("button", { type: "submit", class: "chip word-chip", "data-key": "vectors:ask" }, t`Nearest`),
      methods.length > 1 ? choice(t`Projection`, methods.map((key) => ({ key, label: key })), method, (key) => page.change({ method: key })) : null);
    const room = Math.max(240, element.clientWidth - 48);
    const width = element.clientWidth > 860 ? room - 328 : room;
    const options = { width, height: Math.min(600, Math.max(320, width * 0.7)), chosen: terms?.[0]?.index ?? chosen, neighbours: new Set(neighbours.map(([index]) => index)), pick };
    element.append(box, make("section", { class: "card split" },
      make("div", {}, make("p", { class: "quiet" }, t`${raw.words.length} words by ${method}: the requested words, their neighbours, then the most frequent words. Sums are searched among these words.`),
        scatter(raw, raw.points[method], options)),
      make("section", { class: "distribution", "aria-label": t`Nearest words` },
        make("h3", {}, make("span", { class: "word" }, typed), make("span", { class: "quiet" }, ` ${t`nearest by cosine`}`)),
        missing ? make("p", { class: "wrong", role: "alert" }, page.server ? t`${missing} is not among these words; enter it above.` : t`${missing} is not among these words; look it up with regard nearest.`) : neighbourList(raw, neighbours, pick))));
  },
};
