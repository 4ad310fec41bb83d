// Detected objects: each box with the attention of its query over the grid of the image.

import { announce, choice, make, percent, select } from "../dom.js";
import { headColor } from "../color.js";
import { strongest } from "../data.js";
import { ImageCanvas, headThumbnails, highlightLegend } from "../image_canvas.js";
import { clamp } from "../state.js";
import { t } from "../i18n.js";

const SIZE = 460;

function rowWeights(map, head, row) {
  if (head >= 0) return map.row(head, row);
  return map.weights(-1).subarray(row * map.columns, (row + 1) * map.columns);
}

export const view = {
  name: "boxes",
  title: t`Boxes`,
  sidePanel: true,
  opensFirst: true, // the page opens with this view
  suits: (data) => Boolean(data.extra.boxes) && data.maps.some((map) => map.queries === "objects" && map.keys === "grid"),
  show(data, element, page) {
    const { boxes: extra } = data.extra;
    const maps = data.maps.filter((map) => map.queries === "objects" && map.keys === "grid");
    const map = maps.find((candidate) => candidate.name === page.state.map) || maps[maps.length - 1];
    const head = clamp(page.state.head, map.heads, -1);
    page.selection = { map, head };
    const cells = data.items("grid");
    const confident = extra.queries.map((query, i) => ({ ...query, i })).filter((query) => query.share >= extra.least).sort((a, b) => b.share - a.share);
    const canvas = new ImageCanvas(extra, SIZE, { tabindex: 0, "data-key": "boxes", "aria-label": t`${confident.length} objects: ${confident.map((query) => query.label).join(", ")}` });
    const labels = [...new Set(extra.queries.map((query) => query.label))].sort();
    const color = (query) => headColor(labels.indexOf(query.label));
    const thumbnails = headThumbnails(extra, map, head, (index) => page.change({ head: index }));
    // The most confident object is selected first, so that its attention is visible at once.
    let chosen = page.state.row === undefined ? strongest(extra.queries.map((query) => query.share)) : clamp(page.state.row, extra.queries.length);
    const scale = make("div", {});

    const redraw = () => {
      canvas.reset();
      scale.replaceChildren(chosen === null ? "" : highlightLegend(rowWeights(map, head, chosen)));
      if (chosen !== null) canvas.highlight(cells, rowWeights(map, head, chosen));
      thumbnails.canvases.forEach((thumbnail, i) => {
        thumbnail.reset();
        if (chosen === null) return;
        thumbnail.highlight(cells, map.row(i, chosen));
        thumbnail.frame(extra.queries[chosen].box, color(extra.queries[chosen]));
      });
      const queries = [...confident.filter((query) => query.i !== chosen), ...extra.queries.map((query, i) => ({ ...query, i })).filter((query) => query.i === chosen)];
      queries.forEach((query) => {
        canvas.frame(query.box, color(query), { width: query.i === chosen ? 4 : 2, dash: query.share >= extra.least ? [] : [5, 4] });
        canvas.label(query.box, `${query.label} ${percent(Math.log(query.share))}`, color(query));
      });
      list.querySelectorAll("button").forEach((button) => button.setAttribute("aria-pressed", String(Number(button.dataset.query) === chosen)));
    };
    const choose = (query) => {
      chosen = query;
      page.updateState({ row: query === null ? undefined : query });
      redraw();
      if (query !== null) announce(`${extra.queries[query].label} ${percent(Math.log(extra.queries[query].share))}`);
    };
    const list = make("div", { class: "lines-side" }, make("h3", {}, t`Object queries`),
      make("ol", { class: "shares" }, extra.queries.map((query, i) => ({ query, i })).sort((a, b) => b.query.share - a.query.share).map(({ query, i }) =>
        make("li", { class: "share" }, make("button", { type: "button", class: "link share-label", "data-query": i, "data-key": `query:${i}`, onpointerenter: () => choose(i), onfocus: () => choose(i), onclick: () => choose(i) }, query.label),
          make("span", { class: "share-track" }, make("span", { class: "share-bar", style: { width: `${100 * query.share}%`, background: color(query) } })),
          make("span", { class: "figure share-value" }, percent(Math.log(query.share)))))));
    canvas.canvas.addEventListener("pointermove", (event) => {
      const boxIndex = canvas.itemAt(confident, event);
      if (boxIndex >= 0 && confident[boxIndex].i !== chosen) choose(confident[boxIndex].i);
    });
    const heads = [{ key: -1, label: t`mean` }, ...Array.from({ length: map.heads }, (_, i) => ({ key: i, label: String(i + 1) }))];
    element.append(
      make("div", { class: "controls" }, select(t`Map`, maps.map((entry) => ({ key: entry.name, label: entry.title })), map.name, (name) => page.change({ map: name })),
        map.heads > 1 ? choice(t`Head`, heads, head, (key) => page.change({ head: key })) : null),
      make("section", { class: "card split" }, make("div", { class: "pictures" }, make("div", { class: "pictured" }, canvas.canvas, scale), thumbnails.element), list),
      make("p", { class: "quiet" }, t`Hover over a box or a query to see which cells of the image the query attends to.`));
    redraw();
  },
};
