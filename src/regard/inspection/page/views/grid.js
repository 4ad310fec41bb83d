// All layers x heads as thumbnails, and the selected map large with its tokens and the distribution of one row.

import { make, choice, formatNumber, roving, sharpCanvas, visible } from "../dom.js";
import { mapGroups, strongest } from "../data.js";
import { pixels } from "../color.js";
import { matrix, legend } from "../matrix.js";
import { tileMap, colorMaximum } from "../tiles.js";
import { distribution } from "../distribution.js";
import { ImageCanvas, highlightLegend } from "../image_canvas.js";
import { axisTitles, levelChoices, opener } from "../attention_levels.js";
import { clamp } from "../state.js";
import { t } from "../i18n.js";

// Colors by weight, by its root, which shows small weights, or by its share of the largest weight of the row.
const SCALES = [{ key: "linear", label: t`linear` }, { key: "root", label: t`root` }, { key: "row", label: t`per row` }];
const LEGENDS = { linear: t`weight`, root: t`weight, on a root scale`, row: t`share of the largest weight of the row` };

// The selected scale; maps of many keys have small weights and open with the root scale.
const MANY_KEYS = 24;
const THUMBNAIL_PIXELS = 84;
const ROW_IMAGE_PIXELS = 220; // of the image with the attention of one row
const scaleOf = (page, map) => (SCALES.some(({ key }) => key === page.state.scale) ? page.state.scale : map.columns > MANY_KEYS ? "root" : "linear");

function thumbnail(data, map, head, page) {
  const chosen = map === data.map(page.state.map) && head === clamp(page.state.head, map.heads);
  const holder = make("button", {
    type: "button", class: "thumb", "data-key": `thumb:${map.name}:${head}`, "aria-pressed": String(chosen),
    "aria-label": t`${map.title}, head ${head + 1}`, title: t`${map.title}, head ${head + 1}`,
    onclick: () => page.change({ map: map.name, head, heads: undefined, ...(map.queries === data.map(page.state.map).queries ? {} : { row: undefined, column: undefined }) }),
  });
  const image = map.long ? null : data.imageOf(map.keys);
  if (image) {
    // The image with the attention of the selected row, instead of one pixel per cell.
    const picture = new ImageCanvas(image, THUMBNAIL_PIXELS, { "aria-hidden": "true" });
    picture.highlight(data.items(map.keys), map.row(head, clamp(page.state.row, map.rows)));
    Object.assign(picture.canvas.style, { width: "", height: "" });
    holder.append(picture.canvas);
    return holder;
  }
  map.thumbnail(head).then(({ rows, columns, values }) => {
    const scale = map.long ? "root" : scaleOf(page, map);
    const options = { scale, hidden: !map.long && map.mask && ((i) => !map.allows(head, Math.floor(i / columns), i % columns)) };
    const drawn = map.long ? values : map.drawnWeights(head, scale);
    const top = map.long ? colorMaximum(values, columns) : scale === "row" ? 1 : map.colorTop(head);
    const pixelCanvas = pixels(drawn, rows, columns, top, options);
    const side = THUMBNAIL_PIXELS;
    const { canvas, context } = sharpCanvas(side, side, { "aria-hidden": "true" });
    canvas.style.width = canvas.style.height = "";
    context.imageSmoothingEnabled = Math.max(rows, columns) > side * 2;
    context.drawImage(pixelCanvas, 0, 0, side, side);
    holder.append(canvas);
  });
  return holder;
}

function table(data, { group, groupTitle }, page) {
  const maps = data.maps.filter((map) => map.group === group);
  const heads = Math.max(...maps.map((map) => map.heads));
  const top = Array.from({ length: heads }, (_, head) => make("span", { class: "thumb-head figure" }, heads > 1 ? t`head ${head + 1}` : t`one head`));
  const rows = maps.map((map) => [make("span", { class: "thumb-layer figure" }, t`layer ${map.layer + 1}`),
    Array.from({ length: heads }, (_, head) => (head < map.heads ? thumbnail(data, map, head, page) : make("span")))]);
  return roving(make("div", { class: "thumbs", style: { "--heads": heads }, role: "group", "aria-label": t`${groupTitle}: layers by heads` }, make("span"), top, rows), heads);
}

function readout(data, map, target) {
  const show = (row, column, value, level = 0) => {
    target.replaceChildren(make("span", { class: "word" }, visible(data.labels(map.queries)[row])), ` ${t`attends to`} `,
      make("span", { class: "word" }, visible(data.labels(map.keys)[column])), " ", make("span", { class: "figure strong" }, formatNumber(value)),
      make("span", { class: "quiet" }, level ? ` ${t`the largest of ${2 ** level} × ${2 ** level} cells`}` : ""));
  };
  return show;
}

// The image with the attention of one row, if the keys are cells of an image.
function rowImage(data, map, weights) {
  const image = map.long ? null : data.imageOf(map.keys);
  if (!image) return "";
  const picture = new ImageCanvas(image, ROW_IMAGE_PIXELS, { "aria-label": t`image with the model's attention highlighted` });
  picture.highlight(data.items(map.keys), weights);
  return make("div", { class: "row-image" }, picture.canvas, highlightLegend(weights));
}

