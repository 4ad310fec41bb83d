// A generated image: hover a pixel to see its block, the memory of its block and the attention of each head;
// play the generation order.

import { announce, choice, make, percent, select } from "../dom.js";
import { distribution } from "../distribution.js";
import { ImageCanvas, headThumbnails, highlightLegend } from "../image_canvas.js";
import { clamp } from "../state.js";
import { t } from "../i18n.js";

const MAIN_PIXELS = 460; // of the large image
const SIDE_PIXELS = 220; // of the images next to it
const [BLOCK_COLOR, MEMORY_COLOR, PIXEL_COLOR] = ["rgba(255, 255, 255, 0.95)", "rgba(120, 190, 255, 0.9)", "#ff5a36"];
const PLAY_SECONDS = 8; // duration of the animation

// Return the items of the block that contains a position, and of the memory of that block.
function blockOf(extra, position, items) {
  const block = extra.blocks.findIndex(([first, end]) => position >= first && position < end);
  if (block < 0) return { block: [], memory: items.slice(0, position) };
  const [first, end] = extra.blocks[block];
  return { block: items.slice(first, end), memory: extra.memories[block].map((i) => items[i]) };
}

// Attention weights of every head for one row, and their mean.
const loadAllHeads = (map, row) => Promise.all(Array.from({ length: map.heads }, (_, i) => map.loadRow(i, row)));
const meanWeights = (headWeights) => headWeights[0].map((_, i) => headWeights.reduce((sum, weights) => sum + weights[i], 0) / headWeights.length);

