// An image as it was made: hover a pixel to see its block, the memory of its block and where each head looked; play the order.

import { announce, choice, make, number, select } from "../dom.js";
import { distribution } from "../distribution.js";
import { Picture, eyes } from "../image_canvas.js";
import { clamp } from "../state.js";
import { say } from "../i18n.js";

const SIZE = 460; // pixels of the large image on the screen
const BESIDE = 220; // and of those beside it
const [OWN, SEEN, MARK] = ["rgba(255, 255, 255, 0.95)", "rgba(120, 190, 255, 0.9)", "#ff5a36"]; // block, memory, pixel
const SECONDS = 8; // that the making of an image takes to play

// Which block a place is in, and the items of the block and of its memory.
function blockOf(extra, place, items) {
  const number = extra.blocks.findIndex(([first, end]) => place >= first && place < end);
  if (number < 0) return { block: [], memory: items.slice(0, place) };
  const [first, end] = extra.blocks[number];
  return { block: items.slice(first, end), memory: extra.memories[number].map((i) => items[i]) };
}

// What every head gave to every key from one row, and the mean of them.
const everyHead = (map, row) => Promise.all(Array.from({ length: map.heads }, (_, i) => map.rowLater(i, row)));
const meanOf = (each) => each[0].map((_, i) => each.reduce((sum, one) => sum + one[i], 0) / each.length);

function playButton(step, count) {
  let frame = null;
  const button = make("button", { type: "button", class: "chip word-chip", "data-key": "canvas:play" }, say`▶ Play`);
  const stop = () => {
    cancelAnimationFrame(frame);
    frame = null;
    button.textContent = say`▶ Play`;
    step(null);
  };
  const start = () => {
    const begun = performance.now();
    button.textContent = say`■ Stop`;
    const tick = (now) => {
      const place = Math.floor(((now - begun) / 1000 / SECONDS) * count);
      if (place >= count) return stop();
      step(place);
      frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
  };
  button.addEventListener("click", () => (frame === null ? start() : stop()));
  return { button, stop };
}

export const view = {
  name: "canvas",
  title: say`Canvas`,
  opens: true, // the page begins with it
  suits: (data) => Boolean(data.extra.canvas) && data.maps.length > 0,
  show(data, element, page) {
    const { canvas: extra } = data.extra;
    const map = data.map(page.state.map);
    const [made, keys] = [data.items("made"), data.items(map.keys)];
    const head = clamp(page.state.head, map.heads, -1);
    page.looked = { map, head: Math.max(0, head) };
    const rows = data.items(map.queries);
    const picture = new Picture(extra, SIZE, { role: "application", tabindex: 0, "data-key": "canvas", "aria-label": say`An image of ${made.length} places. Arrow keys move from place to place in the order of making.` });
    const small = extra.small ? new Picture(extra.small, BESIDE, { "aria-label": say`the small image` }) : null;
    const panel = make("div", { class: "lines-side" });
    const inSmall = map.keys === "small";
    const heads = eyes(inSmall ? extra.small : extra, map, head, (one) => page.change({ head: one }));
    let chosen = page.state.row === undefined ? null : clamp(page.state.row, map.rows);

    const choose = async (place) => {
      chosen = place;
      page.note({ row: place });
      const each = await everyHead(map, place);
      if (chosen !== place) return; // the pointer went on meanwhile
      const weights = head < 0 ? meanOf(each) : each[head];
      heads.pictures.forEach((one, i) => {
        one.plain();
        one.lit(keys, each[i]);
        if (rows === made && !inSmall) one.frame(made[place].box, MARK);
      });
      picture.plain();
      small?.plain();
      if (rows === made) {
        (inSmall ? small : picture).lit(keys, weights);
        const { block, memory } = blockOf(extra, place, made);
        picture.outline([...memory, ...block], SEEN);
        picture.outline(block, OWN);
        picture.frame(made[place].box, MARK, { width: 3 });
      } else small.lit(keys, weights);
      const score = rows === made && data.answered === "made" ? data.outputs[0]?.tokens[place]?.score : undefined;
      const told = score === undefined ? say`looked at` : say`was foretold with ${number(-score / Math.LN2, 2)} bits by looking at`;
      panel.replaceChildren(distribution({ labels: keys.map((item) => item.text), weights, title: rows[place].text, head, subtitle: `${told} · ${head < 0 ? say`mean of heads` : say`head ${head + 1}`}` }));
    };

    const shown = (place) => {
      picture.plain();
      if (place === null) return chosen === null ? undefined : choose(chosen);
      picture.context.fillStyle = "rgba(90, 96, 110, 0.96)";
      made.slice(place).forEach((item) => picture.context.fillRect(...picture.edges(item.box)));
      const { block } = blockOf(extra, Math.min(place, made.length - 1), made);
      picture.outline(block, OWN);
      return undefined;
    };
    const play = playButton(shown, made.length);
    picture.canvas.addEventListener("pointermove", (event) => {
      const place = rows === made ? picture.under(made, event) : -1;
      if (place >= 0 && place !== chosen) choose(place);
    });
    picture.canvas.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      choose(Math.min(map.rows - 1, Math.max(0, (chosen ?? -1) + by))).then(() => announce(rows[chosen].text));
    });
    small?.canvas.addEventListener("pointermove", (event) => {
      const place = rows === made ? -1 : small.under(rows, event);
      if (place >= 0 && place !== chosen) choose(place);
    });

    const numbers = [{ key: -1, label: say`mean` }, ...Array.from({ length: map.heads }, (_, i) => ({ key: i, label: String(i + 1) }))];
    const labelled = (title, one) => make("figure", { class: "pictured" }, one.canvas, make("figcaption", { class: "quiet" }, title));
    const bicubic = extra.bicubic ? new Picture({ ...extra, pixels: extra.bicubic }, BESIDE, { "aria-label": say`bicubic interpolation` }) : null;
    const truth = extra.truth ? new Picture({ ...extra, pixels: extra.truth }, BESIDE, { "aria-label": say`the true image` }) : null;
    element.append(
      make("div", { class: "controls" }, play.button,
        select(say`Map`, data.maps.map((one) => ({ key: one.name, label: one.title })), map.name, (name) => page.change({ map: name, row: undefined })),
        choice(say`Head`, numbers, head, (key) => page.change({ head: key })),
        make("span", { class: "quiet" }, extra.blocks.length ? say`red: the pixel; white: its block; blue: the memory it may look at` : say`red: the pixel; blue: what it may look at`)),
      make("section", { class: "card split" },
        make("div", { class: "pictures" }, labelled(say`made`, picture), heads.element,
          small ? labelled(say`given, ${extra.small.height}x${extra.small.width}`, small) : null,
          bicubic ? labelled(say`bicubic`, bicubic) : null, truth ? labelled(say`true`, truth) : null), panel));
    if (chosen === null) panel.append(make("p", { class: "quiet hint" }, say`Point at a pixel, or move with the arrow keys, to see what it looked at before it was made.`));
    else choose(chosen);
    return () => play.stop();
  },
};
