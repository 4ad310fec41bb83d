// Piano roll with playback; arcs of a selected head connect a token with the notes it attends to.

import { announce, choice, draw, make, percent, select } from "../dom.js";
import { headColor } from "../color.js";
import { maximum } from "../data.js";
import { distribution } from "../distribution.js";
import { clamp } from "../state.js";
import { t } from "../i18n.js";

const SEMITONE_PIXELS = 9; // height of a semitone
const LEFT_PIXELS = 34; // width left of time 0, for octave names and the start token
const TIME_LABEL_PIXELS = 36; // width of a time label
const MIN_SHARE = 0.15; // of the largest weight; smaller weights are not drawn
const MAX_ARCS = 40; // drawn at the same time

function computeLayout(roll, width) {
  const end = Math.max(1, ...roll.notes.map((note) => note[1]));
  const pitches = roll.notes.map((note) => note[2]);
  const [low, high] = [Math.min(...pitches) - 2, Math.max(...pitches) + 2];
  const second = Math.max(36, (width - LEFT_PIXELS - 8) / end);
  return { end, low, high, second, width: LEFT_PIXELS + end * second + 8, height: (high - low + 1) * SEMITONE_PIXELS,
    x: (seconds) => LEFT_PIXELS + seconds * second, y: (pitch) => (high - pitch + 0.5) * SEMITONE_PIXELS };
}

function background(roll, layout) {
  const lines = [];
  for (let pitch = Math.ceil(layout.low / 12) * 12; pitch <= layout.high; pitch += 12) {
    lines.push(draw("line", { x1: LEFT_PIXELS, x2: layout.width, y1: layout.y(pitch), y2: layout.y(pitch), stroke: "currentColor", "stroke-opacity": 0.15 }),
      draw("text", { x: 2, y: layout.y(pitch), "dominant-baseline": "central", "font-size": 11, fill: "currentColor" }, `C${pitch / 12 - 1}`));
  }
  for (let second = 0; second <= layout.end; second += 5) {
    const leftOfLine = layout.x(second) + TIME_LABEL_PIXELS > layout.width; // at the right edge there is only room on the left of the line
    lines.push(draw("line", { x1: layout.x(second), x2: layout.x(second), y1: 0, y2: layout.height, stroke: "currentColor", "stroke-opacity": 0.12 }),
      draw("text", { x: layout.x(second) + (leftOfLine ? -3 : 3), y: layout.height - 4, "text-anchor": leftOfLine ? "end" : "start", "font-size": 10, fill: "currentColor", "fill-opacity": 0.6 }, `${second} s`));
  }
  const notes = roll.notes.map(([start, end, pitch, voice]) => draw("rect", {
    class: "roll-note", x: layout.x(start), y: layout.y(pitch) - SEMITONE_PIXELS / 2 + 0.5, width: Math.max(2, (end - start) * layout.second - 1), height: SEMITONE_PIXELS - 1, rx: 2,
    fill: headColor(voice), "fill-opacity": 0.75,
  }));
  return [...lines, ...notes];
}

// Point at which an item is drawn: notes by time and pitch, special tokens at the left edge, others (rests) not at all.
function pointOf(item, layout) {
  if (item.time !== undefined && item.pitch !== undefined) return [layout.x(item.time), layout.y(item.pitch)];
  return item.special ? [LEFT_PIXELS / 2, layout.height / 2] : null;
}

function arcs(items, layout, weights, { from, head }) {
  const top = maximum(weights) || 1;
  const strongest = Array.from(weights, (weight, key) => [weight / top, key]).filter(([share]) => share >= MIN_SHARE)
    .sort((a, b) => b[0] - a[0]).slice(0, MAX_ARCS);
  return strongest.flatMap(([share, key]) => {
    const to = pointOf(items[key], layout);
    if (!to) return [];
    const height = Math.min(layout.height * 0.45, 12 + Math.abs(from[0] - to[0]) * 0.25);
    const bend = Math.abs(from[0] - to[0]) < 20 ? 14 : 0; // notes at the same time: the arc bends to the left
    const peak = Math.max(2, Math.min(from[1], to[1]) - height);
    return [draw("path", { class: "roll-arc", d: `M${from[0]} ${from[1]}Q${(from[0] + to[0]) / 2 - bend} ${peak} ${to[0]} ${to[1]}`, fill: "none",
      stroke: headColor(head), "stroke-width": (0.6 + 4 * share).toFixed(2), "stroke-opacity": (0.2 + 0.7 * share).toFixed(2), "data-key-token": key })];
  });
}

// A decaying tone for each note; all notes are scheduled in advance on the audio clock.
class Player {
  constructor(roll, onProgress) {
    Object.assign(this, { roll, onProgress, context: null });
  }

  start() {
    const Context = window.AudioContext || window.webkitAudioContext;
    if (!Context) return announce(t`This browser cannot play sound.`);
    this.context = new Context();
    const volume = this.context.createGain();
    volume.gain.value = 0.16;
    volume.connect(this.context.destination);
    const startTime = this.context.currentTime + 0.1;
    for (const [start, end, pitch, , velocity] of this.roll.notes) this.tone(volume, startTime + start, end - start, { pitch, force: velocity / 127 });
    const last = Math.max(...this.roll.notes.map((note) => note[1]));
    const step = () => {
      if (!this.context) return;
      const now = this.context.currentTime - startTime;
      this.onProgress(Math.max(0, now));
      if (now > last + 0.3) this.stop();
      else this.frame = requestAnimationFrame(step);
    };
    this.frame = requestAnimationFrame(step);
  }

