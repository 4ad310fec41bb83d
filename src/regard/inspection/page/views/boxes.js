// Objects that were found: each box with what its query looked at in the grid of the image.

import { announce, choice, make, number, select } from "../dom.js";
import { headColour } from "../color.js";
import { Picture, eyes } from "../image_canvas.js";
import { clamp } from "../state.js";
import { say } from "../i18n.js";

const SIZE = 460;

function mean(map, head, row) {
  if (head >= 0) return map.row(head, row);
  return map.numbers(-1).subarray(row * map.columns, (row + 1) * map.columns);
}

export const view = {
  name: "boxes",
  title: say`Boxes`,
  opens: true, // the page begins with it
  suits: (data) => Boolean(data.extra.boxes) && data.maps.some((map) => map.queries === "objects" && map.keys === "grid"),
  show(data, element, page) {
    const { boxes: extra } = data.extra;
    const maps = data.maps.filter((map) => map.queries === "objects" && map.keys === "grid");
    const map = maps.find((one) => one.name === page.state.map) || maps[maps.length - 1];
    const head = clamp(page.state.head, map.heads, -1);
    page.looked = { map, head: Math.max(0, head) };
    const cells = data.items("grid");
    const sure = extra.queries.map((query, i) => ({ ...query, i })).filter((query) => query.share >= extra.least).sort((a, b) => b.share - a.share);
    const picture = new Picture(extra, SIZE, { tabindex: 0, "data-key": "boxes", "aria-label": say`${sure.length} objects: ${sure.map((query) => query.label).join(", ")}` });
    const labels = [...new Set(extra.queries.map((query) => query.label))].sort();
    const colour = (query) => headColour(labels.indexOf(query.label));
    const each = eyes(extra, map, head, (one) => page.change({ head: one }));
    let chosen = page.state.row === undefined ? null : clamp(page.state.row, extra.queries.length);

    const redraw = () => {
      picture.plain();
      if (chosen !== null) picture.lit(cells, mean(map, head, chosen));
      each.pictures.forEach((one, i) => {
        one.plain();
        if (chosen === null) return;
        one.lit(cells, map.row(i, chosen));
        one.frame(extra.queries[chosen].box, colour(extra.queries[chosen]));
      });
      const shown = chosen === null ? sure : extra.queries.map((query, i) => ({ ...query, i })).filter((query) => query.i === chosen);
      shown.forEach((query) => {
        picture.frame(query.box, colour(query), { width: 3, dash: query.share >= extra.least ? [] : [5, 4] });
        picture.label(query.box, `${query.label} ${number(query.share, 2)}`, colour(query));
      });
      list.querySelectorAll("button").forEach((button) => button.setAttribute("aria-pressed", String(Number(button.dataset.query) === chosen)));
    };
    const choose = (query) => {
      chosen = query;
      page.note({ row: query === null ? undefined : query });
      redraw();
      if (query !== null) announce(`${extra.queries[query].label} ${number(extra.queries[query].share, 2)}`);
    };
    const list = make("div", { class: "lines-side" }, make("h3", {}, say`Object queries`),
      make("ol", { class: "shares" }, extra.queries.map((query, i) => ({ query, i })).sort((a, b) => b.query.share - a.query.share).map(({ query, i }) =>
        make("li", { class: "share" }, make("button", { type: "button", class: "link share-label", "data-query": i, "data-key": `query:${i}`, onpointerenter: () => choose(i), onfocus: () => choose(i), onclick: () => choose(i) }, query.label),
          make("span", { class: "share-track" }, make("span", { class: "share-bar", style: { width: `${100 * query.share}%`, background: colour(query) } })),
          make("span", { class: "figure share-value" }, number(query.share, 2))))));
    list.addEventListener("pointerleave", () => choose(null));
    picture.canvas.addEventListener("pointermove", (event) => {
      const under = picture.under(sure, event);
      const next = under < 0 ? null : sure[under].i;
      if (next !== chosen) choose(next);
    });
    const heads = [{ key: -1, label: say`mean` }, ...Array.from({ length: map.heads }, (_, i) => ({ key: i, label: String(i + 1) }))];
    element.append(
      make("div", { class: "controls" }, select(say`Map`, maps.map((one) => ({ key: one.name, label: one.title })), map.name, (name) => page.change({ map: name })),
        choice(say`Head`, heads, head, (key) => page.change({ head: key }))),
      make("section", { class: "card split" }, make("div", { class: "pictures" }, picture.canvas, each.element), list),
      make("p", { class: "quiet" }, say`Point at a box, or at a query, to see which cells of the image its query looked at.`));
    redraw();
  },
};
