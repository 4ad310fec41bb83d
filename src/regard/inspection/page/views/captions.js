// An image that was told in words: for each word where the model looked, played word by word; several runs side by side; and what is
// said when a part of the image is greyed out.

import { announce, choice, make, number, select, visible } from "../dom.js";
import { headColour } from "../color.js";
import { Picture } from "../image_canvas.js";
import { clamp } from "../state.js";
import { say } from "../i18n.js";

const SIZE = 384;
const NARROW = 300; // of each image where runs stand side by side
const PACE = 800; // milliseconds a word
const CELLS = "cells";

const cellMaps = (run) => run.maps.filter((map) => map.keys === CELLS);
const nameOf = (run) => run.facts?.run || run.model;

// Weights over the cells for a word: of one head, or the mean of all.
function looked(map, head, row) {
  return map.numbers(head < map.heads ? head : -1).subarray(row * map.columns, (row + 1) * map.columns);
}

// One run: its image, lit where it looked for the chosen word, and its sentence.
class CaptionView {
  constructor(run, page, { size, choose }) {
    const maps = cellMaps(run);
    this.run = run;
    this.map = maps.find((one) => one.name === page.state.map) || maps.at(-1);
    this.head = this.map ? clamp(page.state.head, this.map.heads, -1) : -1;
    this.cells = run.items(CELLS);
    this.words = run.items("words");
    this.picture = new Picture(run.extra.captions, size, { "data-key": `caption:${nameOf(run)}`, "aria-label": say`the image, lit where the model looked` });
    this.buttons = this.words.map((word, i) => make("button", { type: "button", class: "chip word-chip", "data-word": i, "data-key": `word:${nameOf(run)}:${i}`, style: { "--chip": headColour(0) },
      "aria-pressed": "false", onpointerenter: () => choose(i), onfocus: () => choose(i), onclick: () => choose(i) }, visible(word.text)));
    this.says = make("p", { class: "readout quiet" }, this.map ? say`Point at a word to see where the model looked for it.` : say`No attention: the whole image is one vector, the same for every word.`);
  }

  draw(row) {
    this.picture.plain();
    this.buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === row)));
    if (row === null || row >= this.words.length || !this.map) return;
    const weights = looked(this.map, this.head, row);
    const best = weights.indexOf(Math.max(...weights));
    this.picture.lit(this.cells, weights);
    this.picture.frame(this.cells[best].box, "#ff5a36", { width: 3 });
    const token = this.run.outputs?.[0]?.tokens[row];
    const others = (token?.alternatives || []).filter(([text]) => text !== token.text).slice(0, 2).map(([text, score]) => `${visible(text)} ${number(Math.exp(score), 2)}`);
    this.says.replaceChildren(make("b", {}, visible(this.words[row].text)), ` ${say`looked most at cell ${this.cells[best].text} (${number(weights[best], 2)})`}`,
      token ? ` · p ${number(Math.exp(token.score), 2)}` : "", others.length ? ` · ${say`or else ${others.join(", ")}`}` : "");
  }

  card(several) {
    const words = make("div", { class: "chips caption-words", role: "group", "aria-label": say`The caption, word by word` }, this.buttons);
    return make("section", { class: "card told", "data-run": nameOf(this.run) }, several ? make("h2", {}, nameOf(this.run)) : null,
      make("p", { class: "spoken-text" }, this.run.outputs?.[0]?.text || ""), this.picture.canvas, words, this.says);
  }
}

// What a run says when a part of the image is greyed out: computed for every part, so it works without a server.
function whatIf(run, several) {
  const { again } = run.extra.captions;
  const whole = run.outputs?.[0]?.text || "";
  const picture = new Picture(run.extra.captions, 224, { role: "application", tabindex: 0, "data-key": `grey:${nameOf(run)}`, "aria-label": say`choose a part of the image to grey out; arrow keys move it` });
  const says = make("p", { class: "spoken-text again-text" }, whole);
  const across = Math.round(1 / (again[0].box[2] - again[0].box[0]));
  let chosen = -1;
  const pick = (i) => {
    chosen = i;
    picture.plain();
    again.forEach((one) => picture.frame(one.box, "rgba(255, 255, 255, 0.28)", { width: 1 }));
    if (i >= 0) {
      picture.context.fillStyle = "rgb(128, 128, 128)";
      picture.context.fillRect(...picture.edges(again[i].box));
    }
    const text = i < 0 ? whole : again[i].text;
    says.replaceChildren(text, make("span", { class: "quiet" }, ` ${i < 0 ? say`(nothing greyed out)` : text === whole ? say`(unchanged)` : say`(changed)`}`));
  };
  picture.canvas.addEventListener("pointermove", (event) => pick(picture.under(again, event)));
  picture.canvas.addEventListener("pointerleave", () => pick(-1));
  picture.canvas.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
    if (!by) return;
    event.preventDefault();
    pick(Math.max(0, Math.min(again.length - 1, chosen < 0 ? 0 : chosen + by)));
    announce(again[chosen].text);
  });
  pick(-1);
  return make("figure", { class: "pictured what-if" }, several ? make("figcaption", { class: "quiet" }, nameOf(run)) : null, picture.canvas, says);
}

export const view = {
  name: "captions",
  title: say`Caption`,
  opens: true, // the page begins with it
  suits: (data) => Boolean(data.extra.captions),
  beside: true,
  show(data, element, page) {
    const runs = page.runs.filter((run) => run.extra?.captions);
    const several = runs.length > 1;
    const longest = Math.max(...runs.map((run) => run.items("words").length));
    let row = page.state.row === undefined ? null : clamp(page.state.row, longest);
    let timer = null;
    const choose = (i, { playing = false } = {}) => {
      if (!playing) stop();
      row = i;
      page.note({ row: i === null ? undefined : i });
      tellers.forEach((teller) => teller.draw(i));
    };
    const tellers = runs.map((run) => new CaptionView(run, page, { size: several ? NARROW : SIZE, choose }));
    const [{ map, head }] = [tellers.find((teller) => teller.map) || tellers[0]];
    if (map) page.looked = { map, head };
    const button = make("button", { type: "button", class: "chip word-chip", "data-key": "caption:play", style: { "--chip": headColour(0) }, onclick: () => (timer ? stop() : play()) }, say`▶ Play`);
    const stop = () => {
      clearInterval(timer);
      timer = null;
      button.textContent = say`▶ Play`;
    };
    const play = () => {
      button.textContent = say`■ Stop`;
      choose(0, { playing: true });
      timer = setInterval(() => (row + 1 < longest ? choose(row + 1, { playing: true }) : stop()), PACE);
    };
    const maps = map && !several ? cellMaps(data) : [];
    const heads = map && map.heads > 1 ? [{ key: -1, label: say`mean` }, ...Array.from({ length: map.heads }, (_, i) => ({ key: i, label: String(i + 1) }))] : [];
    element.append(
      make("div", { class: "controls" }, button,
        maps.length > 1 ? select(say`Layer`, maps.map((one) => ({ key: one.name, label: one.title })), map.name, (name) => page.change({ map: name })) : null,
        heads.length ? choice(say`Head`, heads, head, (key) => page.change({ head: key })) : null),
      make("div", { class: several ? "side-by-side" : "" }, tellers.map((teller) => teller.card(several))),
      make("section", { class: "card" }, make("h2", {}, say`What if a part were grey?`),
        make("p", { class: "quiet" }, say`Point at a part of the image: it is greyed out, and the model tells the image again.`),
        make("div", { class: "pictures" }, runs.map((run) => whatIf(run, several)))));
    tellers.forEach((teller) => teller.draw(row));
    return stop;
  },
};
