// Word embeddings in two dimensions; a selected word highlights its nearest neighbours
// (by cosine in all dimensions, computed in Python).

import { draw, make, formatNumber, select, visible, textWidths } from "../dom.js";
import { clamp } from "../state.js";
import { t } from "../i18n.js";

function labelledPoints(space) {
  const { values } = space.points;
  return space.labels.map((label, i) => ({ label, x: values[2 * i], y: values[2 * i + 1] }));
}

function scatter(space, { width, height, chosen, pick }) {
  const points = labelledPoints(space);
  // Outliers are drawn at the edge, so that the other points are not crowded in the middle.
  const range = (key) => {
    const sorted = points.map((point) => point[key]).sort((a, b) => a - b);
    const quantile = (share) => sorted[Math.round(share * (sorted.length - 1))];
    const margin = 0.35 * (quantile(0.96) - quantile(0.04));
    return [Math.max(quantile(0), quantile(0.04) - margin), Math.min(quantile(1), quantile(0.96) + margin)];
  };
  const [[x0, x1], [y0, y1]] = [range("x"), range("y")];
  const within = (share) => Math.min(1, Math.max(0, share));
  const position = (point) => [46 + within((point.x - x0) / (x1 - x0 || 1)) * (width - 92), 20 + within((point.y - y0) / (y1 - y0 || 1)) * (height - 40)];
  const near = new Set(space.neighbours[chosen]?.map(([i]) => i));
  const labelBoxes = [];
  const rank = (i) => (i === chosen ? 2 : near.has(i) ? 1 : 0);
  const dots = points.map((_, i) => i).sort((a, b) => rank(b) - rank(a)).map((i) => { // selected words get their labels first
    const point = points[i];
    const [x, y] = position(point);
    const [size] = textWidths([visible(point.label)], i === chosen ? "700 14px" : near.has(i) ? "600 12px" : "12px");
    const hasRoom = !labelBoxes.some(([a, b, w]) => Math.abs(a - x) < (w + size) / 2 + 4 && Math.abs(b - y) < 14);
    if (hasRoom) labelBoxes.push([x, y, size]);
    return draw("g", { class: `dot ${i === chosen ? "on" : near.has(i) ? "near" : ""}`, onclick: () => pick(i), "data-index": i },
      draw("circle", { cx: x, cy: y, r: i === chosen ? 6 : 3.5 }, draw("title", {}, point.label)),
      hasRoom ? draw("text", { x, y: y - 8, "text-anchor": "middle" }, visible(point.label)) : null);
  });
  return draw("svg", { width, height, class: "scatter", role: "img", "aria-label": t`${points.length} embeddings in two dimensions by ${space.method}` },
    dots.reverse()); // and are drawn over the others
}

export const view = {
  name: "embeddings",
  title: t`Embeddings`,
  suits: (data) => (data.embeddings || []).length > 0,
  show(data, element, page) {
    const space = data.embeddings.find((candidate) => candidate.name === page.state.space) || data.embeddings[0];
    const chosen = clamp(page.state.word, space.labels.length);
    const room = Math.max(240, element.clientWidth - 48);
    const width = element.clientWidth > 860 ? room - 328 : room;
    const pick = (word) => page.change({ word });
    element.append(make("div", { class: "controls" },
      data.embeddings.length > 1 ? select(t`Vocabulary`, data.embeddings.map((entry) => ({ key: entry.name, label: entry.name })), space.name, (name) => page.change({ space: name, word: 0 })) : null,
      select(t`Word`, space.labels.map((label, i) => ({ key: String(i), label: visible(label) })), String(chosen), (key) => pick(Number(key)))));
    const list = make("section", { class: "distribution", "aria-label": t`Nearest neighbours` },
      make("h3", {}, make("span", { class: "word" }, visible(space.labels[chosen])), make("span", { class: "quiet" }, ` ${t`nearest by cosine`}`)),
      make("ol", { class: "shares" }, space.neighbours[chosen].map(([i, cosine]) => make("li", { class: "share" },
        make("button", { type: "button", class: "link share-label", onclick: () => pick(i) }, visible(space.labels[i])),
        make("span", { class: "share-track" }, make("span", { class: "share-bar", style: { width: `${100 * Math.max(0, cosine)}%` } })),
        make("span", { class: "figure share-value" }, formatNumber(cosine, 3))))));
    element.append(make("section", { class: "card split" }, make("div", {},
      make("p", { class: "quiet" }, t`${space.labels.length} words by ${space.method}. Distances in the plot are approximate; the list uses all dimensions.`),
      scatter(space, { width, height: Math.min(560, Math.max(320, width * 0.7)), chosen, pick })), list));
  },
};