  tone(volume, at, length, { pitch, force }) {
    const [source, gain] = [this.context.createOscillator(), this.context.createGain()];
    source.type = "triangle";
    source.frequency.value = 440 * 2 ** ((pitch - 69) / 12);
    gain.gain.setValueAtTime(0, at);
    gain.gain.linearRampToValueAtTime(force, at + 0.008);
    gain.gain.setTargetAtTime(force * 0.25, at + 0.01, 0.7);
    gain.gain.setTargetAtTime(0, at + length, 0.05);
    source.connect(gain).connect(volume);
    source.start(at);
    source.stop(at + length + 0.3);
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.context?.close();
    this.context = null;
    this.onProgress(null);
  }
}

// Return the index of the item nearest to a point.
function nearestItem(items, layout, [x, y]) {
  let [best, minDistance] = [0, Infinity];
  items.forEach((item, i) => {
    const point = pointOf(item, layout);
    const distance = point ? Math.hypot(point[0] - x, 2 * (point[1] - y)) : Infinity;
    if (distance < minDistance) [best, minDistance] = [i, distance];
  });
  return best;
}

function playButton(player) {
  const button = make("button", { type: "button", class: "chip word-chip", "data-key": "roll:play", style: { "--chip": headColor(0) } }, t`▶ Play`);
  const label = (playing) => {
    button.textContent = playing ? t`■ Stop` : t`▶ Play`;
  };
  button.addEventListener("click", () => (player.context ? player.stop() : player.start(), label(Boolean(player.context))));
  return { button, label };
}

export const view = {
  name: "pianoroll",
  title: t`Piano roll`,
  sidePanel: true,
  opensFirst: true, // the page opens with this view
  suits: (data) => Boolean(data.extra.roll?.notes.length) && data.maps.length > 0,
  show(data, element, page) {
    const { roll } = data.extra;
    const map = data.map(page.state.map);
    const [queries, keys] = [data.items(map.queries), data.items(map.keys)];
    const head = clamp(page.state.head, map.heads);
    page.selection = { map, head };
    const layout = computeLayout(roll, element.clientWidth - 48);
    const [arcLayer, cursor] = [draw("g"), draw("line", { y1: 0, y2: layout.height, stroke: "currentColor", "stroke-width": 1.5, visibility: "hidden" })];
    const panel = make("div", { class: "lines-side" });
    // A token in the middle is selected first, so that its attention is visible at once.
    let chosen = page.state.row === undefined ? Math.floor(map.rows / 2) : clamp(page.state.row, map.rows);

    const choose = async (token) => {
      chosen = token;
      page.updateState({ row: token });
      const weights = await map.loadRow(head, token);
      // A token without sound is drawn at the position of the previous token.
      const from = pointOf(queries[token], layout) || pointOf(queries[token - 1] || {}, layout) || [LEFT_PIXELS, layout.height / 2];
      arcLayer.replaceChildren(...arcs(keys, layout, weights, { from, head }),
        draw("circle", { class: "roll-chosen", cx: from[0], cy: from[1], r: 5, fill: "none", stroke: "currentColor", "stroke-width": 2 }));
      const score = map.queries === data.answered ? data.outputs[0]?.tokens[token]?.score : undefined;
      panel.replaceChildren(distribution({ labels: data.labels(map.keys), weights, title: queries[token].text, head, isOff: map.isOff(head),
        subtitle: `${score === undefined ? t`attends to` : t`was predicted with probability ${percent(score)}, attending to`} · ${t`head ${head + 1}`}` }));
    };

    const picture = draw("svg", { width: layout.width, height: layout.height, class: "roll", role: "application", tabindex: 0, "data-key": "roll",
      "aria-label": t`Piano roll with ${roll.notes.length} notes. Arrow keys move between tokens.`,
      onclick: (event) => {
        const box = picture.getBoundingClientRect();
        choose(nearestItem(queries, layout, [event.clientX - box.left, event.clientY - box.top]));
      },
      onkeydown: (event) => {
        const offset = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!offset) return;
        event.preventDefault();
        choose(Math.min(map.rows - 1, Math.max(0, (chosen ?? -1) + offset))).then(() => announce(queries[chosen].text));
      },
    }, background(roll, layout), arcLayer, cursor);

    const player = new Player(roll, (seconds) => {
      cursor.setAttribute("visibility", seconds === null ? "hidden" : "visible");
      if (seconds === null) return play.label(false);
      cursor.setAttribute("x1", layout.x(seconds));
      cursor.setAttribute("x2", layout.x(seconds));
    });
    const play = playButton(player);
    const voices = roll.voices.map((name, i) => make("span", { class: "quiet" }, make("span", { class: "voice-mark", style: { color: headColor(i) } }, "■ "), name));
    element.append(
      make("div", { class: "controls" }, play.button,
        select(t`Map`, data.maps.map((entry) => ({ key: entry.name, label: entry.title })), map.name, (name) => page.change({ map: name })),
        choice(t`Head`, Array.from({ length: map.heads }, (_, i) => ({ key: i, label: String(i + 1) })), head, (key) => page.change({ head: key })), voices),
      make("section", { class: "card" }, make("div", { class: "scroll", style: { "overflow-x": "auto" } }, picture), panel));
    element.append(make("p", { class: "quiet" }, t`Click a note, or move with the arrow keys, to see which earlier tokens the selected head attends to.`));
    choose(chosen);
    return () => player.stop();
  },
};
