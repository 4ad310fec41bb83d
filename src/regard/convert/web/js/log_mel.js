// Log-mel features, by the rules of regard/data/speech/features.py.

// In-place Fourier transform of a power of two complex numbers.
function transform(real, imaginary) {
  const n = real.length;
  for (let i = 1, j = 0; i < n; i++) {
    let bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      [real[i], real[j]] = [real[j], real[i]];
      [imaginary[i], imaginary[j]] = [imaginary[j], imaginary[i]];
    }
  }
  for (let size = 2; size <= n; size *= 2) {
    for (let k = 0; k < size / 2; k++) {
      const [cos, sin] = [Math.cos((-2 * Math.PI * k) / size), Math.sin((-2 * Math.PI * k) / size)];
      for (let at = k; at < n; at += size) {
        const other = at + size / 2;
        const [x, y] = [real[other] * cos - imaginary[other] * sin, real[other] * sin + imaginary[other] * cos];
        real[other] = real[at] - x;
        imaginary[other] = imaginary[at] - y;
        real[at] += x;
        imaginary[at] += y;
      }
    }
  }
}

// Samples -> log energies as rows of bands: {frames, bands, data}
export function energies(samples, { hop, window, bands, filters, floor }) {
  const size = 2 * (filters.length - 1);
  const frames = Math.ceil(samples.length / hop);
  const left = Math.floor(Math.max(0, window - hop) / 2);
  const weights = Float32Array.from({ length: window }, (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / (window - 1)));
  const data = new Float64Array(frames * bands);
  for (let t = 0; t < frames; t++) {
    const [real, imaginary] = [new Float64Array(size), new Float64Array(size)];
    for (let i = 0; i < window; i++) real[i] = (samples[t * hop - left + i] ?? 0) * weights[i];
    transform(real, imaginary);
    for (let band = 0; band < bands; band++) {
      let sum = 0;
      for (let f = 0; f < filters.length; f++) if (filters[f][band]) sum += filters[f][band] * (real[f] ** 2 + imaginary[f] ** 2);
      data[t * bands + band] = Math.log(sum + floor);
    }
  }
  return { frames, bands, data };
}

// Log energies -> features relative to the loudest frame
export function normalized({ frames, bands, data }, { range, scale }) {
  let loudest = -Infinity;
  for (let t = 0; t < frames; t++) loudest = Math.max(loudest, data.subarray(t * bands, (t + 1) * bands).reduce((sum, value) => sum + value, 0) / bands);
  return Float32Array.from(data, (value) => (Math.max(value - loudest, -range) + range / 2) / scale);
}
