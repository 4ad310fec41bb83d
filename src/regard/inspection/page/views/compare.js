// The same input with several runs: one table, the maps side by side on one color scale, and their difference.
// A model without attention shows a message instead.

import { make, formatNumber, percent, visible } from "../dom.js";
import { maximum } from "../data.js";
import { legend, matrix } from "../matrix.js";
import { axisTitles } from "../attention_levels.js";
import { servedAddress, EMPTY } from "../header.js";
import { figuresOf } from "../side_panel.js";
import { translateTerm, t } from "../i18n.js";

const nameOf = (run) => run.facts?.run || run.model;
const shownMap = (run) => (run.map() && !run.map().long ? run.map() : null);

// Columns of the table: those of the file, or of the runs that the page has fetched.
function tableOf(page) {
  if (page.raw.columns) return { columns: page.raw.columns, rows: page.raw.table };
  const rows = page.runs.map((run) => [nameOf(run), run.model, run.facts?.parameters, run.outputs?.[0]?.text, run.outputs?.[0]?.score, run.facts?.seconds]);
  return { columns: ["run", "model", "parameters", "output", "log p", "seconds"], rows };
}

// The log probability of an output is shown as its probability.
function table(page) {
  const { columns, rows } = tableOf(page);
  const isProbability = columns.map((name) => name === "log p");
  const isWhole = columns.map((_, i) => rows.every((row) => typeof row[i] !== "number" || Number.isInteger(row[i])));
  const text = (value, i) => (typeof value !== "number" ? value ?? "–" : isProbability[i] ? percent(value) : isWhole[i] ? value.toLocaleString("en") : formatNumber(value, 3));
  const isNumber = columns.map((_, i) => rows.some((row) => typeof row[i] === "number"));
  return make("div", { class: "scroll" }, make("table", { class: "compare-table" },
    make("thead", {}, make("tr", {}, columns.map((name, i) => make("th", { scope: "col", class: isNumber[i] ? "numeric" : "" }, isProbability[i] ? t`probability` : translateTerm(name))))),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map((value, i) => make("td", { class: isNumber[i] ? "figure" : "", title: isProbability[i] && typeof value === "number" ? `log p ${formatNumber(value, 4)}` : null }, text(value, i))))))));
}

const labelsOf = (run, map) => ({ rowLabels: run.labels(map.queries), columnLabels: run.labels(map.keys), rowItems: run.items(map.queries), columnItems: run.items(map.keys) });

// One map, mean of all heads, at most as wide as its card. `top` is the value of the darkest color of all maps.
function mapPreview(run, { room, top, point }) {
  const map = run.map();
  if (!map) return { element: make("p", { class: "no-map" }, t`No attention map: this model has no attention.`) };
  if (map.long) return { element: make("p", { class: "no-map" }, t`This map is too long to show here; inspect this run.`) };
  const frame = matrix({ ...axisTitles(run, map), ...labelsOf(run, map), allows: map.mask ? (row, column) => map.allows(-1, row, column) : undefined, title: t`${map.title} of ${nameOf(run)}, mean of all heads`,
    rows: map.rows, columns: map.columns, values: map.weights(-1), top, minCell: 0.5, maxCell: 34, point }, room);
  return { frame, element: make("div", {}, frame, legend(top, { masked: Boolean(map.mask) })) };
}

// The cell of another run with the same labels as the cell of this run: the one at the same index, or the first.
function linkedCell(run, otherRun, [row, column]) {
  const [map, otherMap] = [shownMap(run), shownMap(otherRun)];
  const find = (labels, others, i) => (others[i] === labels[i] ? i : others.indexOf(labels[i]));
  return [find(run.labels(map.queries), otherRun.labels(otherMap.queries), row), find(run.labels(map.keys), otherRun.labels(otherMap.keys), column)];
}

function card(run, i, { page, room, top, point }) {
  const map = run.map();
  const preview = mapPreview(run, { room, top, point });
  const open = () => (page.server ? location.assign(servedAddress(page, nameOf(run))) : page.change({ run: i, view: "grid", map: undefined, head: undefined, row: undefined }));
  const readout = make("p", { class: "readout compare-readout" }, preview.frame ? make("span", { class: "quiet" }, t`Hover over a cell, or use the arrow keys.`) : "");
  const element = make("section", { class: "card compared", "data-run": i }, make("h2", {}, nameOf(run)),
    make("p", { class: "spoken-text" }, run.outputs?.length ? run.outputs[0].text || EMPTY : ""), map ? make("p", { class: "quiet" }, map.heads > 1 ? t`${map.title}, mean of ${map.heads} heads` : t`${map.title}, mean of 1 head`) : null,
    readout, preview.element, figureLine(map),
    run.maps.length ? make("button", { type: "button", class: "action plain", onclick: open }, t`Inspect this run`) : null);
  return { run, readout, frame: preview.frame, element };
}

