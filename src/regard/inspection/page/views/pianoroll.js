// Music as a piano roll, to be heard and to be looked into: arcs of a chosen head from a token to the notes it looked at.

import { announce, choice, draw, make, number, select } from "../dom.js";
import { headColour } from "../color.js";
import { maximum } from "../data.js";
import { distribution } from "../distribution.js";
import { clamp } from "../state.js";
import { say } from "../i18n.js";

const ROW = 9; // pixels of a semitone
const EDGE = 34; // pixels left of time 0: the names of octaves, and the start mark
const LABEL = 36; // pixels that the name of a second needs
const FAINT = 0.15; // of the strongest: weaker looks are not drawn
const MOST = 40; // arcs drawn at once

function scale(roll, width) {
  const end = Math.max(1, ...roll.notes.map((note) => note[1]));
  const pitches = roll.notes.map((note) => note[2]);
  const [low, high] = [Math.min(...pitches) - 2, Math.max(...pitches) + 2];
  const second = Math.max(36, (width - EDGE - 8) / end);
  return { end, low, high, second, width: EDGE + end * second + 8, height: (high - low + 1) * ROW,
    x: (seconds) => EDGE + seconds * second, y: (pitch) => (high - pitch + 0.5) * ROW };
}

function board(roll, place) {
  const lines = [];
  for (let pitch = Math.ceil(place.low / 12) * 12; pitch <= place.high; pitch += 12) {
    lines.push(draw("line", { x1: EDGE, x2: place.width, y1: place.y(pitch), y2: place.y(pitch), stroke: "currentColor", "stroke-opacity": 0.15 }),
      draw("text", { x: 2, y: place.y(pitch), "dominant-baseline": "central", "font-size": 11, fill: "currentColor" }, `C${pitch / 12 - 1}`));
  }
  for (let second = 0; second <= place.end; second += 5) {
    const before = place.x(second) + LABEL > place.width; // at the right edge there is room on the left of the line alone
    lines.push(draw("line", { x1: place.x(second), x2: place.x(second), y1: 0, y2: place.height, stroke: "currentColor", "stroke-opacity": 0.12 }),
      draw("text", { x: place.x(second) + (before ? -3 : 3), y: place.height - 4, "text-anchor": before ? "end" : "start", "font-size": 10, fill: "currentColor", "fill-opacity": 0.6 }, `${second} s`));
  }
  const notes = roll.notes.map(([start, end, pitch, voice]) => draw("rect", {
    class: "roll-note", x: place.x(start), y: place.y(pitch) - ROW / 2 + 0.5, width: Math.max(2, (end - start) * place.second - 1), height: ROW - 1, rx: 2,
    fill: headColour(voice), "fill-opacity": 0.75,
  }));
  return [...lines, ...notes];
}

// Where an item is drawn: a note at its place, a mark at the left edge; what has no place (a rest) nowhere.
function spotOf(item, place) {
  if (item.time !== undefined && item.pitch !== undefined) return [place.x(item.time), place.y(item.pitch)];
  return item.special ? [EDGE / 2, place.height / 2] : null;
}

function arcs(items, place, weights, { from, head }) {
  const top = maximum(weights) || 1;
  const strongest = Array.from(weights, (weight, key) => [weight / top, key]).filter(([share]) => share >= FAINT)
    .sort((a, b) => b[0] - a[0]).slice(0, MOST);
  return strongest.flatMap(([share, key]) => {
    const to = spotOf(items[key], place);
    if (!to) return [];
    const lift = Math.min(place.height * 0.45, 12 + Math.abs(from[0] - to[0]) * 0.25);
    const aside = Math.abs(from[0] - to[0]) < 20 ? 14 : 0; // notes of one moment: the arc bends to the left
    const peak = Math.max(2, Math.min(from[1], to[1]) - lift);
    return [draw("path", { class: "roll-arc", d: `M${from[0]} ${from[1]}Q${(from[0] + to[0]) / 2 - aside} ${peak} ${to[0]} ${to[1]}`, fill: "none",
      stroke: headColour(head), "stroke-width": (0.6 + 4 * share).toFixed(2), "stroke-opacity": (0.2 + 0.7 * share).toFixed(2), "data-key-token": key })];
  });
}

// A struck, fading tone for each note, all given to the browser's clock at once.
class Player {
  constructor(roll, moved) {
    Object.assign(this, { roll, moved, context: null });
  }

  start() {
    const Context = window.AudioContext || window.webkitAudioContext;
    if (!Context) return announce(say`This browser cannot play sound.`);
    this.context = new Context();
    const loud = this.context.createGain();
    loud.gain.value = 0.16;
    loud.connect(this.context.destination);
    const begin = this.context.currentTime + 0.1;
    for (const [start, end, pitch, , velocity] of this.roll.notes) this.tone(loud, begin + start, end - start, { pitch, force: velocity / 127 });
    const last = Math.max(...this.roll.notes.map((note) => note[1]));
    const step = () => {
      if (!this.context) return;
      const now = this.context.currentTime - begin;
      this.moved(Math.max(0, now));
      if (now > last + 0.3) this.stop();
      else this.frame = requestAnimationFrame(step);
    };
    this.frame = requestAnimationFrame(step);
  }

