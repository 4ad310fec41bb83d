// Image caption: the attention for each word, played word by word; several runs side by side; the caption when a part of the image
// is greyed out.

import { announce, choice, make, formatNumber, percent, select, visible } from "../dom.js";
import { headColor } from "../color.js";
import { ImageCanvas, highlightLegend } from "../image_canvas.js";
import { clamp } from "../state.js";
import { t } from "../i18n.js";

const IMAGE_PIXELS = 384;
const COMPARED_IMAGE_PIXELS = 300; // of each image when runs are side by side
const WORD_MILLISECONDS = 800; // per word
const CELL_AXIS = "cells";

const cellMaps = (run) => run.maps.filter((map) => map.keys === CELL_AXIS);
const nameOf = (run) => run.facts?.run || run.model;

// Weights over the cells for a word: of one head, or the mean of all heads.
function cellWeights(map, head, row) {
  return map.weights(head < map.heads ? head : -1).subarray(row * map.columns, (row + 1) * map.columns);
}

// One run: its image with the attention for the selected word, and its caption.
class CaptionView {
  constructor(run, page, { size, choose }) {
    const maps = cellMaps(run);
    this.run = run;
    this.map = maps.find((candidate) => candidate.name === page.state.map) || maps.at(-1);
    this.head = this.map ? clamp(page.state.head, this.map.heads, -1) : -1;
    this.cells = run.items(CELL_AXIS);
    this.words = run.items("words");
    this.image = new ImageCanvas(run.extra.captions, size, { "data-key": `caption:${nameOf(run)}`, "aria-label": t`image with the model's attention highlighted` });
    this.buttons = this.words.map((word, i) => make("button", { type: "button", class: "chip word-chip", "data-word": i, "data-key": `word:${nameOf(run)}:${i}`, style: { "--chip": headColor(0) },
      "aria-pressed": "false", onpointerenter: () => choose(i), onfocus: () => choose(i), onclick: () => choose(i) }, visible(word.text)));
    this.scale = make("div", {});
    this.readout = make("p", { class: "readout quiet" }, this.map ? t`Hover over a word to see what the model attends to when it generates the word.` : t`No attention: the entire image is one vector, the same for every word.`);
  }

  draw(row) {
    this.image.reset();
    this.buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === row)));
    if (row === null || row >= this.words.length || !this.map) return;
    const weights = cellWeights(this.map, this.head, row);
    const best = weights.indexOf(Math.max(...weights));
    this.image.highlight(this.cells, weights);
    this.scale.replaceChildren(highlightLegend(weights));
    this.image.frame(this.cells[best].box, "#ff5a36", { width: 3 });
    const token = this.run.outputs?.[0]?.tokens[row];
    const alternatives = (token?.alternatives || []).filter(([text]) => text !== token.text).slice(0, 2).map(([text, score]) => `${visible(text)} ${percent(score)}`);
    this.readout.replaceChildren(make("b", {}, visible(this.words[row].text)), ` ${t`attends most to cell ${this.cells[best].text} (${formatNumber(weights[best], 2)})`}`,
      token ? ` · ${t`probability ${percent(token.score)}`}` : "", alternatives.length ? ` · ${t`alternatives: ${alternatives.join(", ")}`}` : "");
  }

  card(isComparison) {
    const words = make("div", { class: "chips caption-words", role: "group", "aria-label": t`The caption, word by word` }, this.buttons);
    return make("section", { class: "card caption-card", "data-run": nameOf(this.run) }, isComparison ? make("h2", {}, nameOf(this.run)) : null,
      isComparison ? make("p", { class: "spoken-text" }, this.run.outputs?.[0]?.text || "") : null, this.image.canvas, this.scale, words, this.readout);
  }
}

