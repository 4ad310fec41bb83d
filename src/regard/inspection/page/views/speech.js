// Speech: waveform and spectrogram with the attention of every token over time, playback of the attended span, the transcript when a
// span is silenced, and the n-best list. With a server: a recording from the microphone, and silence in any selected span.

import { announce, choice, formatNumber, make, percent, select, sharpCanvas, visible } from "../dom.js";
import { headColor, pixels } from "../color.js";
import { maximum, strongest } from "../data.js";
import { Microphone, SpanPlayer, decodeWav, encodeWav } from "../sound.js";
import { clamp } from "../state.js";
import { t } from "../i18n.js";
import { nbest } from "./alignment.js";

const FRAME_AXIS = "frames";
const LABEL_PIXELS = 84; // left of the time axis
const RIGHT_PIXELS = 16; // right of the time axis, for half of the last label
const [MIN_PLOT_PIXELS, SECOND_PIXELS] = [720, 260]; // width of the time axis and of a second, if there is room
const [WAVE_PIXELS, BAND_PIXELS, ROW_PIXELS, AXIS_PIXELS] = [64, 3, 20, 22]; // heights
const SPAN_SHARE = 0.8; // of the attention that is in the attended span
const MIN_SELECTION_SECONDS = 0.03;

const timeMaps = (data) => data.maps.filter((map) => map.keys === FRAME_AXIS && map.queries !== FRAME_AXIS && !map.long);

// The shortest span around the largest weight that has most of the attention, in seconds.
function attendedSpan(weights, stateSeconds) {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let low = strongest(weights);
  let high = low;
  let share = weights[low];
  while (share < SPAN_SHARE * total && (low > 0 || high < weights.length - 1)) {
    const [left, right] = [low > 0 ? weights[low - 1] : -1, high < weights.length - 1 ? weights[high + 1] : -1];
    if (left >= right) share += weights[--low];
    else share += weights[++high];
  }
  return [low * stateSeconds, (high + 1) * stateSeconds];
}

const seconds = ([start, stop]) => `${formatNumber(start, 2)}–${formatNumber(stop, 2)} s`;

// Waveform, spectrogram and one row of attention per token, on a common time axis.
class SpeechPicture {
  constructor(speech, tokens, weights, room) {
    const bytes = Uint8Array.from(atob(speech.spectrogram), (character) => character.charCodeAt(0));
    const { frames, bands } = speech;
    const upright = Float32Array.from({ length: frames * bands }, (_, i) => bytes[(i % frames) * bands + bands - 1 - Math.floor(i / frames)]);
    Object.assign(this, { speech, tokens, weights, source: pixels(upright, bands, frames, 255), row: null, selection: null, time: null });
    this.plotWidth = Math.max(240, Math.min(room - LABEL_PIXELS - RIGHT_PIXELS, Math.max(MIN_PLOT_PIXELS, speech.seconds * SECOND_PIXELS)));
    this.bandsHeight = bands * BAND_PIXELS;
    this.rowsTop = WAVE_PIXELS + this.bandsHeight + 6;
    this.height = this.rowsTop + tokens.length * ROW_PIXELS + AXIS_PIXELS;
    this.width = LABEL_PIXELS + this.plotWidth + RIGHT_PIXELS;
    Object.assign(this, sharpCanvas(this.width, this.height, { class: "picture speech-picture", role: "application", tabindex: 0, "data-key": "speech:picture",
      "aria-label": t`Waveform, spectrogram and the attention of ${tokens.length} tokens over time. Up and down select a token, Enter plays its span.` }));
  }

  x(time) {
    return LABEL_PIXELS + (time / this.speech.seconds) * this.plotWidth;
  }

  timeAt(event) {
    const area = this.canvas.getBoundingClientRect();
    const x = ((event.clientX - area.left) / area.width) * this.width;
    return Math.max(0, Math.min(this.speech.seconds, ((x - LABEL_PIXELS) / this.plotWidth) * this.speech.seconds));
  }

