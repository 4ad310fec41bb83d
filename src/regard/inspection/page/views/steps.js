// One query step by step with the actual numbers: scores, mask, softmax, weighted sum of the values.

import { make, formatNumber, select, sharpCanvas, visible } from "../dom.js";
import { mapChoices } from "../attention_levels.js";
import { decodeFloats } from "../data.js";
import { textColorOn, pixels, shade } from "../color.js";
import { clamp } from "../state.js";
import { translateTerm, t } from "../i18n.js";

// A vector as a strip of signed colors, followed by its first numbers.
function strip(vector, top, label) {
  const { canvas, context } = sharpCanvas(Math.min(128, Math.max(64, vector.length * 6)), 16, { class: "strip", role: "img", "aria-label": t`${label}: ${vector.length} numbers` });
  context.imageSmoothingEnabled = false;
  context.drawImage(pixels(vector, 1, vector.length, top, { scale: "signed" }), 0, 0, parseFloat(canvas.style.width), 16);
  const first = Array.from(vector.slice(0, 3), (value) => formatNumber(value, 2)).join(" ");
  return make("span", { class: "vector", title: Array.from(vector, (value) => formatNumber(value, 3)).join("  ") }, canvas,
    make("span", { class: "figure quiet" }, `${first}${vector.length > 3 ? " …" : ""}`));
}

const rowOf = ({ shape, values }, row) => values.subarray(row * shape.at(-1), (row + 1) * shape.at(-1));
const largest = (values) => values.reduce((top, value) => Math.max(top, Math.abs(value)), 1e-9);

// Numbers of one head and query, computed here from the scores, so that the page shows the sum it states.
function computeRow(step, map, row) {
  const stages = step.stages.map((stage) => ({ name: stage.name, values: rowOf(stage.values, row) }));
  const allowed = Array.from({ length: map.columns }, (_, column) => map.allows(step.head, row, column));
  const scores = stages.at(-1).values;
  const masked = Array.from(scores, (score, i) => (allowed[i] ? score : -Infinity));
  const top = Math.max(...masked);
  const exponentials = masked.map((score) => (Number.isFinite(top) ? Math.exp(score - top) : 0));
  const sum = exponentials.reduce((total, exponential) => total + exponential, 0);
  const weights = step.normalizer === "softmax" ? exponentials.map((exponential) => (sum ? exponential / sum : 0)) : Array.from(map.row(step.head, row));
  return { stages, allowed, masked, weights };
}

function table(data, map, step, row) {
  const { stages, allowed, masked, weights } = computeRow(step, map, row);
  const [keys, values] = [step.keys, step.values];
  const [keyTop, valueTop] = [largest(keys.values), largest(values.values)];
  const top = Math.max(...weights);
  const cell = (value, digits = 3) => make("td", { class: "figure" }, formatNumber(value, digits));
  const body = data.labels(map.keys).map((label, i) => make("tr", { class: allowed[i] ? "" : "hidden-key" },
    make("th", { scope: "row" }, visible(label)), make("td", {}, strip(rowOf(keys, i), keyTop, t`key of ${label}`)),
    stages.map((stage) => cell(stage.values[i])), cell(masked[i]),
    make("td", { class: "figure weight", style: { background: shade(weights[i] / (top || 1)), color: textColorOn(weights[i] / (top || 1)) } }, formatNumber(weights[i])),
    make("td", {}, strip(rowOf(values, i), valueTop, t`value of ${label}`))));
  const heads = [t`key`, translateTerm(step.key), ...stages.map((stage) => translateTerm(stage.name)), t`+ mask`, step.normalizer, "v"];
  const valueSize = values.shape.at(-1);
  const output = Float32Array.from({ length: valueSize }, (_, d) => weights.reduce((total, weight, i) => total + weight * values.values[i * valueSize + d], 0));
  const foot = make("tr", {}, make("th", { scope: "row" }, t`sum`), make("td"), stages.map(() => make("td")), make("td"),
    make("td", { class: "figure" }, formatNumber(weights.reduce((total, weight) => total + weight, 0))), make("td", {}, strip(output, valueTop, t`weighted sum of the values`)));
  return make("table", { class: "steps" }, make("caption", { class: "visually-hidden" }, t`All steps for one query`),
    make("thead", {}, make("tr", {}, heads.map((name) => make("th", { scope: "col" }, name)))), make("tbody", {}, body), make("tfoot", {}, foot));
}

// Numbers of a head: from the page, or fetched once from the server. They are unpacked when they are first shown.
async function loadStep(step, page) {
  if (step.unpacked) return step.unpacked;
  if (!step.queries && !page.server) throw new Error(t`The input is long, so the numbers of this head are not in the file; use regard look RUN "…" to serve a page with the numbers of all heads.`);
  const packed = step.queries ? step : await page.server.step(step.map, step.head);
  const [queries, keys, values] = await Promise.all([packed.queries, packed.keys, packed.values].map(decodeFloats));
  const stages = await Promise.all(packed.stages.map(async (stage) => ({ name: stage.name, values: await decodeFloats(stage.values) })));
  step.unpacked = { ...packed, queries, keys, values, stages };
  return step.unpacked;
}

function stepContents(data, map, step, row) {
  const { queries } = step;
  const order = [t`Take the query`, t`compute a score for each key`, t`set masked scores to −∞`, t`normalize the scores to a distribution with ${step.normalizer}`, t`compute the weighted sum of the values`];
  return [
    make("p", { class: "formula" }, step.formula),
    make("ol", { class: "order" }, order.map((text) => make("li", {}, text))),
    make("p", { class: "query" }, make("span", { class: "word" }, visible(data.labels(map.queries)[row])), make("span", { class: "quiet" }, " q = "), strip(rowOf(queries, row), largest(queries.values), t`query`)),
    make("div", { class: "scroll" }, table(data, map, step, row)),
    make("p", { class: "quiet" }, t`Orange is positive, blue is negative. Hover over a strip to see all its numbers.`),
  ];
}

export const view = {
  name: "steps",
  title: t`Step by step`,
  suits: (data) => (data.steps || []).length > 0,
  sidePanel: true,
  show(data, element, page) {
    const mapName = data.map(page.state.map).name;
    const step = data.steps.find((candidate) => candidate.map === mapName && candidate.head === page.state.head)
      || data.steps.find((candidate) => candidate.map === mapName) || data.steps[0];
    const map = data.map(step.map);
    const row = clamp(page.state.row, map.rows);
    page.selection = { map, head: step.head };
    const heads = data.steps.filter((candidate) => candidate.map === step.map);
    element.append(make("div", { class: "controls" },
      mapChoices(data, map, page, (candidate) => data.steps.some((entry) => entry.map === candidate.name)),
      heads.length > 1 ? select(t`Head`, heads.map((entry) => ({ key: String(entry.head), label: t`head ${entry.head + 1}` })), String(step.head), (key) => page.change({ map: step.map, head: Number(key) })) : null,
      select(t`Query`, data.labels(map.queries).map((label, i) => ({ key: String(i), label: `${i + 1}  ${visible(label)}` })), String(row), (key) => page.change({ map: step.map, row: Number(key) }))));
    const card = make("section", { class: "card" });
    element.append(card);
    loadStep(step, page).then((loaded) => card.append(...stepContents(data, map, loaded, row)))
      .catch((error) => card.append(make("p", { class: "wrong", role: "alert" }, error.message)));
  },
};
