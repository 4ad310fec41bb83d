// WAV files: PCM of 8 to 32 bits and floating point, channels averaged; and mono files of 16 bits.

import { encodeWav } from "../../../inspection/page/sound.js";

const [PCM, FLOAT, EXTENSIBLE] = [1, 3, 0xfffe];

// The name of each chunk -> [start, size] in bytes
function chunksOf(view) {
  const textAt = (at) => String.fromCharCode(...[0, 1, 2, 3].map((i) => view.getUint8(at + i)));
  if (view.byteLength < 12 || textAt(0) !== "RIFF" || textAt(8) !== "WAVE") throw new Error("not a WAV file");
  const chunks = {};
  for (let at = 12; at + 8 <= view.byteLength;) {
    const size = Math.min(view.getUint32(at + 4, true), view.byteLength - at - 8);
    chunks[textAt(at)] ??= [at + 8, size];
    at += 8 + size + (size % 2);
  }
  if (!chunks["fmt "] || !chunks.data) throw new Error("a damaged WAV file");
  return chunks;
}

// Reads one sample, -1 … 1
function sampleReader(view, format, bits) {
  if (format === FLOAT && bits === 32) return (at) => view.getFloat32(at, true);
  if (format === FLOAT && bits === 64) return (at) => view.getFloat64(at, true);
  if (format === PCM && bits === 8) return (at) => (view.getUint8(at) - 128) / 128;
  if (format === PCM && bits === 16) return (at) => view.getInt16(at, true) / 2 ** 15;
  if (format === PCM && bits === 24) return (at) => (view.getUint16(at, true) + 65536 * view.getInt8(at + 2)) / 2 ** 23;
  if (format === PCM && bits === 32) return (at) => view.getInt32(at, true) / 2 ** 31;
  throw new Error(`a WAV file of format ${format} with ${bits} bits; convert it to PCM with 16 bits`);
}

// Bytes of a WAV file -> {rate, channels, peak: of all channels, samples: Float32Array of the mean of the channels}
export function readWav(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const { "fmt ": [settings], data: [start, size] } = chunksOf(view);
  const [tag, channels, rate, bits] = [view.getUint16(settings, true), view.getUint16(settings + 2, true), view.getUint32(settings + 4, true), view.getUint16(settings + 14, true)];
  const read = sampleReader(view, tag === EXTENSIBLE ? view.getUint16(settings + 24, true) : tag, bits);
  const width = bits / 8;
  let peak = 0;
  const samples = Float32Array.from({ length: Math.floor(size / (width * channels)) }, (_, i) => {
    let sum = 0;
    for (let channel = 0; channel < channels; channel++) {
      const value = Math.fround(read(start + (i * channels + channel) * width));
      peak = Math.max(peak, Math.abs(value));
      sum += value;
    }
    return sum / channels;
  });
  return { rate, channels, peak, samples };
}

// Samples -> base64 of a WAV file (mono, 16 bits)
export function writeWav(samples, rate) {
  const bytes = new Uint8Array(encodeWav(samples, rate));
  const parts = [];
  for (let i = 0; i < bytes.length; i += 8192) parts.push(String.fromCharCode(...bytes.subarray(i, i + 8192)));
  return btoa(parts.join(""));
}