// The two faithfulness metrics of the mean of the heads in one line.
function figureLine(map) {
  const { agreement, removal } = figuresOf(map, -1);
  const parts = [Number.isFinite(agreement) ? t`agreement with gradient × input ${formatNumber(agreement, 2)}` : null,
    Number.isFinite(removal) ? t`${Math.round(100 * removal)}% change without the most attended item` : null].filter(Boolean);
  return parts.length ? make("p", { class: "quiet compare-figures" }, parts.join(" · ")) : null;
}

// Point at a cell of one run: the same cell is highlighted in all runs, with its weight.
function linkCards(cards, from, cell) {
  for (const { run, readout, frame } of cards) {
    if (!frame) continue;
    const map = shownMap(run);
    const [row, column] = run === from ? cell : linkedCell(from, run, cell);
    if (run !== from) frame.highlight(row, column);
    readout.replaceChildren(...(row < 0 || column < 0 ? [make("span", { class: "quiet" }, t`not in this run`)]
      : [make("span", { class: "word" }, visible(run.labels(map.queries)[row])), ` ${t`attends to`} `, make("span", { class: "word" }, visible(run.labels(map.keys)[column])), " ", make("span", { class: "figure strong" }, formatNumber(map.value(-1, row, column)))]));
  }
}

const sameLabels = (run, otherRun) => ["queries", "keys"].every((side) => run.labels(shownMap(run)[side]).join("\n") === otherRun.labels(shownMap(otherRun)[side]).join("\n"));

// Weights of a run minus those of the first run with a map, if both have the same rows and columns.
function differenceCard(first, run, room) {
  const [map, otherMap] = [shownMap(first), shownMap(run)];
  const values = otherMap.weights(-1).map((weight, i) => weight - map.weights(-1)[i]);
  const top = Math.max(1e-9, maximum(values.map(Math.abs)));
  const title = t`${nameOf(run)} minus ${nameOf(first)}`;
  const readout = make("p", { class: "readout" }, make("span", { class: "quiet" }, t`Orange: more weight, blue: less weight.`));
  const labels = labelsOf(run, otherMap);
  const point = (row, column, value) => readout.replaceChildren(make("span", { class: "word" }, visible(labels.rowLabels[row])), " → ", make("span", { class: "word" }, visible(labels.columnLabels[column])), " ",
    make("span", { class: "figure strong" }, `${value > 0 ? "+" : ""}${formatNumber(value)}`));
  return make("section", { class: "card difference", "aria-label": title }, make("h2", {}, title), readout,
    matrix({ ...axisTitles(run, otherMap), ...labels, title, rows: map.rows, columns: map.columns, values, top, scale: "signed", minCell: 0.5, maxCell: 34, point }, room), legend(top, { scale: "signed", label: t`difference of weights` }));
}

export const view = {
  name: "compare",
  title: t`Side by side`,
  suits: (data, page) => page.runs.length > 1,
  show(data, element, page) {
    const { runs } = page;
    const cardColumns = Math.max(1, Math.min(runs.length, Math.floor((element.clientWidth + 20) / 400))); // as laid out by style.css
    const room = Math.max(240, (element.clientWidth - 20 * (cardColumns - 1)) / cardColumns - 48);
    const withMaps = runs.filter(shownMap);
    const top = Math.max(0, ...withMaps.map((run) => shownMap(run).colorTop(-1))); // one scale for all runs
    const cards = runs.map((run, i) => card(run, i, { page, room, top, point: (row, column) => linkCards(cards, run, [row, column]) }));
    const [first, ...others] = withMaps;
    const differences = others.filter((run) => sameLabels(first, run)).map((run) => differenceCard(first, run, room));
    element.append(make("section", { class: "card" }, table(page)), make("div", { class: "side-by-side" }, cards.map((entry) => entry.element), differences));
    if (others.length > differences.length) element.append(make("p", { class: "quiet" }, t`A difference is shown for runs whose maps have the same rows and columns.`));
  },
};
