// What was answered beside what it was made from, with crossing lines; the n-best list; the error rate where the truth is known.

import { draw, fitted, make, number, select, visible, widthsOf } from "../dom.js";
import { otherwise } from "../tokens.js";
import { clamp } from "../state.js";
import { NOTHING } from "../header.js";
import { say } from "../i18n.js";

const FAINT = 0.06;
const GAP = 18;
const RISE = 190;

const measure = (labels) => widthsOf(labels.map(visible), "500 17px").map((width) => Math.max(18, width));

// Centres of words laid in a line, and the length of the line.
function lay(labels) {
  let at = 0;
  const centres = measure(labels).map((width) => {
    const centre = at + width / 2;
    at += width + GAP;
    return centre;
  });
  return { centres, length: at - GAP };
}

// Where keys and queries stand: in two rows where they fit, in two columns on a narrow screen.
function places(keys, queries, room) {
  const [above, below] = [lay(keys), lay(queries)];
  const wide = Math.max(above.length, below.length);
  if (wide + 24 <= room) {
    const shift = (line, y) => line.centres.map((x) => [x + (wide - line.length) / 2 + 12, y]);
    return { upright: false, width: wide + 24, height: RISE + 72, key: shift(above, 24), query: shift(below, RISE + 48) };
  }
  const step = 34;
  const width = Math.min(room, 460);
  const column = (count, x) => Array.from({ length: count }, (_, i) => [x, 20 + i * step]);
  return { upright: true, width, height: step * Math.max(keys.length, queries.length) + 8,
    key: column(keys.length, width * 0.34), query: column(queries.length, width * 0.66) };
}

function curve(place, row, column) {
  const [x1, y1] = place.key[column];
  const [x2, y2] = place.query[row];
  if (place.upright) {
    const middle = (x1 + x2) / 2;
    return `M${x1 + 8} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2 - 8} ${y2}`;
  }
  const middle = (y1 + y2) / 2;
  return `M${x1} ${y1 + 16}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2 - 16}`;
}

function picture(data, map, head, { room, truth, chosen }) {
  const [keys, queries] = [data.labels(map.keys), data.labels(map.queries)];
  const place = places(keys, queries, room);
  const svg = draw("svg", { width: place.width, height: place.height, class: "alignment", role: "group",
    "aria-label": say`Alignment of ${queries.length} items of ${data.axes[map.queries].title} with ${keys.length} of ${data.axes[map.keys].title}` });
  const lines = draw("g", { fill: "none", class: "crossing" });
  for (let row = 0; row < map.rows; row++) {
    for (let column = 0; column < map.columns; column++) {
      const weight = map.value(head, row, column);
      if (weight < FAINT) continue;
      lines.append(draw("path", { d: curve(place, row, column), "data-row": row, "data-column": column, "stroke-width": (0.5 + 7 * weight).toFixed(2),
        "stroke-opacity": (0.1 + 0.6 * weight).toFixed(2), "stroke-linecap": "round" }));
    }
  }
  for (const [row, column] of truth) lines.append(draw("path", { d: curve(place, row, column), class: "truth", "data-row": row, "data-column": column }));
  svg.append(lines);
  const word = (labels, kind) => labels.map((label, i) => {
    const anchor = !place.upright ? "middle" : kind === "key" ? "end" : "start";
    const choose = () => {
      svg.classList.add("choosing");
      lines.querySelectorAll("path").forEach((path) => path.classList.toggle("on", path.dataset[kind === "key" ? "column" : "row"] === String(i)));
      chosen(kind, i);
    };
    const leave = () => svg.classList.remove("choosing");
    return draw("text", { x: place[kind][i][0], y: place[kind][i][1], "text-anchor": anchor, "dominant-baseline": "central", class: `aligned ${kind}`, tabindex: 0,
      role: "button", "data-index": i, "aria-label": label, onpointerenter: choose, onfocus: choose, onpointerleave: leave, onblur: leave }, place.upright ? fitted(label, place.width * 0.34 - 4, "500 17px") : visible(label));
  });
  svg.append(...word(keys, "key"), ...word(queries, "query"));
  return svg;
}

