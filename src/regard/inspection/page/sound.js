// Sound of the page: decode and encode WAV files, play spans of a recording, and record from the microphone.

const HEADER_BYTES = 44; // of a WAV file with one format and one data chunk
const FADE_SECONDS = 0.005; // at both ends of a span, so that cuts make no clicks

// Base64 of a WAV file (mono, 16 bits) -> {rate, samples: Float32Array}
export function decodeWav(text) {
  const raw = atob(text);
  const bytes = Uint8Array.from(raw, (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const count = Math.floor((bytes.length - HEADER_BYTES) / 2);
  const samples = Float32Array.from({ length: count }, (_, i) => view.getInt16(HEADER_BYTES + 2 * i, true) / 32768);
  return { rate: view.getUint32(24, true), samples };
}

// Samples from -1 to 1 -> bytes of a WAV file (mono, 16 bits).
export function encodeWav(samples, rate) {
  const view = new DataView(new ArrayBuffer(HEADER_BYTES + 2 * samples.length));
  const write = (at, text) => [...text].forEach((character, i) => view.setUint8(at + i, character.charCodeAt(0)));
  write(0, "RIFF");
  view.setUint32(4, 36 + 2 * samples.length, true);
  write(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true); // PCM
  view.setUint16(22, 1, true); // one channel
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  write(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((sample, i) => view.setInt16(HEADER_BYTES + 2 * i, Math.round(32767 * Math.max(-1, Math.min(1, sample))), true));
  return view.buffer;
}

// Plays spans of a recording; onProgress gets the time in seconds, and null at the end.
export class SpanPlayer {
  constructor({ rate, samples }, onProgress) {
    Object.assign(this, { rate, samples, onProgress, context: null });
  }

  play([start, stop]) {
    this.stop();
    const context = new AudioContext();
    this.context = context;
    const part = this.samples.slice(Math.round(start * this.rate), Math.max(Math.round(start * this.rate) + 1, Math.round(stop * this.rate)));
    const buffer = context.createBuffer(1, part.length, this.rate);
    buffer.copyToChannel(part, 0);
    const [source, gain] = [context.createBufferSource(), context.createGain()];
    source.buffer = buffer;
    const begin = context.currentTime + 0.03;
    gain.gain.setValueAtTime(0, begin);
    gain.gain.linearRampToValueAtTime(1, begin + FADE_SECONDS);
    gain.gain.setValueAtTime(1, Math.max(begin + FADE_SECONDS, begin + buffer.duration - FADE_SECONDS));
    gain.gain.linearRampToValueAtTime(0, begin + buffer.duration);
    source.connect(gain).connect(context.destination);
    source.start(begin);
    const tick = () => {
      if (this.context !== context) return;
      const time = context.currentTime - begin;
      if (time >= buffer.duration) return this.stop();
      this.onProgress(start + Math.max(0, time));
      this.frame = requestAnimationFrame(tick);
    };
    tick();
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.context?.close();
    this.context = null;
    this.onProgress(null);
  }
}

// Records from the microphone; stop() returns a WAV file.
export class Microphone {
  static get available() {
    return Boolean(navigator.mediaDevices?.getUserMedia && globalThis.MediaRecorder);
  }

  async start() {
    this.stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
    this.recorder = new MediaRecorder(this.stream);
    this.chunks = [];
    this.recorder.ondataavailable = (event) => this.chunks.push(event.data);
    this.recorder.start();
  }

  async stop() {
    await new Promise((resolve) => {
      this.recorder.onstop = resolve;
      this.recorder.stop();
    });
    this.stream.getTracks().forEach((track) => track.stop());
    const context = new AudioContext();
    const decoded = await context.decodeAudioData(await new Blob(this.chunks).arrayBuffer());
    await context.close();
    const channels = Array.from({ length: decoded.numberOfChannels }, (_, i) => decoded.getChannelData(i));
    const mono = Float32Array.from(channels[0], (_, i) => channels.reduce((sum, channel) => sum + channel[i], 0) / channels.length);
    return new File([encodeWav(mono, decoded.sampleRate)], "recording.wav", { type: "audio/wav" });
  }
}