  rowAt(event) {
    const area = this.canvas.getBoundingClientRect();
    const row = Math.floor((((event.clientY - area.top) / area.height) * this.height - this.rowsTop) / ROW_PIXELS);
    return row >= 0 && row < this.tokens.length ? row : null;
  }

  draw() {
    const { context, speech } = this;
    const ink = getComputedStyle(document.body).color;
    context.clearRect(0, 0, this.width, this.height);
    this.drawWave(ink);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.source, LABEL_PIXELS, WAVE_PIXELS, this.plotWidth, this.bandsHeight);
    if (this.row !== null && this.weights) this.drawSpan();
    this.tokens.forEach((token, row) => this.drawRow(token, row, ink));
    context.fillStyle = ink;
    context.font = "12px sans-serif";
    context.textAlign = "center";
    const step = speech.seconds > 8 ? 2 : speech.seconds > 2 ? 1 : 0.5;
    for (let time = 0; time <= speech.seconds; time += step) context.fillText(`${time} s`, Math.max(LABEL_PIXELS + 8, this.x(time)), this.height - 6);
    if (this.selection) {
      context.fillStyle = "rgba(90, 130, 250, 0.25)";
      context.fillRect(this.x(this.selection[0]), 0, this.x(this.selection[1]) - this.x(this.selection[0]), this.rowsTop - 6);
    }
    if (this.time !== null) {
      context.fillStyle = "#ff5a36";
      context.fillRect(this.x(this.time) - 1, 0, 2, this.height - AXIS_PIXELS);
    }
  }

  drawWave(ink) {
    const { context, speech: { envelope } } = this;
    context.fillStyle = ink;
    context.globalAlpha = 0.7;
    const width = this.plotWidth / envelope.length;
    envelope.forEach(([low, high], i) => {
      const [top, bottom] = [high, low].map((value) => (WAVE_PIXELS / 2) * (1 - 0.94 * value));
      context.fillRect(LABEL_PIXELS + i * width, top, Math.max(1, width), Math.max(1, bottom - top));
    });
    context.globalAlpha = 1;
  }

  // Tint waveform and spectrogram by the attention of the selected token.
  drawSpan() {
    const weights = this.weights[this.row];
    const top = maximum(weights);
    this.context.fillStyle = "#ff8c1a";
    weights.forEach((weight, state) => {
      const [start, stop] = [state, state + 1].map((edge) => this.x(Math.min(this.speech.seconds, edge * this.speech.state_seconds)));
      this.context.globalAlpha = 0.6 * (weight / (top || 1));
      if (weight > 0.02 * top) this.context.fillRect(start, 0, stop - start, this.rowsTop - 6);
    });
    this.context.globalAlpha = 1;
  }

  drawRow(token, row, ink) {
    const { context } = this;
    const y = this.rowsTop + row * ROW_PIXELS;
    context.fillStyle = ink;
    context.textAlign = "right";
    context.font = `${row === this.row ? "700" : "400"} 13px sans-serif`;
    context.fillText(visible(token.text).slice(0, 12), LABEL_PIXELS - 8, y + 14);
    context.globalAlpha = 0.08;
    context.fillRect(LABEL_PIXELS, y + 1, this.plotWidth, ROW_PIXELS - 2);
    context.fillStyle = row === this.row ? "#ff8c1a" : headColor(0);
    const top = this.weights ? maximum(this.weights[row]) : 1;
    this.weights?.[row].forEach((weight, state) => {
      if (weight < 0.02 * top) return;
      const [start, stop] = [state, state + 1].map((edge) => this.x(Math.min(this.speech.seconds, edge * this.speech.state_seconds)));
      context.globalAlpha = weight / top;
      context.fillRect(start, y + 1, stop - start, ROW_PIXELS - 2);
    });
    context.globalAlpha = 1;
  }
}