// The caption when a part of the image is greyed out, precomputed for every part, so it works without a server.
function whatIf(run, isComparison) {
  const { again: parts } = run.extra.captions;
  const original = run.outputs?.[0]?.text || "";
  const image = new ImageCanvas(run.extra.captions, 224, { role: "application", tabindex: 0, "data-key": `grey:${nameOf(run)}`, "aria-label": t`select a part of the image to grey out; arrow keys move the selection` });
  const caption = make("p", { class: "spoken-text again-text" }, original);
  const across = Math.round(1 / (parts[0].box[2] - parts[0].box[0]));
  let chosen = -1;
  const pick = (i) => {
    chosen = i;
    image.reset();
    parts.forEach((part) => image.frame(part.box, "rgba(255, 255, 255, 0.28)", { width: 1 }));
    if (i >= 0) {
      image.context.fillStyle = "rgb(128, 128, 128)";
      image.context.fillRect(...image.toPixels(parts[i].box));
    }
    const text = i < 0 ? original : parts[i].text;
    caption.replaceChildren(text, make("span", { class: "quiet" }, ` ${i < 0 ? t`(nothing greyed out)` : text === original ? t`(unchanged)` : t`(changed)`}`));
  };
  image.canvas.addEventListener("pointermove", (event) => pick(image.itemAt(parts, event)));
  image.canvas.addEventListener("pointerleave", () => pick(-1));
  image.canvas.addEventListener("keydown", (event) => {
    const offset = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
    if (!offset) return;
    event.preventDefault();
    pick(Math.max(0, Math.min(parts.length - 1, chosen < 0 ? 0 : chosen + offset)));
    announce(parts[chosen].text);
  });
  pick(-1);
  return make("figure", { class: "pictured what-if" }, isComparison ? make("figcaption", { class: "quiet" }, nameOf(run)) : null, image.canvas, caption);
}

export const view = {
  name: "captions",
  title: t`Caption`,
  opensFirst: true, // the page opens with this view
  suits: (data) => Boolean(data.extra.captions),
  sidePanel: true,
  show(data, element, page) {
    const runs = page.runs.filter((run) => run.extra?.captions);
    const isComparison = runs.length > 1;
    const wordCount = Math.max(...runs.map((run) => run.items("words").length));
    let row = clamp(page.state.row, wordCount); // the first word is selected first, so that its attention is visible at once
    let timer = null;
    const choose = (i, { playing = false } = {}) => {
      if (!playing) stop();
      row = i;
      page.updateState({ row: i === null ? undefined : i });
      captionViews.forEach((captionView) => captionView.draw(i));
    };
    const captionViews = runs.map((run) => new CaptionView(run, page, { size: isComparison ? COMPARED_IMAGE_PIXELS : IMAGE_PIXELS, choose }));
    const [{ map, head }] = [captionViews.find((captionView) => captionView.map) || captionViews[0]];
    if (map) page.selection = { map, head };
    const button = make("button", { type: "button", class: "chip word-chip", "data-key": "caption:play", style: { "--chip": headColor(0) }, onclick: () => (timer ? stop() : play()) }, t`▶ Play`);
    const stop = () => {
      clearInterval(timer);
      timer = null;
      button.textContent = t`▶ Play`;
    };
    const play = () => {
      button.textContent = t`■ Stop`;
      choose(0, { playing: true });
      timer = setInterval(() => (row + 1 < wordCount ? choose(row + 1, { playing: true }) : stop()), WORD_MILLISECONDS);
    };
    const maps = map && !isComparison ? cellMaps(data) : [];
    const heads = map && map.heads > 1 ? [{ key: -1, label: t`mean` }, ...Array.from({ length: map.heads }, (_, i) => ({ key: i, label: String(i + 1) }))] : [];
    element.append(
      make("div", { class: "controls" }, button,
        maps.length > 1 ? select(t`Layer`, maps.map((entry) => ({ key: entry.name, label: entry.title })), map.name, (name) => page.change({ map: name })) : null,
        heads.length ? choice(t`Head`, heads, head, (key) => page.change({ head: key })) : null),
      make("div", { class: isComparison ? "side-by-side" : "" }, captionViews.map((captionView) => captionView.card(isComparison))),
      make("section", { class: "card" }, make("h2", {}, t`What if a part is greyed out?`),
        make("p", { class: "quiet" }, t`Hover over a part of the image: it is greyed out, and the model generates the caption again.`),
        make("div", { class: "pictures" }, runs.map((run) => whatIf(run, isComparison)))));
    captionViews.forEach((captionView) => captionView.draw(row));
    return stop;
  },
};
