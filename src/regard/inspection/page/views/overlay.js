// Classified image: the attention of each head of each layer, attention rollout through all layers, and the prediction without the
// most important patches.

import { announce, choice, make, percent, roving, select } from "../dom.js";
import { distribution } from "../distribution.js";
import { ImageCanvas, highlightLegend } from "../image_canvas.js";
import { clamp } from "../state.js";
import { t } from "../i18n.js";

const IMAGE_PIXELS = 420;
const REMOVAL_PIXELS = 128; // of the image without some patches
const HEAD_PIXELS = 64; // of a head
const MAX_THUMBNAILS = 64; // heads of all layers that are shown at the same time
const ROLLOUT = "rollout";

// Weights over the patches: of one query; if none is selected, of the class token or the mean of all queries.
function patchWeights(map, head, row, specialTokens) {
  const weightsOf = (query) => map.row(head, query);
  if (row !== null) return weightsOf(row);
  if (map.rows === 1 || specialTokens) return weightsOf(0);
  const sum = new Float32Array(map.columns);
  for (let query = 0; query < map.rows; query++) weightsOf(query).forEach((weight, i) => (sum[i] += weight / map.rows));
  return sum;
}

// Layers by heads, each a small image of its attention; if there are too many, only those of the selected head.
function headGrid(extra, maps, items, { head, chosen, pick }) {
  const maxHeads = Math.max(...maps.map((map) => map.heads));
  const columns = maxHeads * maps.length <= MAX_THUMBNAILS ? Array.from({ length: maxHeads }, (_, i) => i) : [head];
  const headButton = (map, index) => {
    const title = `${map.title}, ${index < 0 ? t`mean of heads` : t`head ${index + 1}`}`;
    const image = new ImageCanvas(extra, HEAD_PIXELS, { "aria-label": title });
    image.highlight(items, patchWeights(map, index, null, extra.before));
    return make("button", { type: "button", class: "thumb", style: { width: "auto" }, title, "aria-pressed": String(map.name === chosen && index === head), "data-key": `overlay:${map.name}:${index}`, onclick: () => pick(map.name, index) }, image.canvas);
  };
  return roving(make("div", { class: "thumbs", style: { "grid-template-columns": `auto repeat(${columns.length}, auto)` }, role: "group", "aria-label": t`layers by heads` },
    make("span"), columns.map((index) => make("span", { class: "thumb-head figure" }, index < 0 ? t`mean` : t`head ${index + 1}`)),
    maps.map((map) => [make("span", { class: "thumb-layer figure" }, map.rows === 1 ? t`pooling` : t`layer ${map.layer + 1}`),
      columns.map((index) => (index < map.heads ? headButton(map, index) : make("span")))])), columns.length);
}

function removals(extra, items) {
  const patches = items.slice(extra.before);
  return extra.removed.map((removal) => {
    const image = new ImageCanvas(extra, REMOVAL_PIXELS, { "aria-label": t`without ${removal.patches.length} patches: ${removal.answer}` });
    image.context.fillStyle = "rgb(128, 128, 128)";
    removal.patches.forEach((patch) => image.context.fillRect(...image.toPixels(patches[patch].box)));
    return make("figure", { class: "pictured removal" }, image.canvas,
      make("figcaption", {}, removal.patches.length ? `${t`without ${removal.patches.length}`}: ` : `${t`original`}: `, make("b", {}, removal.answer), make("span", { class: "quiet" }, ` ${percent(Math.log(removal.share))}`)));
  });
}

