// Lines between tokens for the selected heads; thickness is the weight. A hovered or focused token shows its distribution as numbers.

import { draw, fitLabel, make } from "../dom.js";
import { headColor } from "../color.js";
import { distribution } from "../distribution.js";
import { ImageCanvas } from "../image_canvas.js";
import { mapChoices } from "../attention_levels.js";
import { clamp } from "../state.js";
import { t } from "../i18n.js";

const LINE_HEIGHT = 30;
const MIN_WEIGHT = 0.03;

function headChips(map, chosen, page) {
  const toggle = (head) => {
    const next = chosen.includes(head) ? chosen.filter((index) => index !== head) : [...chosen, head].sort((a, b) => a - b);
    page.change({ heads: next.length ? next : [head] });
  };
  const chips = Array.from({ length: map.heads }, (_, head) => make("button", {
    type: "button", class: "chip", "aria-pressed": String(chosen.includes(head)), "data-key": `chip:${head}`,
    style: { "--chip": headColor(head) }, onclick: () => toggle(head),
  }, String(head + 1)));
  const all = chosen.length === map.heads;
  return make("div", { class: "choice" }, make("span", { class: "choice-label" }, t`Heads`), make("div", { class: "chips" }, chips,
    map.heads > 1 ? make("button", { type: "button", class: "chip word-chip", "data-key": "chip:all", onclick: () => page.change({ heads: all ? [0] : Array.from({ length: map.heads }, (_, i) => i) }) }, all ? t`one` : t`all`) : null));
}

// One side of the lines: the items of an axis as a list, or as cells of their image. `edge`: the end of the lines, `out`: away from them.
function lineSide(data, axis, { edge, width, out }) {
  const items = data.items(axis);
  const image = data.imageOf(axis);
  const rowOf = (i) => ({ point: [edge, (i + 0.5) * LINE_HEIGHT], box: null });
  if (!image) return { height: LINE_HEIGHT * items.length, places: items.map((_, i) => rowOf(i)), picture: null };
  const listed = items.filter((item) => !item.box).length; // special tokens are listed above the image
  const size = Math.min(width, (width * image.height) / image.width);
  const [left, top] = [out < 0 ? edge - width : edge, LINE_HEIGHT * listed];
  let index = 0;
  const places = items.map(({ box }) => {
    if (!box) return rowOf(index++);
    const [x, y, right, bottom] = [left + box[0] * width, top + box[1] * size, left + box[2] * width, top + box[3] * size];
    return { point: [(x + right) / 2, (y + bottom) / 2], box: { x, y, width: right - x, height: bottom - y } };
  });
  const { canvas } = new ImageCanvas(image, Math.max(image.width, image.height));
  return { height: top + size, places, picture: draw("image", { x: left, y: top, width, height: size, href: canvas.toDataURL(), class: "line-image", preserveAspectRatio: "none" }) };
}

