// An image as it was made: hover a pixel to see its block, the memory of its block and where each head looked; play the order.

import { announce, choice, make, number, select } from "../dom.js";
import { headColour } from "../colour.js";
import { distribution } from "../distribution.js";
import { Picture } from "../picture.js";
import { clamp } from "../state.js";

const SIZE = 460; // pixels of the large image on the screen
const BESIDE = 220; // and of those beside it
const SECONDS = 8; // that the making of an image takes to play

// Which block a place is in, and the items of the block and of its memory.
function blockOf(extra, place, items) {
  const number = extra.blocks.findIndex(([first, end]) => place >= first && place < end);
  if (number < 0) return { block: [], memory: items.slice(0, place) };
  const [first, end] = extra.blocks[number];
  return { block: items.slice(first, end), memory: extra.memories[number].map((i) => items[i]) };
}

async function weightsOf(map, head, row) {
  if (head >= 0) return map.rowLater(head, row);
  const each = await Promise.all(Array.from({ length: map.heads }, (_, i) => map.rowLater(i, row)));
  return each[0].map((_, i) => each.reduce((sum, one) => sum + one[i], 0) / map.heads);
}

function playButton(step, count) {
  let frame = null;
  const button = make("button", { type: "button", class: "chip word-chip", "data-key": "canvas:play" }, "▶ Play");
  const stop = () => {
    cancelAnimationFrame(frame);
    frame = null;
    button.textContent = "▶ Play";
    step(null);
  };
  const start = () => {
    const begun = performance.now();
    button.textContent = "■ Stop";
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
  title: "Canvas",
  suits: (data) => Boolean(data.extra.canvas) && data.maps.length > 0,
  show(data, element, page) {
    const { canvas: extra } = data.extra;
    const map = data.map(page.state.map);
    const [made, keys] = [data.items("made"), data.items(map.keys)];
    const head = clamp(page.state.head, map.heads, -1);
    page.looked = { map, head: Math.max(0, head) };
    const rows = data.items(map.queries);
    const picture = new Picture(extra, SIZE, { tabindex: 0, "data-key": "canvas", "aria-label": `An image of ${made.length} places. Arrow keys move from place to place in the order of making.` });
    const small = extra.small ? new Picture(extra.small, BESIDE, { "aria-label": "the small image" }) : null;
    const panel = make("div", { class: "lines-side" });
    const inSmall = map.keys === "small";
    let chosen = page.state.row === undefined ? null : clamp(page.state.row, map.rows);

    const choose = async (place) => {
      chosen = place;
      page.note({ row: place });
      const weights = await weightsOf(map, head, place);
      if (chosen !== place) return; // the pointer went on meanwhile
      picture.plain();
      small?.plain();
      if (rows === made) {
        (inSmall ? small : picture).lit(keys, weights);
        const { block, memory } = blockOf(extra, place, made);
        picture.outline([...memory, ...block], "rgba(120, 190, 255, 0.9)");
        picture.outline(block, "rgba(255, 255, 255, 0.95)");
        picture.frame(made[place].box, "#ff5a36", { width: 3 });
      } else small.lit(keys, weights);
      const score = rows === made && data.answered === "made" ? data.outputs[0]?.tokens[place]?.score : undefined;
      const told = score === undefined ? "looked" : `was foretold with ${number(-score / Math.LN2, 2)} bits by looking`;
      panel.replaceChildren(distribution({ labels: keys.map((item) => item.text), weights, title: rows[place].text, head, subtitle: `${told} at · ${head < 0 ? "mean of heads" : `head ${head + 1}`}` }));
    };

    const shown = (place) => {
      picture.plain();
      if (place === null) return chosen === null ? undefined : choose(chosen);
      picture.context.fillStyle = "rgba(90, 96, 110, 0.96)";
      made.slice(place).forEach((item) => picture.context.fillRect(...picture.edges(item.box)));
      const { block } = blockOf(extra, Math.min(place, made.length - 1), made);
      picture.outline(block, "rgba(255, 255, 255, 0.95)");
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

    const heads = [{ key: -1, label: "mean" }, ...Array.from({ length: map.heads }, (_, i) => ({ key: i, label: String(i + 1) }))];
    const labelled = (title, one) => make("figure", { class: "pictured" }, one.canvas, make("figcaption", { class: "quiet" }, title));
    const bicubic = extra.bicubic ? new Picture({ ...extra, pixels: extra.bicubic }, BESIDE, { "aria-label": "bicubic interpolation" }) : null;
    const truth = extra.truth ? new Picture({ ...extra, pixels: extra.truth }, BESIDE, { "aria-label": "the true image" }) : null;
    element.append(
      make("div", { class: "controls" }, play.button,
        select("Map", data.maps.map((one) => ({ key: one.name, label: one.title })), map.name, (name) => page.change({ map: name, row: undefined })),
        choice("Head", heads, head, (key) => page.change({ head: key })),
        make("span", { class: "quiet" }, make("span", { style: { color: headColour(0) } }, "□ "), extra.blocks.length ? "white: its block; blue: the memory it may look at" : "blue: what it may look at")),
      make("section", { class: "card split" },
        make("div", { class: "pictures" }, labelled("made", picture),
          small ? labelled(`given, ${extra.small.height}x${extra.small.width}`, small) : null,
          bicubic ? labelled("bicubic", bicubic) : null, truth ? labelled("true", truth) : null), panel));
    if (chosen === null) panel.append(make("p", { class: "quiet hint" }, "Point at a pixel, or move with the arrow keys, to see what it looked at before it was made."));
    else choose(chosen);
    return () => play.stop();
  },
};
