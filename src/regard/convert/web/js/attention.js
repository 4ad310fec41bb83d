// The attention of every model: weights = normalize(scores / temperature + mask), output = weights · values.
// A recorder stores the weights of each call; interventions switch off heads, hide keys and set the temperature.

import { sizeOf, tensor } from "./tensor.js";

// Weights of one row of scores; a row without an allowed key gets zeros.
function softmax(scores, start, size, isAllowed, temperature, weights) {
  let top = -Infinity;
  for (let i = 0; i < size; i++) if (isAllowed(i)) top = Math.max(top, scores[start + i]);
  if (top === -Infinity) return;
  let sum = 0;
  for (let i = 0; i < size; i++) {
    if (!isAllowed(i)) continue;
    const value = Math.exp((scores[start + i] - top) / temperature);
    weights[start + i] = value;
    sum += value;
  }
  for (let i = 0; i < size; i++) weights[start + i] /= sum;
}

// Hard attention: the key with the largest weight.
function hardest(weights, start, size) {
  let best = -1;
  for (let i = 0; i < size; i++) if (weights[start + i] > 0 && (best < 0 || weights[start + i] > weights[start + best])) best = i;
  for (let i = 0; i < size; i++) weights[start + i] = i === best ? 1 : 0;
}

// Bool mask broadcast to (b h t s), minus hidden keys.
function denseMask(allowed, shape, hidden) {
  const [b, h, t, s] = shape;
  if (!allowed && !hidden.length) return null;
  const mask = new Uint8Array(b * h * t * s).fill(1);
  if (allowed) {
    const sizes = [...new Array(4 - allowed.shape.length).fill(1), ...allowed.shape];
    const step = (axis) => (sizes[axis] === 1 ? 0 : sizeOf(sizes.slice(axis + 1)));
    const steps = [0, 1, 2, 3].map(step);
    let to = 0;
    for (let i = 0; i < b; i++) for (let j = 0; j < h; j++) for (let k = 0; k < t; k++) for (let l = 0; l < s; l++) mask[to++] = allowed.data[i * steps[0] + j * steps[1] + k * steps[2] + l * steps[3]];
  }
  for (const column of hidden) if (column < s) for (let row = 0; row < b * h * t; row++) mask[row * s + column] = 0;
  return mask;
}

// call: {q, k, scores, allowed, values, module, normalizer}; run: {changes, hiddenKeys(module), record(call)}
export function attend({ q, k, scores, allowed, values, module, normalizer }, run) {
  const [b, h, t, s] = scores.shape;
  const width = values.shape[3];
  const temperature = run.changes?.temperature ?? 1;
  const mask = denseMask(allowed, scores.shape, run.hiddenKeys?.(module) ?? []);
  const weights = new Float32Array(b * h * t * s);
  for (let row = 0; row < b * h * t; row++) {
    const start = row * s;
    softmax(scores.data, start, s, mask ? (i) => mask[start + i] === 1 : () => true, temperature, weights);
    if (normalizer !== "softmax") hardest(weights, start, s);
  }
  const isOff = (head) => run.changes?.disabled_heads.some(([name, index]) => name === module && index === head);
  const out = new Float32Array(b * h * t * width);
  const [sources, , , ] = values.shape;
  for (let i = 0; i < b; i++) {
    for (let head = 0; head < h; head++) {
      if (isOff(head)) continue;
      const source = ((sources === 1 ? 0 : i) * h + head) * s * width;
      for (let query = 0; query < t; query++) {
        const row = (i * h + head) * t + query;
        for (let d = 0; d < width; d++) {
          let sum = 0;
          for (let key = 0; key < s; key++) sum += weights[row * s + key] * values.data[source + key * width + d];
          out[row * width + d] = sum;
        }
      }
    }
  }
  run.record?.({ module, q, k, scores, mask, values, weights: tensor([b, h, t, s], weights) });
  return tensor([b, h, t, width], out);
}
