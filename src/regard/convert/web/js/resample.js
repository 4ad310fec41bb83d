// Resampling by a polyphase filter, by the rules of regard/data/speech/audio_files.py: a Kaiser window of 10 periods to each side.

const BETA = 5;
const PERIODS = 10;

const gcd = (a, b) => (b ? gcd(b, a % b) : a);

// Modified Bessel function of the first kind and order 0.
function bessel(x) {
  let [sum, term] = [1, 1];
  for (let k = 1; term > 1e-17 * sum; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

// Low-pass filter for a change of rate by this factor; its sum is 1.
function lowpass(factor) {
  const half = PERIODS * factor;
  const filter = Float64Array.from({ length: 2 * half + 1 }, (_, i) => {
    const x = (i - half) / factor;
    const sinc = x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
    return sinc * bessel(BETA * Math.sqrt(1 - ((i - half) / half) ** 2));
  });
  const sum = filter.reduce((total, value) => total + value, 0);
  return filter.map((value) => value / sum);
}

// Samples at one rate -> samples at another
export function resample(samples, from, to) {
  if (from === to) return samples;
  const common = gcd(from, to);
  const [up, down] = [to / common, from / common];
  const filter = lowpass(Math.max(up, down));
  const half = (filter.length - 1) / 2;
  const out = new Float32Array(Math.ceil((samples.length * up) / down));
  for (let k = 0; k < out.length; k++) {
    const center = k * down; // in samples after upsampling
    const first = Math.max(0, Math.ceil((center - half) / up));
    const last = Math.min(samples.length - 1, Math.floor((center + half) / up));
    let sum = 0;
    for (let i = first; i <= last; i++) sum += samples[i] * filter[center - i * up + half];
    out[k] = up * sum;
  }
  return out;
}
