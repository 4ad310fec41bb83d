// Word embeddings in two dimensions; a chosen word lights up its nearest neighbours (by cosine in all dimensions, from Python).

import { draw, make, number, select, visible, widthsOf } from "../dom.js";
import { floats } from "../data.js";
import { clamp } from "../state.js";
import { say } from "../i18n.js";

function points(space) {
  const { values } = floats(space.points);
  return space.labels.map((label, i) => ({ label, x: values[2 * i], y: values[2 * i + 1] }));
}

function scatter(space, { width, height, chosen, pick }) {
  const all = points(space);
  // The few that lie far out are drawn at the edge, so that the many do not crowd in the middle.
  const range = (key) => {
    const sorted = all.map((one) => one[key]).sort((a, b) => a - b);
    const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
    const margin = 0.35 * (at(0.96) - at(0.04));
    return [Math.max(at(0), at(0.04) - margin), Math.min(at(1), at(0.96) + margin)];
  };
  const [[x0, x1], [y0, y1]] = [range("x"), range("y")];
  const within = (share) => Math.min(1, Math.max(0, share));
  const place = (one) => [46 + within((one.x - x0) / (x1 - x0 || 1)) * (width - 92), 20 + within((one.y - y0) / (y1 - y0 || 1)) * (height - 40)];
  const near = new Set(space.neighbours[chosen]?.map(([i]) => i));
  const taken = [];
  const rank = (i) => (i === chosen ? 2 : near.has(i) ? 1 : 0);
  const dots = all.map((_, i) => i).sort((a, b) => rank(b) - rank(a)).map((i) => { // those that matter are named first
    const one = all[i];
    const [x, y] = place(one);
    const [size] = widthsOf([visible(one.label)], i === chosen ? "700 14px" : near.has(i) ? "600 12px" : "12px");
    const free = !taken.some(([a, b, w]) => Math.abs(a - x) < (w + size) / 2 + 4 && Math.abs(b - y) < 14);
    if (free) taken.push([x, y, size]);
    return draw("g", { class: `dot ${i === chosen ? "on" : near.has(i) ? "near" : ""}`, onclick: () => pick(i), "data-index": i },
      draw("circle", { cx: x, cy: y, r: i === chosen ? 6 : 3.5 }, draw("title", {}, one.label)),
      free ? draw("text", { x, y: y - 8, "text-anchor": "middle" }, visible(one.label)) : null);
  });
  return draw("svg", { width, height, class: "scatter", role: "img", "aria-label": say`${all.length} embeddings in two dimensions by ${space.method}` },
    dots.reverse()); // and drawn over the others
}

export const view = {
  name: "embeddings",
  title: say`Embeddings`,
  suits: (data) => (data.embeddings || []).length > 0,
  show(data, element, page) {
    const space = data.embeddings.find((one) => one.name === page.state.space) || data.embeddings[0];
    const chosen = clamp(page.state.word, space.labels.length);
    const room = Math.max(240, element.clientWidth - 48);
    const width = element.clientWidth > 860 ? room - 328 : room;
    const pick = (word) => page.change({ word });
    element.append(make("div", { class: "controls" },
      data.embeddings.length > 1 ? select(say`Vocabulary`, data.embeddings.map((one) => ({ key: one.name, label: one.name })), space.name, (name) => page.change({ space: name, word: 0 })) : null,
      select(say`Word`, space.labels.map((label, i) => ({ key: String(i), label: visible(label) })), String(chosen), (key) => pick(Number(key)))));
    const list = make("section", { class: "distribution", "aria-label": say`Nearest neighbours` },
      make("h3", {}, make("span", { class: "word" }, visible(space.labels[chosen])), make("span", { class: "quiet" }, ` ${say`nearest by cosine`}`)),
      make("ol", { class: "shares" }, space.neighbours[chosen].map(([i, cosine]) => make("li", { class: "share" },
        make("button", { type: "button", class: "link share-label", onclick: () => pick(i) }, visible(space.labels[i])),
        make("span", { class: "share-track" }, make("span", { class: "share-bar", style: { width: `${100 * Math.max(0, cosine)}%` } })),
        make("span", { class: "figure share-value" }, number(cosine, 3))))));
    element.append(make("section", { class: "card split" }, make("div", {},
      make("p", { class: "quiet" }, say`${space.labels.length} words by ${space.method}. Distances in the picture are only a hint; the list is measured in all dimensions.`),
      scatter(space, { width, height: Math.min(560, Math.max(320, width * 0.7)), chosen, pick })), list));
  },
};
