// Word vectors: a picture in two dimensions, the nearest words of one, and sums of words typed by the reader, all computed
// here from the vectors in 8 bits.

import { announce, choice, draw, make, number, widthsOf } from "../dom.js";
import { clamp } from "../state.js";
import { say } from "../i18n.js";

const NEAREST = 12;

function unpack(raw) {
  const bytes = Uint8Array.from(atob(raw.vectors), (letter) => letter.charCodeAt(0));
  const all = new Int8Array(bytes.buffer);
  return raw.words.map((_, i) => Array.from(all.subarray(i * raw.width, (i + 1) * raw.width)));
}

function cosine(one, other) {
  const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
  return dot(one, other) / (Math.sqrt(dot(one, one) * dot(other, other)) || 1);
}

// "king - man + woman" -> [{place, sign}], or the word that is not there.
function terms(text, words) {
  const found = [];
  for (const [, sign, word] of text.matchAll(/([+-]?)\s*([^\s+-]+)/g)) {
    const place = words.indexOf(word) >= 0 ? words.indexOf(word) : words.indexOf(word.toLowerCase());
    if (place < 0) return { missing: word };
    found.push({ place, sign: sign === "-" ? -1 : 1 });
  }
  return { found };
}

function nearest(vectors, found) {
  const unit = (vector) => vector.map((value) => value / (Math.sqrt(cosineSelf(vector)) || 1));
  const sum = vectors[0].map((_, i) => found.reduce((total, { place, sign }) => total + sign * unit(vectors[place])[i], 0));
  const asked = new Set(found.map(({ place }) => place));
  return vectors.map((vector, place) => [place, asked.has(place) ? -2 : cosine(sum, vector)]).sort((a, b) => b[1] - a[1])
    .slice(0, Math.min(NEAREST, vectors.length - asked.size));
}

const cosineSelf = (vector) => vector.reduce((sum, value) => sum + value * value, 0);

function scatter(raw, points, { width, height, chosen, near, pick }) {
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const scale = (values, size) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return (value) => 40 + ((value - low) / (high - low || 1)) * (size - 80);
  };
  const [x, y] = [scale(xs, width), scale(ys, height)];
  const taken = [];
  const rank = (i) => (i === chosen ? 2 : near.has(i) ? 1 : 0);
  const dots = raw.words.map((_, i) => i).sort((a, b) => rank(b) - rank(a)).map((i) => { // those that matter are named first
    const word = raw.words[i];
    const [at, up] = [x(points[i][0]), y(points[i][1])];
    const [size] = widthsOf([word], i === chosen ? "700 14px" : near.has(i) ? "600 12px" : "12px");
    const free = !taken.some(([a, b, w]) => Math.abs(a - at) < (w + size) / 2 + 4 && Math.abs(b - up) < 14);
    if (free) taken.push([at, up, size]);
    return draw("g", { class: `dot ${i === chosen ? "on" : near.has(i) ? "near" : ""}`, onclick: () => pick(i), "data-index": i },
      draw("circle", { cx: at, cy: up, r: i === chosen ? 6 : 3 }, draw("title", {}, word)),
      free ? draw("text", { x: at, y: up - 7, "text-anchor": "middle" }, word) : null);
  });
  return draw("svg", { width, height, class: "scatter", role: "img", "aria-label": say`${raw.words.length} words in two dimensions` },
    dots.reverse()); // and drawn over the others
}

function list(raw, found, pick) {
  return make("ol", { class: "shares" }, found.map(([place, near]) => make("li", { class: "share" },
    make("button", { type: "button", class: "link share-label", onclick: () => pick(place) }, raw.words[place]),
    make("span", { class: "share-track" }, make("span", { class: "share-bar", style: { width: `${100 * Math.max(0, near)}%` } })),
    make("span", { class: "figure share-value" }, number(near, 3)))));
}

export const view = {
  name: "vectors",
  title: say`Word vectors`,
  opens: true, // the page begins with it
  suits: (data) => Boolean(data.extra?.vectors),
  show(data, element, page) {
    const raw = data.extra.vectors;
    const vectors = (raw.unpacked ||= unpack(raw));
    const chosen = clamp(page.state.word, raw.words.length);
    const methods = Object.keys(raw.points);
    const method = methods.includes(page.state.method) ? page.state.method : methods.at(-1);
    const pick = (word) => page.change({ word, sum: undefined });
    const typed = page.state.sum || raw.words[chosen];
    const { found, missing } = terms(typed, raw.words);
    const near = found?.length ? nearest(vectors, found) : [];
    const ask = (event) => {
      event.preventDefault();
      page.change({ sum: new FormData(event.target).get("sum").trim() });
      announce(say`nearest to ${page.state.sum}`);
    };
    const box = make("form", { class: "controls", onsubmit: ask },
      make("label", { class: "choice" }, make("span", { class: "choice-label" }, say`A word, or a sum: king - man + woman`),
        make("input", { type: "text", name: "sum", value: typed, "data-key": "vectors:sum", autocomplete: "off", spellcheck: "false" })),
      make("button", { type: "submit", class: "chip word-chip", "data-key": "vectors:ask" }, say`Nearest`),
      methods.length > 1 ? choice(say`Picture`, methods.map((key) => ({ key, label: key })), method, (key) => page.change({ method: key })) : null);
    const room = Math.max(240, element.clientWidth - 48);
    const width = element.clientWidth > 860 ? room - 328 : room;
    const picture = { width, height: Math.min(600, Math.max(320, width * 0.7)), chosen: found?.[0]?.place ?? chosen, near: new Set(near.map(([place]) => place)), pick };
    element.append(box, make("section", { class: "card split" },
      make("div", {}, make("p", { class: "quiet" }, say`${raw.words.length} words by ${method}: those asked for, their neighbours, then the most frequent. Sums are looked for among these words.`),
        scatter(raw, raw.points[method], picture)),
      make("section", { class: "distribution", "aria-label": say`Nearest words` },
        make("h3", {}, make("span", { class: "word" }, typed), make("span", { class: "quiet" }, ` ${say`nearest by cosine`}`)),
        missing ? make("p", { class: "wrong", role: "alert" }, page.server ? say`${missing} is not among these words; ask for it above.` : say`${missing} is not among these words; look it up by regard nearest.`) : list(raw, near, pick))));
  },
};
