// The same input with several runs: one table, and the maps side by side. A model without attention shows a message instead.

import { make, formatNumber } from "../dom.js";
import { maximum } from "../data.js";
import { legend, matrix } from "../matrix.js";
import { axisTitles } from "../attention_levels.js";
import { EMPTY } from "../header.js";
import { translateTerm, t } from "../i18n.js";

function table(page) {
  const columns = page.raw.columns;
  const cell = (value) => make("td", { class: typeof value === "number" ? "figure" : "" }, typeof value === "number" ? (Number.isInteger(value) ? value.toLocaleString("en") : formatNumber(value, 3)) : value ?? "–");
  return make("div", { class: "scroll" }, make("table", { class: "compare-table" },
    make("thead", {}, make("tr", {}, columns.map((name) => make("th", { scope: "col" }, translateTerm(name))))),
    make("tbody", {}, page.raw.table.map((row) => make("tr", {}, row.map(cell))))));
}

// One map, mean of all heads, at most as wide as its card.
function mapPreview(run, map, room) {
  if (!map) return make("p", { class: "no-map" }, t`No attention map: this model has no attention.`);
  if (map.long) return make("p", { class: "no-map" }, t`This map is too long to show here; inspect this run.`);
  const values = map.weights(-1);
  const top = maximum(values);
  return make("div", {}, matrix({ ...axisTitles(run, map), allows: map.mask ? (row, column) => map.allows(-1, row, column) : undefined, title: t`${map.title} of ${run.facts?.run || run.model}, mean of all heads`, rows: map.rows, columns: map.columns, values, top,
    rowLabels: run.labels(map.queries), columnLabels: run.labels(map.keys), rowItems: run.items(map.queries), columnItems: run.items(map.keys), minCell: 0.5, maxCell: 34 }, room), legend(top, { masked: Boolean(map.mask) }));
}

function card(run, i, page) {
  const map = run.map();
  const viewWidth = document.getElementById("view").clientWidth;
  const cardColumns = Math.max(1, Math.min(page.runs.length, Math.floor((viewWidth + 20) / 400))); // as laid out by style.css
  const room = Math.max(240, (viewWidth - 20 * (cardColumns - 1)) / cardColumns - 48);
  return make("section", { class: "card compared", "data-run": i }, make("h2", {}, run.facts?.run || run.model),
    make("p", { class: "spoken-text" }, run.outputs?.length ? run.outputs[0].text || EMPTY : ""), map ? make("p", { class: "quiet" }, map.heads > 1 ? t`${map.title}, mean of ${map.heads} heads` : t`${map.title}, mean of 1 head`) : null, mapPreview(run, map, room),
    run.maps.length ? make("button", { type: "button", class: "action plain", onclick: () => page.change({ run: i, view: "grid", map: undefined, head: undefined, row: undefined }) }, t`Inspect this run`) : null);
}

export const view = {
  name: "compare",
  title: t`Side by side`,
  suits: (data, page) => page.runs.length > 1,
  show(data, element, page) {
    element.append(make("section", { class: "card" }, table(page)));
    element.append(make("div", { class: "side-by-side" }, page.runs.map((run, i) => card(run, i, page))));
  },
};