  tone(loud, at, length, { pitch, force }) {
    const [source, gain] = [this.context.createOscillator(), this.context.createGain()];
    source.type = "triangle";
    source.frequency.value = 440 * 2 ** ((pitch - 69) / 12);
    gain.gain.setValueAtTime(0, at);
    gain.gain.linearRampToValueAtTime(force, at + 0.008);
    gain.gain.setTargetAtTime(force * 0.25, at + 0.01, 0.7);
    gain.gain.setTargetAtTime(0, at + length, 0.05);
    source.connect(gain).connect(loud);
    source.start(at);
    source.stop(at + length + 0.3);
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.context?.close();
    this.context = null;
    this.moved(null);
  }
}

// The item whose place on the roll is nearest to a point.
function nearest(items, place, [x, y]) {
  let [best, least] = [0, Infinity];
  items.forEach((item, i) => {
    const spot = spotOf(item, place);
    const away = spot ? Math.hypot(spot[0] - x, 2 * (spot[1] - y)) : Infinity;
    if (away < least) [best, least] = [i, away];
  });
  return best;
}

function playButton(player) {
  const button = make("button", { type: "button", class: "chip word-chip", "data-key": "roll:play", style: { "--chip": headColour(0) } }, say`▶ Play`);
  const label = (playing) => {
    button.textContent = playing ? say`■ Stop` : say`▶ Play`;
  };
  button.addEventListener("click", () => (player.context ? player.stop() : player.start(), label(Boolean(player.context))));
  return { button, label };
}

export const view = {
  name: "pianoroll",
  title: say`Piano roll`,
  opens: true, // the page begins with it
  suits: (data) => Boolean(data.extra.roll?.notes.length) && data.maps.length > 0,
  show(data, element, page) {
    const { roll } = data.extra;
    const map = data.map(page.state.map);
    const [queries, keys] = [data.items(map.queries), data.items(map.keys)];
    const head = clamp(page.state.head, map.heads);
    page.looked = { map, head };
    const place = scale(roll, element.clientWidth - 48);
    const [layer, cursor] = [draw("g"), draw("line", { y1: 0, y2: place.height, stroke: "currentColor", "stroke-width": 1.5, visibility: "hidden" })];
    const panel = make("div", { class: "lines-side" });
    let chosen = page.state.row === undefined ? null : clamp(page.state.row, map.rows);

    const choose = async (token) => {
      chosen = token;
      page.note({ row: token });
      const weights = await map.rowLater(head, token);
      // What sounds nowhere is drawn where the token before it is.
      const from = spotOf(queries[token], place) || spotOf(queries[token - 1] || {}, place) || [EDGE, place.height / 2];
      layer.replaceChildren(...arcs(keys, place, weights, { from, head }),
        draw("circle", { class: "roll-chosen", cx: from[0], cy: from[1], r: 5, fill: "none", stroke: "currentColor", "stroke-width": 2 }));
      const score = map.queries === data.answered ? data.outputs[0]?.tokens[token]?.score : undefined;
      panel.replaceChildren(distribution({ labels: data.labels(map.keys), weights, title: queries[token].text, head,
        subtitle: `${score === undefined ? say`looks at` : say`was foretold with ${number(-score, 2)} nats by looking at`} · ${say`head ${head + 1}`}` }));
    };

    const picture = draw("svg", { width: place.width, height: place.height, class: "roll", role: "application", tabindex: 0, "data-key": "roll",
      "aria-label": say`Piano roll of ${roll.notes.length} notes. Arrow keys move from token to token.`,
      onclick: (event) => {
        const box = picture.getBoundingClientRect();
        choose(nearest(queries, place, [event.clientX - box.left, event.clientY - box.top]));
      },
      onkeydown: (event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!by) return;
        event.preventDefault();
        choose(Math.min(map.rows - 1, Math.max(0, (chosen ?? -1) + by))).then(() => announce(queries[chosen].text));
      },
    }, board(roll, place), layer, cursor);

    const player = new Player(roll, (seconds) => {
      cursor.setAttribute("visibility", seconds === null ? "hidden" : "visible");
      if (seconds === null) return play.label(false);
      cursor.setAttribute("x1", place.x(seconds));
      cursor.setAttribute("x2", place.x(seconds));
    });
    const play = playButton(player);
    const voices = roll.voices.map((name, i) => make("span", { class: "quiet" }, make("span", { style: { color: headColour(i) } }, "■ "), name));
    element.append(
      make("div", { class: "controls" }, play.button,
        select(say`Map`, data.maps.map((one) => ({ key: one.name, label: one.title })), map.name, (name) => page.change({ map: name })),
        choice(say`Head`, Array.from({ length: map.heads }, (_, i) => ({ key: i, label: String(i + 1) })), head, (key) => page.change({ head: key })), voices),
      make("section", { class: "card" }, make("div", { class: "scroll", style: { "overflow-x": "auto" } }, picture), panel));
    if (chosen === null) panel.append(make("p", { class: "quiet hint" }, say`Click a note, or move with the arrow keys, to see what the chosen head looked at before it.`));
    else choose(chosen);
    return () => player.stop();
  },
};
