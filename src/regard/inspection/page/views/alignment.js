// Output aligned with the input by crossing lines, the n-best list, and the alignment error rate if the true alignment is known.

import { draw, fitLabel, make, formatNumber, percent, select, visible, textWidths } from "../dom.js";
import { alternativesText } from "../tokens.js";
import { clamp } from "../state.js";
import { EMPTY } from "../header.js";
import { t } from "../i18n.js";

const MIN_WEIGHT = 0.06;
const WORD_GAP = 18;
const ROW_DISTANCE = 190;

const wordWidths = (labels) => textWidths(labels.map(visible), "500 17px").map((width) => Math.max(18, width));

// Centers of the words on a line, and the length of the line.
function placeWords(labels) {
  let x = 0;
  const centers = wordWidths(labels).map((width) => {
    const center = x + width / 2;
    x += width + WORD_GAP;
    return center;
  });
  return { centers, length: x - WORD_GAP };
}

// Positions of keys and queries: in two rows if they fit, in two columns on a narrow screen.
function computeLayout(keys, queries, room) {
  const [above, below] = [placeWords(keys), placeWords(queries)];
  const lineLength = Math.max(above.length, below.length);
  if (lineLength + 24 <= room) {
    const shift = (line, y) => line.centers.map((x) => [x + (lineLength - line.length) / 2 + 12, y]);
    return { upright: false, width: lineLength + 24, height: ROW_DISTANCE + 72, key: shift(above, 24), query: shift(below, ROW_DISTANCE + 48) };
  }
  const step = 34;
  const width = Math.min(room, 460);
  const column = (count, x) => Array.from({ length: count }, (_, i) => [x, 20 + i * step]);
  return { upright: true, width, height: step * Math.max(keys.length, queries.length) + 8,
    key: column(keys.length, width * 0.34), query: column(queries.length, width * 0.66) };
}

function curve(layout, row, column) {
  const [x1, y1] = layout.key[column];
  const [x2, y2] = layout.query[row];
  if (layout.upright) {
    const middle = (x1 + x2) / 2;
    return `M${x1 + 8} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2 - 8} ${y2}`;
  }
  const middle = (y1 + y2) / 2;
  return `M${x1} ${y1 + 16}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2 - 16}`;
}

function alignmentSvg(data, map, head, { room, truth, onChoose }) {
  const [keys, queries] = [data.labels(map.keys), data.labels(map.queries)];
  const layout = computeLayout(keys, queries, room);
  const svg = draw("svg", { width: layout.width, height: layout.height, class: "alignment", role: "group",
    "aria-label": t`Alignment of ${queries.length} items of ${data.axes[map.queries].title} with ${keys.length} of ${data.axes[map.keys].title}` });
  const lines = draw("g", { fill: "none", class: "crossing" });
  for (let row = 0; row < map.rows; row++) {
    for (let column = 0; column < map.columns; column++) {
      const weight = map.value(head, row, column);
      if (weight < MIN_WEIGHT) continue;
      lines.append(draw("path", { d: curve(layout, row, column), "data-row": row, "data-column": column, "stroke-width": (0.5 + 7 * weight).toFixed(2),
        "stroke-opacity": (0.1 + 0.6 * weight).toFixed(2), "stroke-linecap": "round" }));
    }
  }
  for (const [row, column] of truth) lines.append(draw("path", { d: curve(layout, row, column), class: "truth", "data-row": row, "data-column": column }));
  svg.append(lines);
  const word = (labels, kind) => labels.map((label, i) => {
    const anchor = !layout.upright ? "middle" : kind === "key" ? "end" : "start";
    const highlight = () => {
      svg.classList.add("choosing");
      lines.querySelectorAll("path").forEach((path) => path.classList.toggle("on", path.dataset[kind === "key" ? "column" : "row"] === String(i)));
      onChoose(kind, i);
    };
    const unhighlight = () => svg.classList.remove("choosing");
    return draw("text", { x: layout[kind][i][0], y: layout[kind][i][1], "text-anchor": anchor, "dominant-baseline": "central", class: `aligned ${kind}`, tabindex: 0,
      role: "button", "data-index": i, "aria-label": label, onpointerenter: highlight, onfocus: highlight, onpointerleave: unhighlight, onblur: unhighlight }, layout.upright ? fitLabel(label, layout.width * 0.34 - 4, "500 17px") : visible(label));
  });
  svg.append(...word(keys, "key"), ...word(queries, "query"));
  return svg;
}