// The transcript when a span is silenced, precomputed for every span, so it works without a server.
function whatIf(data) {
  const { again } = data.extra.speech;
  const original = data.outputs?.[0]?.text || "";
  const output = make("p", { class: "spoken-text again-text" }, original);
  const pick = (i) => {
    buttons.forEach((button, k) => button.setAttribute("aria-pressed", String(k === i)));
    const text = i < 0 ? original : again[i].text;
    output.replaceChildren(text, make("span", { class: "quiet" }, ` ${i < 0 ? t`(nothing silenced)` : text === original ? t`(unchanged)` : t`(changed)`}`));
    if (i >= 0) announce(text);
  };
  const buttons = again.map((part, i) => make("button", { type: "button", class: "chip word-chip", "data-key": `silence:${i}`, "data-span": i, style: { "--chip": headColor(1) },
    "aria-pressed": "false", onpointerenter: () => pick(i), onfocus: () => pick(i), onclick: () => pick(i) }, seconds(part.span)));
  pick(-1);
  return make("section", { class: "card" }, make("h2", {}, t`What if a span is silenced?`),
    make("p", { class: "quiet" }, t`Select a span: its samples are set to zero, and the model transcribes the recording again.`),
    make("div", { class: "chips" }, buttons), output);
}

// Button that records from the microphone and sends the recording to the server.
function microphoneButton(page) {
  if (!page.server || !Microphone.available) return null;
  const microphone = new Microphone();
  let recording = false;
  const button = make("button", { type: "button", class: "action", "data-key": "speech:record", disabled: page.server.busy, onclick: async () => {
    try {
      if (!recording) await microphone.start();
      else page.server.send(await microphone.stop());
      recording = !recording;
      button.textContent = recording ? t`■ Stop and transcribe` : t`● Record`;
    } catch (error) {
      page.server.showError(t`The microphone cannot be used: ${error.message}`);
    }
  } }, t`● Record`);
  return button;
}

// Silence a span of the recording and send the result to the server as a new recording.
function sendSilenced(page, sound, [start, stop]) {
  const samples = sound.samples.slice();
  samples.fill(0, Math.round(start * sound.rate), Math.round(stop * sound.rate));
  return page.server.send(new File([encodeWav(samples, sound.rate)], `silenced_${start.toFixed(2)}-${stop.toFixed(2)}.wav`));
}

// Controls of a span that the user selected by dragging over the waveform.
function selectionControls(page, player, sound) {
  const element = make("span", { class: "controls speech-selection" });
  const show = (span) => element.replaceChildren(...(span ? [
    make("span", { class: "figure" }, seconds(span)),
    make("button", { type: "button", class: "chip word-chip", style: { "--chip": headColor(0) }, onclick: () => player.play(span) }, t`▶ Play the selection`),
    page.server ? make("button", { type: "button", class: "chip word-chip", style: { "--chip": headColor(1) }, "data-key": "speech:silence", onclick: () => sendSilenced(page, sound, span) }, t`Silence the selection`) : "",
  ] : [make("span", { class: "quiet" }, t`Drag over the waveform to select a span.`)]));
  show(null);
  return { element, show };
}

