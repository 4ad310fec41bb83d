// Constants of programs from base64: float16, float32, int32 and bool, little endian.

import { sizeOf, tensor } from "./tensor.js";

export function bytesOf(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

// The 65536 values of float16.
function halfValues() {
  return Float32Array.from({ length: 65536 }, (_, bits) => {
    const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
  });
}

// entries: name -> {shape, dtype, offset}; bytes of all constants -> name -> tensor
export function readConstants(entries, bytes) {
  const halves = halfValues();
  return Object.fromEntries(Object.entries(entries).map(([name, { shape, dtype, offset }]) => {
    const size = sizeOf(shape);
    const part = (width) => bytes.buffer.slice(bytes.byteOffset + offset, bytes.byteOffset + offset + width * size);
    if (dtype === "f2") return [name, tensor(shape, Float32Array.from(new Uint16Array(part(2)), (bits) => halves[bits]))];
    if (dtype === "f4") return [name, tensor(shape, new Float32Array(part(4)))];
    if (dtype === "f8") return [name, tensor(shape, new Float64Array(part(8)))];
    if (dtype === "i4") return [name, tensor(shape, new Int32Array(part(4)))];
    return [name, tensor(shape, new Uint8Array(part(1)))];
  }));
}