export function nbest(data) {
  const outputs = data.outputs || [];
  if (!outputs.length) return null;
  const ranked = outputs.every((output) => Number.isFinite(output.rank)); // bars follow the displayed order
  const rankingScore = (output) => (ranked ? output.rank : output.score);
  const top = Math.max(...outputs.map(rankingScore));
  return make("section", { class: "card nbest", "aria-label": t`The n-best list` }, make("h2", {}, outputs.length > 1 ? t`The ${outputs.length} best outputs` : t`The output`),
    make("ol", {}, outputs.map((output) => make("li", {}, make("span", { class: "nbest-text" }, output.text || make("span", { class: "quiet" }, EMPTY)),
      make("span", { class: "share-track", "aria-hidden": "true" }, make("span", { class: "share-bar", style: { width: `${100 * Math.exp(rankingScore(output) - top)}%` } })),
      make("span", { class: "figure", title: `log p ${formatNumber(output.score, 3)}` }, Number.isFinite(output.score) ? percent(output.score) : "–"),
      make("span", { class: "figure quiet", title: t`ranking score` }, formatNumber(output.rank, 3))))),
    make("p", { class: "quiet" }, ranked
      ? t`Probability, then the ranking score (the mean log probability per token if the length penalty is 1). Bars compare the ranking score with that of the best output.`
      : t`Probability, then the ranking score. Bars compare probabilities with that of the best output.`));
}

function errorRate(data, map, head) {
  const rates = data.truth?.rates[map.name];
  if (!rates) return null;
  const rate = head < 0 ? rates.mean : rates.heads[head];
  return make("p", { class: "error-rate" }, make("span", { class: "figure big" }, formatNumber(rate, 3)),
    make("span", {}, ` ${t`alignment error rate: the share of wrong links, where a link leads from each output token to its strongest input token.`} `),
    make("span", { class: "truth-key" }, t`Dotted lines are the true alignment.`));
}

// The strongest links of a word, and the alternatives of an output token.
function links(data, map, head, { kind, i }) {
  const isQuery = kind === "query";
  const weights = isQuery ? map.row(head, i) : Float32Array.from({ length: map.rows }, (_, row) => map.value(head, row, i));
  const linkedLabels = data.labels(isQuery ? map.keys : map.queries);
  const best = Array.from(weights, (weight, k) => [weight, k]).sort((a, b) => b[0] - a[0]).slice(0, 4).filter(([weight]) => weight >= 0.005);
  const otherTokens = (isQuery ? map.queries : map.keys) === data.answered ? alternativesText(data.outputs[0]?.tokens[i]) : "";
  return [make("span", { class: "word" }, visible(data.labels(isQuery ? map.queries : map.keys)[i])), isQuery ? " ← " : " → ",
    ...best.map(([weight, k], n) => make("span", {}, n ? " · " : "", visible(linkedLabels[k]), " ", make("span", { class: "figure" }, formatNumber(weight, 3)))),
    otherTokens ? make("span", { class: "quiet" }, `   ${t`alternatives: ${otherTokens}`}`) : ""];
}

const alignmentMaps = (data) => data.maps.filter((map) => !map.long && !map.inward && [map.queries, map.keys].includes(data.answered));

export const view = {
  name: "alignment",
  title: t`Alignment`,
  opensFirst: "alone", // the page of a single run opens with this view
  suits: (data) => alignmentMaps(data).length > 0,
  sidePanel: true,
  show(data, element, page) {
    const maps = alignmentMaps(data);
    const map = maps.find((candidate) => candidate.name === page.state.map) || maps.find((candidate) => candidate === data.map()) || maps.at(-1);
    const head = page.state.mix === "head" ? clamp(page.state.head, map.heads) : -1;
    page.selection = { map, head };
    const heads = [{ key: "-1", label: t`mean of all heads` }, ...Array.from({ length: map.heads }, (_, i) => ({ key: String(i), label: t`head ${i + 1}` }))];
    const readout = make("p", { class: "readout" }, make("span", { class: "quiet" }, t`Hover over a word to see only its links.`));
    const onChoose = (kind, i) => readout.replaceChildren(...links(data, map, head, { kind, i }));
    const truth = data.truth && data.truth.queries === map.queries && data.truth.keys === map.keys ? data.truth.links : [];
    element.append(make("div", { class: "controls" },
      maps.length > 1 ? select(t`Layer`, maps.map((entry) => ({ key: entry.name, label: entry.title })), map.name, (name) => page.change({ map: name })) : null,
      map.heads > 1 ? select(t`Heads`, heads, String(head), (key) => page.change(key === "-1" ? { mix: undefined } : { mix: "head", head: Number(key) })) : null));
    element.append(make("section", { class: "card" }, errorRate(data, map, head), readout,
      make("div", { class: "scroll centred" }, alignmentSvg(data, map, head, { room: Math.max(240, element.clientWidth - 48), truth, onChoose }))), nbest(data) || "");
  },
};
