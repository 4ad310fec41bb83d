// One query, step by step, with the actual numbers: scores, mask, softmax, weighted sum of the values.

import { make, number, select, sharpCanvas, visible } from "../dom.js";
import { mapChoice } from "../attention_levels.js";
import { floats } from "../data.js";
import { inkOn, pixels, shade } from "../color.js";
import { clamp } from "../state.js";
import { named, say } from "../i18n.js";

// A vector as a strip of signed colours, its first numbers beside it.
function strip(vector, top, label) {
  const { canvas, context } = sharpCanvas(Math.min(128, Math.max(64, vector.length * 6)), 16, { class: "strip", role: "img", "aria-label": say`${label}: ${vector.length} numbers` });
  context.imageSmoothingEnabled = false;
  context.drawImage(pixels(vector, 1, vector.length, top, { scale: "signed" }), 0, 0, parseFloat(canvas.style.width), 16);
  const first = Array.from(vector.slice(0, 3), (value) => number(value, 2)).join(" ");
  return make("span", { class: "vector", title: Array.from(vector, (value) => number(value, 3)).join("  ") }, canvas,
    make("span", { class: "figure quiet" }, `${first}${vector.length > 3 ? " …" : ""}`));
}

const part = ({ shape, values }, row) => values.subarray(row * shape.at(-1), (row + 1) * shape.at(-1));
const largest = (values) => values.reduce((top, value) => Math.max(top, Math.abs(value)), 1e-9);

// The numbers of one head and query, worked out here from the scores so that the page shows the sum it states.
function work(step, map, row) {
  const stages = step.stages.map((stage) => ({ name: stage.name, values: part(floats(stage.values), row) }));
  const allowed = Array.from({ length: map.columns }, (_, column) => map.allows(step.head, row, column));
  const scores = stages.at(-1).values;
  const masked = Array.from(scores, (score, i) => (allowed[i] ? score : -Infinity));
  const top = Math.max(...masked);
  const powers = masked.map((score) => (Number.isFinite(top) ? Math.exp(score - top) : 0));
  const sum = powers.reduce((total, power) => total + power, 0);
  const weights = step.normalizer === "softmax" ? powers.map((power) => (sum ? power / sum : 0)) : Array.from(map.row(step.head, row));
  return { stages, allowed, masked, weights };
}

function table(data, map, step, row) {
  const { stages, allowed, masked, weights } = work(step, map, row);
  const [keys, values] = [floats(step.keys), floats(step.values)];
  const [keyTop, valueTop] = [largest(keys.values), largest(values.values)];
  const top = Math.max(...weights);
  const cell = (value, digits = 3) => make("td", { class: "figure" }, number(value, digits));
  const body = data.labels(map.keys).map((label, i) => make("tr", { class: allowed[i] ? "" : "hidden-key" },
    make("th", { scope: "row" }, visible(label)), make("td", {}, strip(part(keys, i), keyTop, say`key of ${label}`)),
    stages.map((stage) => cell(stage.values[i])), cell(masked[i]),
    make("td", { class: "figure weight", style: { background: shade(weights[i] / (top || 1)), color: inkOn(weights[i] / (top || 1)) } }, number(weights[i])),
    make("td", {}, strip(part(values, i), valueTop, say`value of ${label}`))));
  const heads = [say`key`, named(step.key), ...stages.map((stage) => named(stage.name)), say`+ mask`, step.normalizer, "v"];
  const mixed = values.shape.at(-1);
  const out = Float32Array.from({ length: mixed }, (_, d) => weights.reduce((total, weight, i) => total + weight * values.values[i * mixed + d], 0));
  const foot = make("tr", {}, make("th", { scope: "row" }, say`sum`), make("td"), stages.map(() => make("td")), make("td"),
    make("td", { class: "figure" }, number(weights.reduce((total, weight) => total + weight, 0))), make("td", {}, strip(out, valueTop, say`weighted sum of the values`)));
  return make("table", { class: "steps" }, make("caption", { class: "unseen" }, say`Every step for one query`),
    make("thead", {}, make("tr", {}, heads.map((name) => make("th", { scope: "col" }, name)))), make("tbody", {}, body), make("tfoot", {}, foot));
}

// The numbers of a head: in the page, or fetched once from the server behind it.
async function numbers(step, page) {
  if (step.queries) return step;
  if (!page.server) throw new Error(say`This input is so long that the numbers of this head are not in the file; regard look RUN "…" serves a page that has those of every head.`);
  return Object.assign(step, await page.server.step(step.map, step.head));
}

function worked(data, map, step, row) {
  const queries = floats(step.queries);
  const order = [say`The query asks`, say`each key answers with a score`, say`what may not be seen is set to −∞`, say`${step.normalizer} makes the scores a distribution`, say`the values are mixed by it`];
  return [
    make("p", { class: "formula" }, step.formula),
    make("ol", { class: "order" }, order.map((text) => make("li", {}, text))),
    make("p", { class: "query" }, make("span", { class: "word" }, visible(data.labels(map.queries)[row])), make("span", { class: "quiet" }, " q = "), strip(part(queries, row), largest(queries.values), say`query`)),
    make("div", { class: "scroll" }, table(data, map, step, row)),
    make("p", { class: "quiet" }, say`Orange is positive, blue negative. Point at a strip for all its numbers.`),
  ];
}

export const view = {
  name: "steps",
  title: say`Step by step`,
  suits: (data) => (data.steps || []).length > 0,
  beside: true,
  show(data, element, page) {
    const wanted = data.map(page.state.map).name;
    const step = data.steps.find((one) => one.map === wanted && one.head === page.state.head)
      || data.steps.find((one) => one.map === wanted) || data.steps[0];
    const map = data.map(step.map);
    const row = clamp(page.state.row, map.rows);
    page.looked = { map, head: step.head };
    const heads = data.steps.filter((one) => one.map === step.map);
    element.append(make("div", { class: "controls" },
      mapChoice(data, map, page, (one) => data.steps.some((other) => other.map === one.name)),
      heads.length > 1 ? select(say`Head`, heads.map((one) => ({ key: String(one.head), label: say`head ${one.head + 1}` })), String(step.head), (key) => page.change({ map: step.map, head: Number(key) })) : null,
      select(say`Query`, data.labels(map.queries).map((label, i) => ({ key: String(i), label: `${i + 1}  ${visible(label)}` })), String(row), (key) => page.change({ map: step.map, row: Number(key) }))));
    const card = make("section", { class: "card" });
    element.append(card);
    numbers(step, page).then((whole) => card.append(...worked(data, map, whole, row)))
      .catch((wrong) => card.append(make("p", { class: "wrong", role: "alert" }, wrong.message)));
  },
};