export const view = {
  name: "overlay",
  title: t`Image`,
  sidePanel: true,
  opensFirst: true, // the page opens with this view
  suits: (data) => Boolean(data.extra.overlay?.rollout) && data.maps.some((map) => map.keys === "patches"),
  show(data, element, page) {
    const { overlay: extra } = data.extra;
    const maps = data.maps.filter((map) => map.keys === "patches");
    const items = data.items("patches");
    const isRollout = page.state.map === ROLLOUT;
    const map = maps.find((candidate) => candidate.name === page.state.map) || maps[maps.length - 1];
    const head = clamp(page.state.head, map.heads, -1);
    page.selection = isRollout ? { reason: t`Rollout multiplies the maps of all layers. It is not one map, so it has no figures.` } : { map, head };
    const perPatch = !isRollout && map.rows > 1; // every patch is a query
    const image = new ImageCanvas(extra, IMAGE_PIXELS, { "data-key": "overlay", "aria-label": t`image with the model's attention highlighted`,
      ...(perPatch ? { role: "application", tabindex: 0, "aria-description": t`Arrow keys move over the patches, Escape clears the selection` } : {}) });
    const [panel, scale] = [make("div", { class: "lines-side" }), make("div", {})];
    const rollout = Float32Array.from(items, (_, i) => (i < extra.before ? 0 : extra.rollout[i - extra.before]));

    const draw = (row) => {
      const weights = isRollout ? rollout : patchWeights(map, head, row, extra.before);
      image.reset();
      image.highlight(items, weights);
      scale.replaceChildren(highlightLegend(weights));
      if (row !== null && !isRollout) image.frame(items[row].box, "#ff5a36", { width: 3 });
      const queryName = row === null ? (extra.before ? t`the class token` : t`mean of all patches`) : t`patch ${items[row].text}`;
      const title = isRollout ? t`rollout` : map.rows === 1 ? t`the pooling query` : queryName;
      panel.replaceChildren(distribution({ labels: items.map((item) => item.text), weights, title, head: isRollout ? -1 : head, isOff: !isRollout && map.isOff(head), subtitle: isRollout ? t`contribution to the output through all layers` : `${t`attends to`} · ${map.title} · ${head < 0 ? t`mean of heads` : t`head ${head + 1}`}` }));
    };
    let hovered = null;
    image.canvas.addEventListener("pointermove", (event) => {
      const row = image.itemAt(items, event);
      if (row < 0 || row === hovered || !perPatch) return;
      hovered = row;
      draw(row);
    });
    image.canvas.addEventListener("pointerleave", () => {
      hovered = null;
      draw(null);
    });

    const patchColumns = Math.round(1 / (items[extra.before].box[2] - items[extra.before].box[0]));
    image.canvas.addEventListener("keydown", (event) => {
      const offset = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: patchColumns, ArrowUp: -patchColumns }[event.key];
      if (!perPatch || !(offset || event.key === "Escape")) return;
      event.preventDefault();
      hovered = offset ? Math.max(extra.before, Math.min(items.length - 1, hovered === null ? extra.before : hovered + offset)) : null;
      draw(hovered);
      if (hovered !== null) announce(t`patch ${items[hovered].text}`);
    });

    const names = [...maps.map((entry) => ({ key: entry.name, label: entry.title })), { key: ROLLOUT, label: t`Rollout, all layers` }];
    const heads = [{ key: -1, label: t`mean` }, ...Array.from({ length: map.heads }, (_, i) => ({ key: i, label: String(i + 1) }))];
    element.append(
      make("div", { class: "controls" }, select(t`Map`, names, isRollout ? ROLLOUT : map.name, (name) => page.change({ map: name })),
        isRollout || map.heads === 1 ? null : choice(t`Head`, heads, head, (key) => page.change({ head: key }))),
      make("section", { class: "card split" }, make("div", { class: "pictures" }, make("div", { class: "pictured" }, image.canvas, scale),
        headGrid(extra, maps, items, { head, chosen: isRollout ? null : map.name, pick: (name, index) => page.change({ map: name, head: index }) })), panel),
      make("section", { class: "card" }, make("h2", {}, t`Without the strongest patches`),
        make("p", { class: "quiet" }, t`The patches with the largest rollout weights are covered with grey, and the model predicts again.`),
        make("div", { class: "pictures" }, removals(extra, items))));
    draw(null);
  },
};
