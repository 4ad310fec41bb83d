// All layers x heads as thumbnails, and the chosen map large with its tokens and the distribution of one row.

import { make, choice, number, roving, sharpCanvas, visible } from "../dom.js";
import { groups, maximum, strongest } from "../data.js";
import { pixels } from "../color.js";
import { matrix, legend } from "../matrix.js";
import { tileMap, topOf } from "../tiles.js";
import { distribution } from "../distribution.js";
import { axisTitles, levels, opener } from "../attention_levels.js";
import { clamp } from "../state.js";
import { say } from "../i18n.js";

function thumbnail(data, map, head, page) {
  const chosen = map === data.map(page.state.map) && head === clamp(page.state.head, map.heads);
  const holder = make("button", {
    type: "button", class: "thumb", "data-key": `thumb:${map.name}:${head}`, "aria-pressed": String(chosen),
    "aria-label": say`${map.title}, head ${head + 1}`, title: say`${map.title}, head ${head + 1}`,
    onclick: () => page.change({ map: map.name, head, heads: undefined, row: undefined, column: undefined }),
  });
  map.thumbnail(head).then(({ rows, columns, values }) => {
    const look = map.long ? { scale: "root" } : { hidden: map.mask && ((i) => !map.allows(head, Math.floor(i / columns), i % columns)) };
    const small = pixels(values, rows, columns, map.long ? topOf(values, columns) : maximum(values), look);
    const side = 84;
    const { canvas, context } = sharpCanvas(side, side, { "aria-hidden": "true" });
    canvas.style.width = canvas.style.height = "";
    context.imageSmoothingEnabled = Math.max(rows, columns) > side * 2;
    context.drawImage(small, 0, 0, side, side);
    holder.append(canvas);
  });
  return holder;
}

function table(data, { group, kind }, page) {
  const maps = data.maps.filter((map) => map.group === group);
  const heads = Math.max(...maps.map((map) => map.heads));
  const top = Array.from({ length: heads }, (_, head) => make("span", { class: "thumb-head figure" }, heads > 1 ? say`head ${head + 1}` : say`one head`));
  const rows = maps.map((map) => [make("span", { class: "thumb-layer figure" }, say`layer ${map.layer + 1}`),
    Array.from({ length: heads }, (_, head) => (head < map.heads ? thumbnail(data, map, head, page) : make("span")))]);
  return roving(make("div", { class: "thumbs", style: { "--heads": heads }, role: "group", "aria-label": say`${kind}: layers by heads` }, make("span"), top, rows), heads);
}

function readout(data, map, where) {
  const tell = (row, column, value, level = 0) => {
    where.replaceChildren(make("span", { class: "word" }, visible(data.labels(map.queries)[row])), ` ${say`looks at`} `,
      make("span", { class: "word" }, visible(data.labels(map.keys)[column])), " ", make("span", { class: "figure strong" }, number(value)),
      make("span", { class: "quiet" }, level ? ` ${say`the largest of ${2 ** level} × ${2 ** level} cells`}` : ""));
  };
  return tell;
}

function large(data, map, head, { page, element }) {
  const line = make("p", { class: "readout", "aria-hidden": "true" }, make("span", { class: "quiet" }, say`Point at a cell, or use the arrow keys.`));
  const tell = readout(data, map, line);
  const rows = make("div", { class: "row-panel" });
  let shown = -1;
  const showRow = async (row) => {
    if (row === shown) return;
    shown = row;
    const finest = map.finest(head);
    if (finest > 0) return rows.replaceChildren(make("p", { class: "quiet" }, say`Rows of this map are kept pooled in this file; the served page has every cell.`));
    const weights = await map.rowLater(head, row);
    if (row !== shown) return;
    const open = opener(data, map.queries, page)(row);
    rows.replaceChildren(distribution({ labels: data.labels(map.keys), weights, title: data.labels(map.queries)[row], subtitle: say`looks at`, opens: opener(data, map.keys, page) }),
      open && map.queries !== map.keys ? make("button", { type: "button", class: "action plain", onclick: open }, say`Look inside ${data.labels(map.queries)[row]}`) : "");
  };
  const common = { title: say`${map.title}, head ${head + 1}`, ...axisTitles(data, map), rowLabels: data.labels(map.queries), columnLabels: data.labels(map.keys) };
  const point = (row, column, value, level) => {
    tell(row, column, value, level);
    showRow(row);
  };
  const panel = make("div", { class: "large-side" }, rows);
  const start = clamp(page.state.row, map.rows);
  const room = Math.max(240, element.clientWidth - 48 - (element.clientWidth > 860 ? 328 : 0));
  let body;
  if (map.long) {
    const side = Math.min(room - 46, 760);
    const cursor = page.state.row >= 0 ? [start, clamp(page.state.column, map.columns)] : null;
    const scale = make("div", {});
    const painted = (top) => scale.replaceChildren(legend(top, { scale: "root", label: say`weight and more, on a root scale` }));
    body = make("div", {}, tileMap({ ...common, map, head, point, cursor, painted }, side, Math.min(side, Math.max(320, window.innerHeight - 180))), scale);
    line.firstChild.textContent = say`Wheel or + and − zoom, dragging or arrow keys move.`;
  } else {
    const values = map.numbers(head);
    const top = maximum(values);
    const cursor = [start, page.state.column >= 0 ? clamp(page.state.column, map.columns) : strongest(map.row(head, start))];
    body = make("div", {}, matrix({ ...common, rows: map.rows, columns: map.columns, values, top, cursor, point, rowItems: data.items(map.queries), columnItems: data.items(map.keys),
      allows: (row, column) => map.allows(head, row, column), pick: (row, column) => page.change({ row, column }) }, room), legend(top, { masked: Boolean(map.mask) }));
    if (page.state.row >= 0) tell(cursor[0], cursor[1], map.value(head, ...cursor));
  }
  showRow(start);
  return make("section", { class: "card large", "aria-label": common.title },
    make("header", { class: "card-head" }, make("h2", {}, map.title, make("span", { class: "quiet" }, map.heads > 1 ? ` ${say`head ${head + 1}`}` : "")), line),
    make("div", { class: "large-body" }, body, panel));
}

export const view = {
  name: "grid",
  title: say`All heads`,
  suits: (data) => data.maps.length > 0,
  beside: true,
  show(data, element, page) {
    const map = data.map(page.state.map);
    page.looked = { map, head: clamp(page.state.head, map.heads) };
    const kinds = groups(data.inside(map.parent));
    const first = (group) => data.maps.find((one) => one.group === group).name;
    const above = levels(data, map, page);
    if (above.length) element.append(make("div", { class: "controls" }, above));
    if (kinds.length > 1) element.append(choice(say`Kind`, kinds, map.group, (group) => page.change({ map: first(group), row: undefined, column: undefined })));
    const alone = map.heads === 1 && data.maps.filter((one) => one.group === map.group).length === 1;
    const own = map.long ? say`Each thumbnail has its own root scale, whose darkest colour is the weight that one cell in a hundred exceeds.` : map.mask ? say`Each thumbnail has its own scale, from 0 to its largest weight; grey may not be looked at.` : say`Each thumbnail has its own scale, from 0 to its largest weight.`;
    if (!alone) element.append(make("div", { class: "scroll" }, table(data, map, page), make("p", { class: "quiet scales" }, own)));
    element.append(large(data, map, clamp(page.state.head, map.heads), { page, element }));
  },
};
