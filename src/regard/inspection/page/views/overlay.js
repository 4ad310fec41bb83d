// An image that was classified: where each head of each layer looked, rollout through all layers, and the answer without the
// patches that matter most.

import { announce, choice, make, number, roving, select } from "../dom.js";
import { distribution } from "../distribution.js";
import { Picture } from "../image_canvas.js";
import { clamp } from "../state.js";
import { say } from "../i18n.js";

const SIZE = 420;
const THUMB = 128; // of the image without some patches
const SMALL = 64; // of a head
const MOST = 64; // heads of all layers that are shown at once
const ROLLOUT = "rollout";

// Weights over the patches: of one query, or of the class token or the mean of all where none is chosen.
function looked(map, head, row, before) {
  const each = (one) => map.row(head, one);
  if (row !== null) return each(row);
  if (map.rows === 1 || before) return each(0);
  const sum = new Float32Array(map.columns);
  for (let one = 0; one < map.rows; one++) each(one).forEach((weight, i) => (sum[i] += weight / map.rows));
  return sum;
}

// Layers by heads, each a small picture of where it looked; of very many, those of the chosen head alone.
function thumbs(extra, maps, items, { head, chosen, pick }) {
  const most = Math.max(...maps.map((map) => map.heads));
  const columns = most * maps.length <= MOST ? Array.from({ length: most }, (_, i) => i) : [head];
  const thumb = (map, one) => {
    const title = `${map.title}, ${one < 0 ? say`mean of heads` : say`head ${one + 1}`}`;
    const picture = new Picture(extra, SMALL, { "aria-label": title });
    picture.lit(items, looked(map, one, null, extra.before));
    return make("button", { type: "button", class: "thumb", style: { width: "auto" }, title, "aria-pressed": String(map.name === chosen && one === head), "data-key": `overlay:${map.name}:${one}`, onclick: () => pick(map.name, one) }, picture.canvas);
  };
  return roving(make("div", { class: "thumbs", style: { "grid-template-columns": `auto repeat(${columns.length}, auto)` }, role: "group", "aria-label": say`layers by heads` },
    make("span"), columns.map((one) => make("span", { class: "thumb-head figure" }, one < 0 ? say`mean` : say`head ${one + 1}`)),
    maps.map((map) => [make("span", { class: "thumb-layer figure" }, map.rows === 1 ? say`pooling` : say`layer ${map.layer + 1}`),
      columns.map((one) => (one < map.heads ? thumb(map, one) : make("span")))])), columns.length);
}

function removals(extra, items) {
  const patches = items.slice(extra.before);
  return extra.removed.map((one) => {
    const picture = new Picture(extra, THUMB, { "aria-label": say`without ${one.patches.length} patches: ${one.answer}` });
    picture.context.fillStyle = "rgb(128, 128, 128)";
    one.patches.forEach((place) => picture.context.fillRect(...picture.edges(patches[place].box)));
    return make("figure", { class: "pictured removal" }, picture.canvas,
      make("figcaption", {}, one.patches.length ? `${say`without ${one.patches.length}`}: ` : `${say`whole`}: `, make("b", {}, one.answer), make("span", { class: "quiet" }, ` ${number(one.share, 2)}`)));
  });
}

export const view = {
  name: "overlay",
  title: say`Image`,
  opens: true, // the page begins with it
  suits: (data) => Boolean(data.extra.overlay?.rollout) && data.maps.some((map) => map.keys === "patches"),
  show(data, element, page) {
    const { overlay: extra } = data.extra;
    const maps = data.maps.filter((map) => map.keys === "patches");
    const items = data.items("patches");
    const rolling = page.state.map === ROLLOUT;
    const map = maps.find((one) => one.name === page.state.map) || maps[maps.length - 1];
    const head = clamp(page.state.head, map.heads, -1);
    page.looked = rolling ? null : { map, head: Math.max(0, head) };
    const many = !rolling && map.rows > 1; // patches that look, each by itself
    const picture = new Picture(extra, SIZE, { "data-key": "overlay", "aria-label": say`the image, lit where the model looked`,
      ...(many ? { role: "application", tabindex: 0, "aria-description": say`Arrow keys move over the patches, Escape leaves them` } : {}) });
    const panel = make("div", { class: "lines-side" });
    const rollout = Float32Array.from(items, (_, i) => (i < extra.before ? 0 : extra.rollout[i - extra.before]));

    const draw = (row) => {
      const weights = rolling ? rollout : looked(map, head, row, extra.before);
      picture.plain();
      picture.lit(items, weights);
      if (row !== null && !rolling) picture.frame(items[row].box, "#ff5a36", { width: 3 });
      const who = row === null ? (extra.before ? say`the class token` : say`all patches, on average`) : say`patch ${items[row].text}`;
      const title = rolling ? say`rollout` : map.rows === 1 ? say`the pooling query` : who;
      panel.replaceChildren(distribution({ labels: items.map((item) => item.text), weights, title, head: rolling ? -1 : head, subtitle: rolling ? say`what reaches the answer through all layers` : `${say`looks at`} · ${map.title} · ${head < 0 ? say`mean of heads` : say`head ${head + 1}`}` }));
    };
    let under = null;
    picture.canvas.addEventListener("pointermove", (event) => {
      const row = picture.under(items, event);
      if (row < 0 || row === under || !many) return;
      under = row;
      draw(row);
    });
    picture.canvas.addEventListener("pointerleave", () => {
      under = null;
      draw(null);
    });

    const across = Math.round(1 / (items[extra.before].box[2] - items[extra.before].box[0]));
    picture.canvas.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
      if (!many || !(by || event.key === "Escape")) return;
      event.preventDefault();
      under = by ? Math.max(extra.before, Math.min(items.length - 1, under === null ? extra.before : under + by)) : null;
      draw(under);
      if (under !== null) announce(say`patch ${items[under].text}`);
    });

    const names = [...maps.map((one) => ({ key: one.name, label: one.title })), { key: ROLLOUT, label: say`Rollout, all layers` }];
    const heads = [{ key: -1, label: say`mean` }, ...Array.from({ length: map.heads }, (_, i) => ({ key: i, label: String(i + 1) }))];
    element.append(
      make("div", { class: "controls" }, select(say`Map`, names, rolling ? ROLLOUT : map.name, (name) => page.change({ map: name })),
        rolling ? null : choice(say`Head`, heads, head, (key) => page.change({ head: key }))),
      make("section", { class: "card split" }, make("div", { class: "pictures" }, picture.canvas,
        thumbs(extra, maps, items, { head, chosen: rolling ? null : map.name, pick: (name, one) => page.change({ map: name, head: one }) })), panel),
      make("section", { class: "card" }, make("h2", {}, say`Without the strongest patches`),
        make("p", { class: "quiet" }, say`The patches that rollout gives most to are covered with grey, and the model is asked again.`),
        make("div", { class: "pictures" }, removals(extra, items))));
    draw(null);
  },
};