function curves(map, heads, { queries, keys }) {
  const group = draw("g", { class: "curves", fill: "none" });
  for (const head of [...heads].reverse()) { // the first head is drawn over the others
    for (let row = 0; row < map.rows; row++) {
      for (let column = 0; column < map.columns; column++) {
        const weight = map.value(head, row, column);
        if (weight < MIN_WEIGHT) continue;
        const [[x1, y1], [x2, y2]] = [queries.places[row].point, keys.places[column].point];
        const middle = (x1 + x2) / 2;
        group.append(draw("path", {
          d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`, stroke: headColor(head), "data-row": row, "data-column": column,
          "stroke-width": (0.5 + 6.5 * weight).toFixed(2), "stroke-opacity": (0.15 + 0.75 * weight).toFixed(2), "stroke-linecap": "round",
        }));
      }
    }
  }
  return group;
}

function words(labels, { side, x, room, anchor, kind, choose }) {
  return labels.map((label, i) => {
    const { point: [, y], box } = side.places[i];
    const area = box ?? { x: anchor === "end" ? 0 : x - 4, y: y - LINE_HEIGHT / 2 + 2, width: anchor === "end" ? x + 4 : 400, height: LINE_HEIGHT - 4, rx: 6 };
    return draw("g", {
      class: `line-word ${kind}${box ? " cell" : ""}`, tabindex: i ? -1 : 0, role: "button", "aria-label": t`${label}: show distribution`, "data-kind": kind, "data-index": i,
      onpointerenter: () => choose(kind, i), onfocus: () => choose(kind, i), onclick: () => choose(kind, i),
    }, draw("rect", area), box ? null : draw("text", { x, y, "text-anchor": anchor, "dominant-baseline": "central" }, fitLabel(label, room, "16px")));
  });
}

// Tab reaches the first word of each side; up and down move between the words.
function moveByKeys(event) {
  const offset = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
  const { kind, index } = event.target.closest?.(".line-word")?.dataset ?? {};
  const next = offset && kind && event.currentTarget.querySelector(`.line-word.${kind}[data-index="${Number(index) + offset}"]`);
  if (!next) return;
  event.preventDefault();
  next.focus();
}

function details(data, map, heads, { kind, index }) {
  if (kind === "key") {
    const column = (head) => Float32Array.from({ length: map.rows }, (_, row) => map.value(head, row, index));
    return heads.map((head) => {
      const list = distribution({ labels: data.labels(map.queries), weights: column(head), title: data.labels(map.keys)[index], subtitle: t`is attended to by · head ${head + 1}`, head });
      list.querySelector(".sum").remove(); // a column is not a distribution, so its sum has no meaning
      return list;
    });
  }
  return heads.map((head) => distribution({ labels: data.labels(map.keys), weights: map.row(head, index), title: data.labels(map.queries)[index], isOff: map.isOff(head),
    subtitle: map.heads > 1 ? t`attends to · head ${head + 1}` : t`attends to`, head }));
}

export const view = {
  name: "lines",
  title: t`Lines`,
  suits: (data) => data.maps.some((map) => !map.long),
  sidePanel: true,
  show(data, element, page) {
    const selected = data.map(page.state.map);
    const map = selected.long ? data.maps.find((candidate) => !candidate.long) : selected;
    const heads = (page.state.heads || [clamp(page.state.head, map.heads)]).filter((head) => head < map.heads);
    const chosen = heads.length ? heads : [0];
    page.selection = { map, heads: chosen };
    element.append(make("div", { class: "controls" },
      mapChoices(data, map, page, (candidate) => !candidate.long), headChips(map, chosen, page)));

    const width = Math.max(240, Math.min(760, element.clientWidth - 48 - (element.clientWidth > 860 ? 328 : 0)));
    const [left, right] = [width * 0.3, width * 0.7];
    const panel = make("div", { class: "lines-side" });
    const queries = lineSide(data, map.queries, { edge: left + 8, width: left, out: -1 });
    const keys = lineSide(data, map.keys, { edge: right - 8, width: left, out: 1 });
    const lines = curves(map, chosen, { queries, keys });
    const svg = draw("svg", { width, height: Math.max(queries.height, keys.height), class: "lines", role: "group", onkeydown: moveByKeys,
      "aria-label": t`${map.title}: lines from ${map.rows} tokens to ${map.columns} tokens` });
    const choose = (kind, index) => {
      svg.classList.add("choosing");
      lines.querySelectorAll("path").forEach((path) => path.classList.toggle("on", path.dataset[kind === "query" ? "row" : "column"] === String(index)));
      svg.querySelectorAll(".line-word").forEach((word) => word.classList.toggle("on", word.dataset.kind === kind && word.dataset.index === String(index)));
      panel.replaceChildren(...details(data, map, chosen, { kind, index }));
      if (kind === "query") page.updateState({ row: index });
    };
    svg.append(...[queries.picture, keys.picture].filter(Boolean), lines,
      ...words(data.labels(map.queries), { side: queries, x: left, room: left - 4, anchor: "end", kind: "query", choose }),
      ...words(data.labels(map.keys), { side: keys, x: right, room: width - right - 4, anchor: "start", kind: "key", choose }));
    element.append(make("section", { class: "card split" },
      make("div", { class: "scroll" }, make("div", { class: "line-heads quiet", style: { width: `${width}px` } }, make("span", {}, t`queries`), make("span", {}, t`keys`)), svg), panel));
    if (page.state.row !== undefined) choose("query", clamp(page.state.row, map.rows));
    else panel.append(make("p", { class: "quiet hint" }, t`Hover over a token, or move to it with Tab and the arrow keys, to see its distribution as numbers.`));
  },
};