export const view = {
  name: "speech",
  title: t`Speech`,
  opensFirst: true, // the page opens with this view
  suits: (data) => Boolean(data.extra.speech),
  sidePanel: true,
  show(data, element, page) {
    const { speech } = data.extra;
    const maps = timeMaps(data);
    const map = maps.find((candidate) => candidate.name === page.state.map) || maps.at(-1);
    const head = map ? clamp(page.state.head, map.heads, -1) : -1;
    if (map) page.selection = { map, head };
    const tokens = data.items("target");
    const weights = map ? tokens.map((_, row) => Array.from(map.row(head, row))) : null;
    const picture = new SpeechPicture(speech, tokens, weights, element.clientWidth - 48);
    const sound = decodeWav(speech.wav);
    const player = new SpanPlayer(sound, (time) => {
      picture.time = time;
      picture.draw();
      playButton.textContent = time === null ? t`▶ Play` : t`■ Stop`;
    });
    const playButton = make("button", { type: "button", class: "chip word-chip", "data-key": "speech:play", style: { "--chip": headColor(0) },
      onclick: () => (player.context ? player.stop() : player.play([0, speech.seconds])) }, t`▶ Play`);
    const readout = make("p", { class: "readout quiet" }, map ? t`Select a token to see and hear the span that it attends to.` : t`No attention: this model has no alignment of tokens and time.`);
    const selection = selectionControls(page, player, sound);
    const span = (row) => attendedSpan(weights[row], speech.state_seconds).map((edge) => Math.min(speech.seconds, edge));
    const choose = (row, { play = false } = {}) => {
      picture.row = row;
      page.updateState({ row });
      picture.draw();
      buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === row)));
      if (!weights) return;
      const token = data.outputs?.[0]?.tokens[row];
      const alternatives = (token?.alternatives || []).filter(([text]) => text !== token.text).slice(0, 2).map(([text, score]) => `${visible(text)} ${percent(score)}`);
      readout.replaceChildren(make("b", {}, visible(tokens[row].text)), ` ${t`attends to ${seconds(span(row))}`}`, token ? ` · ${t`probability ${percent(token.score)}`}` : "",
        alternatives.length ? ` · ${t`alternatives: ${alternatives.join(", ")}`}` : "");
      if (play) player.play(span(row));
    };
    const buttons = tokens.map((token, i) => make("button", { type: "button", class: "chip word-chip", "data-token": i, "data-key": `token:${i}`, style: { "--chip": headColor(0) }, "aria-pressed": "false",
      onpointerenter: () => choose(i), onfocus: () => choose(i), onclick: () => choose(i, { play: true }) }, visible(token.text)));
    let dragStart = null;
    picture.canvas.addEventListener("pointerdown", (event) => {
      const row = picture.rowAt(event);
      if (row !== null) choose(row, { play: true });
      else dragStart = picture.timeAt(event);
    });
    picture.canvas.addEventListener("pointermove", (event) => {
      const row = picture.rowAt(event);
      if (dragStart === null && row !== null && row !== picture.row) choose(row);
      if (dragStart === null) return;
      const edges = [dragStart, picture.timeAt(event)].sort((a, b) => a - b);
      picture.selection = edges[1] - edges[0] >= MIN_SELECTION_SECONDS ? edges : null;
      picture.draw();
    });
    const endDrag = () => {
      if (dragStart === null) return;
      dragStart = null;
      selection.show(picture.selection);
    };
    window.addEventListener("pointerup", endDrag);
    picture.canvas.addEventListener("keydown", (event) => {
      const offset = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (offset) choose(clamp((picture.row ?? -1) + offset, tokens.length));
      else if (event.key === "Enter" && picture.row !== null) choose(picture.row, { play: true });
      else return;
      event.preventDefault();
      announce(visible(tokens[picture.row].text));
    });
    const heads = map && map.heads > 1 ? [{ key: -1, label: t`mean` }, ...Array.from({ length: map.heads }, (_, i) => ({ key: i, label: String(i + 1) }))] : [];
    element.append(
      make("div", { class: "controls" }, playButton, microphoneButton(page),
        maps.length > 1 ? select(t`Layer`, maps.map((entry) => ({ key: entry.name, label: entry.title })), map.name, (name) => page.change({ map: name })) : null,
        heads.length ? choice(t`Head`, heads, head, (key) => page.change({ head: key })) : null),
      make("section", { class: "card" }, make("div", { class: "chips", role: "group", "aria-label": t`The transcript, token by token` }, buttons), readout,
        make("div", { class: "scroll" }, picture.canvas), selection.element),
      whatIf(data), nbest(data) || "");
    picture.draw();
    if (page.state.row !== undefined) choose(clamp(page.state.row, tokens.length));
    return () => {
      window.removeEventListener("pointerup", endDrag);
      player.stop();
    };
  },
};
