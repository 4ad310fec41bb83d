// Speech recognition: a recording -> its transcripts, the attention of each token over time, and the transcripts without its parts.

import { bestHypotheses, Decoder, outputsOf } from "../decoder.js";
import { axis, inspectionOf, item, Recorder } from "../inspection.js";
import { energies, normalized } from "../log_mel.js";
import { resample } from "../resample.js";
import { tensor } from "../tensor.js";
import { Tokenizer } from "../tokenizer.js";
import { readWav, writeWav } from "../wav.js";
import { bytesOf } from "../weights.js";

const SILENCE = 1e-4; // peak of a recording that is silent

const rounded = (value, digits) => Math.round(value * 10 ** digits) / 10 ** digits;

export class SpeechRecognition {
  constructor(model, programs) {
    Object.assign(this, { model, decoder: new Decoder(programs), tokenizer: new Tokenizer(model.tokenizers[0]) });
  }

  // upload {name, file: base64} -> samples at the rate of the model, and remarks on their conversion
  read({ name, file }) {
    const { features, maxSeconds } = this.model;
    let recording;
    try {
      recording = readWav(bytesOf(file));
    } catch (error) {
      throw new Error(`${name}: ${error.message}; give a WAV file, or record one`);
    }
    const seconds = recording.samples.length / recording.rate;
    if (!recording.samples.length) throw new Error(`${name}: has no samples; record it again`);
    if (seconds > maxSeconds) throw new Error(`${name}: ${seconds.toFixed(1)} seconds; at most ${maxSeconds} are accepted: cut it into parts`);
    const { channels, peak, rate } = recording;
    const remarks = [
      ...(peak < SILENCE ? ["silent: a transcript has no meaning"] : []),
      ...(channels > 1 ? [`${channels} channels: averaged`] : []),
      ...(rate !== features.rate ? [`${rate} Hz: resampled to ${features.rate}`] : []),
    ];
    return { whole: resample(recording.samples, rate, features.rate), remarks };
  }

  // Samples with zeros from start to stop, in seconds
  silence(samples, [start, stop]) {
    const { rate } = this.model.features;
    const [first, last] = [start, stop].map((edge) => Math.round(Math.min(edge, samples.length / rate) * rate));
    return samples.slice().fill(0, first, last);
  }

  start(samples, context) {
    const { features } = this.model;
    const measured = energies(samples, features);
    return this.decoder.start([tensor([1, measured.frames, measured.bands], normalized(measured, features))], context);
  }

  search(samples, n, context) {
    const { special, reduction, maxLength, decoding, features } = this.model;
    const limit = Math.min(Math.floor(Math.ceil(samples.length / features.hop) / reduction) + 1, maxLength - 1);
    return bestHypotheses(this.decoder, { state: this.start(samples, context), limit, special }, decoding, n, context);
  }

  inspect({ upload, options, changes }) {
    const { special, reduction, features } = this.model;
    const { name, file } = upload ?? this.model.example;
    const { whole, remarks } = this.read({ name, file });
    const samples = options.silence ? this.silence(whole, parseSpan(options.silence)) : whole;
    const recorder = new Recorder(this.model, changes);
    const axes = { queries: { target: "target", frames: "frames" }, keys: { frames: "frames", read: "read", target: "read" } };
    const silent = recorder.silent(axes);
    const startedAt = performance.now();
    const hypotheses = this.search(samples, options.n ?? 1, silent);
    const seconds = (performance.now() - startedAt) / 1000;
    const again = this.spans(samples).map((span) => ({ span: span.map((edge) => rounded(edge, 3)), text: this.tokenizer.decode(this.search(this.silence(samples, span), 1, silent)[0].tokens) }));
    const outputs = outputsOf(this.decoder, hypotheses, { start: (context) => this.start(samples, context), special, tokenizer: this.tokenizer }, recorder.context(axes), silent);
    const words = [...this.tokenizer.decodeWithOffsets(hypotheses[0].tokens).map(({ text, start, stop }, word) => item(text, { word, span: [start, stop] })), item("<end>", { special: true })];
    const stateSeconds = reduction * features.hopSeconds;
    const states = Array.from({ length: Math.ceil(Math.ceil(samples.length / features.hop) / reduction) }, (_, i) => item((i * stateSeconds).toFixed(2), { time: i * stateSeconds }));
    return inspectionOf(recorder, {
      text: name, outputs, seconds, answered: "target", views: ["speech"], remarks,
      axes: { target: axis(words, "transcript"), frames: axis(states, "time"), read: axis([item(this.tokenizer.tokenText(special.bos), { special: true }), ...words.slice(0, -1)], "read") },
      extra: { speech: this.picture(samples, again) },
    });
  }

  // Equal spans that cover a recording
  spans(samples) {
    const { features, spans } = this.model;
    const seconds = samples.length / features.rate;
    const count = Math.max(1, Math.min(spans.most, Math.floor(seconds / spans.seconds)));
    return Array.from({ length: count }, (_, i) => [(i * seconds) / count, ((i + 1) * seconds) / count]);
  }

  // What the view draws: the sound, its waveform and spectrogram
  picture(samples, again) {
    const { features, reduction, envelopeColumns } = this.model;
    const { frames, bands, data } = energies(samples, features);
    const sorted = data.slice().sort();
    const low = sorted[Math.floor(0.05 * (sorted.length - 1))];
    const high = sorted.at(-1);
    const shades = Uint8Array.from(data, (value) => 255 * Math.max(0, Math.min(1, (value - low) / Math.max(high - low, 1e-6))));
    return {
      seconds: rounded(samples.length / features.rate, 4), state_seconds: reduction * features.hopSeconds, wav: writeWav(samples, features.rate), envelope: envelope(samples, envelopeColumns),
      frames, bands, spectrogram: btoa(Array.from(shades, (byte) => String.fromCharCode(byte)).join("")), again,
    };
  }
}

// "0.5,0.9" -> [0.5, 0.9]
function parseSpan(text) {
  const [start, stop, ...rest] = text.split(",").map(Number);
  if (rest.length || !(start >= 0 && start < stop && stop < Infinity)) throw new Error(`silence='${text}': give start,stop in seconds, e.g. 0.5,0.9`);
  return [start, stop];
}

// Minimum and maximum of the samples of each column, relative to the loudest sample
function envelope(samples, columns) {
  const peak = samples.reduce((highest, sample) => Math.max(highest, Math.abs(sample)), 1e-6);
  const count = Math.min(columns, samples.length);
  return Array.from({ length: count }, (_, i) => {
    const part = samples.subarray(Math.floor((i * samples.length) / count), Math.floor(((i + 1) * samples.length) / count));
    return [part.reduce((a, b) => Math.min(a, b)), part.reduce((a, b) => Math.max(a, b))].map((value) => rounded(value / peak, 3));
  });
}