function playButton(showStep, count) {
  let frame = null;
  const button = make("button", { type: "button", class: "chip word-chip", "data-key": "canvas:play" }, t`▶ Play`);
  const stop = () => {
    cancelAnimationFrame(frame);
    frame = null;
    button.textContent = t`▶ Play`;
    showStep(null);
  };
  const start = () => {
    const startTime = performance.now();
    button.textContent = t`■ Stop`;
    const tick = (now) => {
      const position = Math.floor(((now - startTime) / 1000 / PLAY_SECONDS) * count);
      if (position >= count) return stop();
      showStep(position);
      frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
  };
  button.addEventListener("click", () => (frame === null ? start() : stop()));
  return { button, stop };
}

export const view = {
  name: "canvas",
  title: t`Canvas`,
  sidePanel: true,
  opensFirst: true, // the page opens with this view
  suits: (data) => Boolean(data.extra.canvas) && data.maps.length > 0,
  show(data, element, page) {
    const { canvas: extra } = data.extra;
    const map = data.map(page.state.map);
    const [generated, keys] = [data.items("made"), data.items(map.keys)];
    const head = clamp(page.state.head, map.heads, -1);
    page.selection = { map, head };
    const rows = data.items(map.queries);
    const image = new ImageCanvas(extra, MAIN_PIXELS, { role: "application", tabindex: 0, "data-key": "canvas", "aria-label": t`Image with ${generated.length} positions. Arrow keys move between positions in generation order.` });
    const small = extra.small ? new ImageCanvas(extra.small, SIDE_PIXELS, { "aria-label": t`the small image` }) : null;
    const panel = make("div", { class: "lines-side" });
    const inSmall = map.keys === "small";
    const thumbnails = headThumbnails(inSmall ? extra.small : extra, map, head, (index) => page.change({ head: index }));
    // A position in the middle is selected first, so that its attention is visible at once.
    let chosen = page.state.row === undefined ? Math.floor(map.rows / 2) : clamp(page.state.row, map.rows);
    const scale = make("div", {});

    const choose = async (position) => {
      chosen = position;
      page.updateState({ row: position });
      const headWeights = await loadAllHeads(map, position);
      if (chosen !== position) return; // the pointer has moved meanwhile
      const weights = head < 0 ? meanWeights(headWeights) : headWeights[head];
      thumbnails.canvases.forEach((thumbnail, i) => {
        thumbnail.reset();
        thumbnail.highlight(keys, headWeights[i]);
        if (rows === generated && !inSmall) thumbnail.frame(generated[position].box, PIXEL_COLOR);
      });
      image.reset();
      small?.reset();
      scale.replaceChildren(highlightLegend(weights));
      if (rows === generated) {
        (inSmall ? small : image).highlight(keys, weights);
        const { block, memory } = blockOf(extra, position, generated);
        image.outline([...memory, ...block], MEMORY_COLOR);
        image.outline(block, BLOCK_COLOR);
        image.frame(generated[position].box, PIXEL_COLOR, { width: 3 });
      } else small.highlight(keys, weights);
      const score = rows === generated && data.answered === "made" ? data.outputs[0]?.tokens[position]?.score : undefined;
      const caption = score === undefined ? t`attends to` : t`was predicted with probability ${percent(score)}, attending to`;
      panel.replaceChildren(distribution({ labels: keys.map((item) => item.text), weights, title: rows[position].text, head, isOff: map.isOff(head), subtitle: `${caption} · ${head < 0 ? t`mean of heads` : t`head ${head + 1}`}` }));
    };

    const showProgress = (position) => {
      image.reset();
      if (position === null) return chosen === null ? undefined : choose(chosen);
      image.context.fillStyle = "rgba(90, 96, 110, 0.96)";
      generated.slice(position).forEach((item) => image.context.fillRect(...image.toPixels(item.box)));
      const { block } = blockOf(extra, Math.min(position, generated.length - 1), generated);
      image.outline(block, BLOCK_COLOR);
      return undefined;
    };
    const play = playButton(showProgress, generated.length);
    image.canvas.addEventListener("pointermove", (event) => {
      const position = rows === generated ? image.itemAt(generated, event) : -1;
      if (position >= 0 && position !== chosen) choose(position);
    });
    image.canvas.addEventListener("keydown", (event) => {
      const offset = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!offset) return;
      event.preventDefault();
      choose(Math.min(map.rows - 1, Math.max(0, (chosen ?? -1) + offset))).then(() => announce(rows[chosen].text));
    });
    small?.canvas.addEventListener("pointermove", (event) => {
      const position = rows === generated ? -1 : small.itemAt(rows, event);
      if (position >= 0 && position !== chosen) choose(position);
    });

    const headOptions = [{ key: -1, label: t`mean` }, ...Array.from({ length: map.heads }, (_, i) => ({ key: i, label: String(i + 1) }))];
    const figure = (title, image) => make("figure", { class: "pictured" }, image.canvas, make("figcaption", { class: "quiet" }, title));
    const bicubic = extra.bicubic ? new ImageCanvas({ ...extra, pixels: extra.bicubic }, SIDE_PIXELS, { "aria-label": t`bicubic interpolation` }) : null;
    const truth = extra.truth ? new ImageCanvas({ ...extra, pixels: extra.truth }, SIDE_PIXELS, { "aria-label": t`ground-truth image` }) : null;
    element.append(
      make("div", { class: "controls" }, play.button,
        select(t`Map`, data.maps.map((entry) => ({ key: entry.name, label: entry.title })), map.name, (name) => page.change({ map: name, row: undefined })),
        choice(t`Head`, headOptions, head, (key) => page.change({ head: key })),
        make("span", { class: "quiet" }, t`Hover over a pixel, or move with the arrow keys, to see what the model attends to when it generates the pixel.`),
        make("span", { class: "quiet" }, extra.blocks.length ? t`red: the pixel; white: its block; blue: the memory it may attend to` : t`red: the pixel; blue: what it may attend to`)),
      make("section", { class: "card split" },
        make("div", { class: "pictures" }, make("div", {}, figure(t`generated`, image), scale), thumbnails.element,
          small ? figure(t`input, ${extra.small.height}x${extra.small.width}`, small) : null,
          bicubic ? figure(t`bicubic`, bicubic) : null, truth ? figure(t`ground truth`, truth) : null), panel));
    choose(chosen);
    return () => play.stop();
  },
};