function largeMap(data, map, head, { page, element }) {
  const line = make("p", { class: "readout", "aria-hidden": "true" }, make("span", { class: "quiet" }, t`Hover over a cell, or use the arrow keys.`));
  const showCell = readout(data, map, line);
  const rowPanel = make("div", { class: "row-panel" });
  let shownRow = -1;
  const showRow = async (row) => {
    if (row === shownRow) return;
    shownRow = row;
    const finest = map.finestLevel(head);
    if (finest > 0) return rowPanel.replaceChildren(make("p", { class: "quiet" }, t`This file contains only pooled rows of this map; the served page has every cell.`));
    const weights = await map.loadRow(head, row);
    if (row !== shownRow) return;
    const open = opener(data, map.queries, page)(row);
    rowPanel.replaceChildren(rowImage(data, map, weights), distribution({ isOff: map.isOff(head), labels: data.labels(map.keys), weights, title: data.labels(map.queries)[row], subtitle: t`attends to`, openerOf: opener(data, map.keys, page) }),
      open && map.queries !== map.keys ? make("button", { type: "button", class: "action plain", onclick: open }, t`Open the maps inside ${data.labels(map.queries)[row]}`) : "");
  };
  const shared = { title: t`${map.title}, head ${head + 1}`, ...axisTitles(data, map), rowLabels: data.labels(map.queries), columnLabels: data.labels(map.keys) };
  const point = (row, column, value, level) => {
    showCell(row, column, value, level);
    showRow(row);
  };
  const panel = make("div", { class: "large-side" }, rowPanel);
  const startRow = clamp(page.state.row, map.rows);
  const room = Math.max(240, element.clientWidth - 48 - (element.clientWidth > 860 ? 328 : 0));
  let body;
  if (map.long) {
    const side = Math.min(room - 46, 760);
    const cursor = page.state.row >= 0 ? [startRow, clamp(page.state.column, map.columns)] : null;
    const scale = make("div", {});
    const onPainted = (top) => scale.replaceChildren(legend(top, { scale: "root", label: t`weight and above, on a root scale` }));
    body = make("div", {}, tileMap({ ...shared, map, head, point, cursor, onPainted }, side, Math.min(side, Math.max(320, window.innerHeight - 180))), scale);
    line.firstChild.textContent = t`Wheel or + and − zoom, dragging or arrow keys move.`;
  } else {
    const scale = scaleOf(page, map);
    const top = scale === "row" ? 1 : map.colorTop(head);
    const cursor = [startRow, page.state.column >= 0 ? clamp(page.state.column, map.columns) : strongest(map.row(head, startRow))];
    body = make("div", {}, matrix({ ...shared, rows: map.rows, columns: map.columns, values: map.weights(head), drawn: map.drawnWeights(head, scale), scale, top, cursor, point, rowItems: data.items(map.queries), columnItems: data.items(map.keys),
      allows: (row, column) => map.allows(head, row, column), pick: (row, column) => page.change({ row, column }) }, room), map.isOff(head) ? make("p", { class: "warm" }, t`this head is switched off`) : legend(top, { scale, label: LEGENDS[scale], masked: Boolean(map.mask) }));
    if (page.state.row >= 0) showCell(cursor[0], cursor[1], map.value(head, ...cursor));
  }
  showRow(startRow);
  return make("section", { class: "card large", "aria-label": shared.title },
    make("header", { class: "card-head" }, make("h2", {}, map.title, make("span", { class: "quiet" }, map.heads > 1 ? ` ${t`head ${head + 1}`}` : "")), line),
    make("div", { class: "large-body" }, body, panel));
}

// Scroll the strip of thumbnails until the selected one is in sight.
function showSelectedThumbnail(strip) {
  const selected = strip?.querySelector('.thumb[aria-pressed="true"]');
  if (!selected) return;
  const [area, box] = [strip.getBoundingClientRect(), selected.getBoundingClientRect()];
  if (box.top < area.top) strip.scrollTop += box.top - area.top - 8;
  else if (box.bottom > area.bottom) strip.scrollTop += box.bottom - area.bottom + 8;
}

export const view = {
  name: "grid",
  title: t`All heads`,
  suits: (data) => data.maps.length > 0,
  sidePanel: true,
  show(data, element, page) {
    const map = data.map(page.state.map);
    page.selection = { map, head: clamp(page.state.head, map.heads) };
    const groups = mapGroups(data.mapsInside(map.parent));
    const first = (group) => data.maps.find((candidate) => candidate.group === group).name;
    const choices = levelChoices(data, map, page);
    const scales = map.long ? null : choice(t`Scale`, SCALES, scaleOf(page, map), (scale) => page.change({ scale }));
    const kinds = groups.length > 1 ? choice(t`Kind`, groups, map.group, (group) => page.change({ map: first(group), row: undefined, column: undefined })) : null;
    element.append(make("div", { class: "controls" }, choices, scales, kinds));
    const isSingle = map.heads === 1 && data.maps.filter((candidate) => candidate.group === map.group).length === 1;
    const scaleHint = map.long ? t`Each thumbnail has its own root scale; its darkest color is the weight exceeded by one cell in a hundred.` : map.mask ? t`Each thumbnail has its own scale, from 0 to its largest weight; masked cells are grey.` : t`Each thumbnail has its own scale, from 0 to its largest weight.`;
    const imageHint = !map.long && data.imageOf(map.keys) ? t`Each thumbnail is the image with the attention of the selected row.` : scaleHint;
    if (!isSingle) element.append(make("div", {}, make("div", { class: "thumb-strip", "data-scroll": "thumbs" }, table(data, map, page)), make("p", { class: "quiet scales" }, imageHint)));
    element.append(largeMap(data, map, clamp(page.state.head, map.heads), { page, element }));
    if (map.long) element.append(make("p", { class: "quiet" }, t`This map has more than ${map.tileSize} rows or columns. Lines, Alignment and Step by step show only shorter maps; enter a shorter input for them.`));
    requestAnimationFrame(() => showSelectedThumbnail(element.querySelector(".thumb-strip")));
  },
};