function nbest(data) {
  const outputs = data.outputs || [];
  if (!outputs.length) return null;
  const ranked = outputs.every((one) => Number.isFinite(one.rank)); // the bars follow the order that is shown
  const measure = (one) => (ranked ? one.rank : one.score);
  const top = Math.max(...outputs.map(measure));
  return make("section", { class: "card nbest", "aria-label": say`The n-best list` }, make("h2", {}, outputs.length > 1 ? say`The ${outputs.length} best outputs` : say`The output`),
    make("ol", {}, outputs.map((one) => make("li", {}, make("span", { class: "nbest-text" }, one.text || make("span", { class: "quiet" }, NOTHING)),
      make("span", { class: "share-track", "aria-hidden": "true" }, make("span", { class: "share-bar", style: { width: `${100 * Math.exp(measure(one) - top)}%` } })),
      make("span", { class: "figure", title: say`log probability` }, number(one.score, 3)),
      make("span", { class: "figure quiet", title: say`what hypotheses were ranked by` }, number(one.rank, 3))))),
    make("p", { class: "quiet" }, ranked
      ? say`log probability, then what they were ranked by (the mean log probability of a token, where the length penalty is 1); bars compare what they were ranked by with the best`
      : say`log probability, then what they were ranked by; bars compare probabilities with the best`));
}

function errorRate(data, map, head) {
  const rates = data.truth?.rates[map.name];
  if (!rates) return null;
  const rate = head < 0 ? rates.mean : rates.heads[head];
  return make("p", { class: "error-rate" }, make("span", { class: "figure big" }, number(rate, 3)),
    make("span", {}, ` ${say`alignment error rate against the true alignment`} `), make("span", { class: "truth-key" }, say`dotted`));
}

// The strongest links of a word, and for a token of the answer what else might have stood there.
function links(data, map, head, { kind, i }) {
  const asked = kind === "query";
  const weights = asked ? map.row(head, i) : Float32Array.from({ length: map.rows }, (_, row) => map.value(head, row, i));
  const others = data.labels(asked ? map.keys : map.queries);
  const best = Array.from(weights, (weight, k) => [weight, k]).sort((a, b) => b[0] - a[0]).slice(0, 4).filter(([weight]) => weight >= 0.005);
  const said = (asked ? map.queries : map.keys) === data.answered ? otherwise(data.outputs[0]?.tokens[i]) : "";
  return [make("span", { class: "word" }, visible(data.labels(asked ? map.queries : map.keys)[i])), asked ? " ← " : " → ",
    ...best.map(([weight, k], n) => make("span", {}, n ? " · " : "", visible(others[k]), " ", make("span", { class: "figure" }, number(weight, 3)))),
    said ? make("span", { class: "quiet" }, `   ${say`or else ${said}`}`) : ""];
}

const suited = (data) => data.maps.filter((map) => !map.long && !map.inward && [map.queries, map.keys].includes(data.answered));

export const view = {
  name: "alignment",
  title: say`Alignment`,
  suits: (data) => suited(data).length > 0,
  beside: true,
  show(data, element, page) {
    const maps = suited(data);
    const map = maps.find((one) => one.name === page.state.map) || maps.find((one) => one === data.map()) || maps.at(-1);
    const head = page.state.mix === "head" ? clamp(page.state.head, map.heads) : -1;
    page.looked = { map, head };
    const heads = [{ key: "-1", label: say`mean of all heads` }, ...Array.from({ length: map.heads }, (_, i) => ({ key: String(i), label: say`head ${i + 1}` }))];
    const says = make("p", { class: "readout" }, make("span", { class: "quiet" }, say`Point at a word to see its links alone.`));
    const chosen = (kind, i) => says.replaceChildren(...links(data, map, head, { kind, i }));
    const truth = data.truth && data.truth.queries === map.queries && data.truth.keys === map.keys ? data.truth.links : [];
    element.append(make("div", { class: "controls" },
      maps.length > 1 ? select(say`Layer`, maps.map((one) => ({ key: one.name, label: one.title })), map.name, (name) => page.change({ map: name })) : null,
      map.heads > 1 ? select(say`Heads`, heads, String(head), (key) => page.change(key === "-1" ? { mix: undefined } : { mix: "head", head: Number(key) })) : null));
    element.append(make("section", { class: "card" }, errorRate(data, map, head), says,
      make("div", { class: "scroll centred" }, picture(data, map, head, { room: Math.max(240, element.clientWidth - 48), truth, chosen }))), nbest(data) || "");
  },
};
