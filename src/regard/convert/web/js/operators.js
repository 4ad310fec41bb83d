// Operations of programs, by the names of PyTorch's operators. Each gets tensors, numbers and lists, and returns a new tensor.

import { attend } from "./attention.js";
import { batchProduct, convolve, matrixProduct } from "./products.js";
import { recur } from "./recurrent.js";
import { arrayType, axisOf, broadcastShapes, concat, expand, filled, gatherView, permute, reshape, select, sizeOf, slice, stridesOf, tensor, transpose } from "./tensor.js";

const isTensor = (value) => value !== null && typeof value === "object" && "shape" in value;

// Array type of a result: the wider of both, where a number does not widen an integer tensor unless it is fractional.
function resultType(a, b) {
  const order = [Uint8Array, Int32Array, Float32Array, Float64Array];
  const rank = (value) => (isTensor(value) ? order.indexOf(value.data.constructor) : typeof value === "boolean" ? 0 : Number.isInteger(value) ? 1 : 2);
  const [first, second] = [rank(a), rank(b)];
  if (isTensor(a) && !isTensor(b)) return order[Math.max(first, Math.min(second, 2))];
  if (isTensor(b) && !isTensor(a)) return order[Math.max(second, Math.min(first, 2))];
  return order[Math.max(first, second)];
}

// Apply fn to every pair of elements of two tensors or numbers.
function pairwise(a, b, fn, Type = resultType(a, b)) {
  if (!isTensor(a) && !isTensor(b)) return tensor([], Type.of(fn(a, b)));
  if (!isTensor(b)) {
    const out = new Type(a.data.length);
    for (let i = 0; i < out.length; i++) out[i] = fn(a.data[i], b);
    return tensor(a.shape, out);
  }
  if (!isTensor(a)) {
    const out = new Type(b.data.length);
    for (let i = 0; i < out.length; i++) out[i] = fn(a, b.data[i]);
    return tensor(b.shape, out);
  }
  const shape = broadcastShapes(a.shape, b.shape);
  const [left, right] = [expand(a, shape).data, expand(b, shape).data];
  const out = new Type(left.length);
  for (let i = 0; i < out.length; i++) out[i] = fn(left[i], right[i]);
  return tensor(shape, out);
}

function each(x, fn, Type = x.data.constructor === Float64Array ? Float64Array : Float32Array) {
  const out = new Type(x.data.length);
  for (let i = 0; i < out.length; i++) out[i] = fn(x.data[i]);
  return tensor(x.shape, out);
}

// Move the reduced axes last -> {rows: dense data, length of a row, shape of the result}.
function rowsOf(x, axes, keepdim) {
  const rank = x.shape.length;
  const reduced = (axes === null || axes === undefined || axes.length === 0 ? x.shape.map((_, axis) => axis) : [axes].flat()).map((axis) => axisOf(axis, rank));
  const others = x.shape.map((_, axis) => axis).filter((axis) => !reduced.includes(axis));
  const isLast = reduced.every((axis, i) => axis === others.length + i);
  const { data } = isLast ? x : permute(x, [...others, ...reduced]);
  const length = sizeOf(reduced.map((axis) => x.shape[axis]));
  const shape = keepdim ? x.shape.map((size, axis) => (reduced.includes(axis) ? 1 : size)) : others.map((axis) => x.shape[axis]);
  return { data, length, shape };
}

function reduce(x, axes, keepdim, fn, Type = Float32Array) {
  const { data, length, shape } = rowsOf(x, axes, keepdim);
  const out = new Type(sizeOf(shape));
  for (let row = 0; row < out.length; row++) out[row] = fn(data, row * length, (row + 1) * length);
  return tensor(shape, out);
}

const sum = (data, start, stop) => {
  let total = 0;
  for (let i = start; i < stop; i++) total += data[i];
  return total;
};
const indexOfBest = (isBetter) => (data, start, stop) => {
  let best = start;
  for (let i = start + 1; i < stop; i++) if (isBetter(data[i], data[best])) best = i;
  return best - start;
};
const indexOfLargest = indexOfBest((a, b) => a > b);
const largest = (data, start, stop) => data[start + indexOfLargest(data, start, stop)];
const smallest = (data, start, stop) => data[start + indexOfBest((a, b) => a < b)(data, start, stop)];

// (log) softmax along one axis
function normalize(x, axis, isLog) {
  const rank = x.shape.length;
  const at = axisOf(axis, rank);
  const dense = at === rank - 1 ? x : transpose(x, at, rank - 1);
  const length = x.shape[at];
  const out = new Float32Array(dense.data.length);
  for (let start = 0; start < out.length; start += length) {
    const top = largest(dense.data, start, start + length);
    let total = 0;
    for (let i = start; i < start + length; i++) total += Math.exp(dense.data[i] - top);
    const log = Math.log(total);
    for (let i = start; i < start + length; i++) out[i] = isLog ? dense.data[i] - top - log : Math.exp(dense.data[i] - top) / total;
  }
  const result = tensor(dense.shape, out);
  return at === rank - 1 ? result : transpose(result, at, rank - 1);
}

function layerNorm(x, shape, weight, bias, eps) {
  const length = sizeOf(shape);
  const out = new Float32Array(x.data.length);
  for (let start = 0; start < out.length; start += length) {
    const mean = sum(x.data, start, start + length) / length;
    let variance = 0;
    for (let i = start; i < start + length; i++) variance += (x.data[i] - mean) ** 2;
    const scale = 1 / Math.sqrt(variance / length + eps);
    for (let i = 0; i < length; i++) out[start + i] = (x.data[start + i] - mean) * scale * (weight ? weight.data[i] : 1) + (bias ? bias.data[i] : 0);
  }
  return [tensor(x.shape, out)];
}

// Normalize each channel (axis 1) by stored statistics.
function batchNorm(x, weight, bias, mean, variance, eps) {
  const inner = sizeOf(x.shape.slice(2));
  const channels = x.shape[1];
  const out = new Float32Array(x.data.length);
  for (let i = 0; i < out.length; i++) {
    const channel = Math.floor(i / inner) % channels;
    out[i] = ((x.data[i] - mean.data[channel]) / Math.sqrt(variance.data[channel] + eps)) * (weight ? weight.data[channel] : 1) + (bias ? bias.data[channel] : 0);
  }
  return [tensor(x.shape, out)];
}

function groupNorm(x, weight, bias, batch, channels, inner, groups, eps) {
  const size = (channels / groups) * inner;
  const { data } = layerNorm(x, [size], null, null, eps)[0];
  const out = data.map((value, i) => {
    const channel = Math.floor(i / inner) % channels;
    return value * (weight ? weight.data[channel] : 1) + (bias ? bias.data[channel] : 0);
  });
  return [tensor(x.shape, out)];
}

function erf(x) {
  // series near zero, continued fraction elsewhere: both to about 1e-15
  const size = Math.abs(x);
  if (size < 2.5) {
    let [term, total] = [size, size];
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(total) && n < 100; n++) {
      term *= -(size * size) / n;
      total += term / (2 * n + 1);
    }
    return (Math.sign(x) * 2 * total) / Math.sqrt(Math.PI);
  }
  let fraction = 0;
  for (let n = 60; n > 0; n--) fraction = n / 2 / (size + fraction);
  return Math.sign(x) * (1 - Math.exp(-size * size) / ((size + fraction) * Math.sqrt(Math.PI)));
}

function gelu(x, approximation) {
  if (approximation === "tanh") return each(x, (v) => 0.5 * v * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3))));
  return each(x, (v) => 0.5 * v * (1 + erf(v / Math.SQRT2)));
}

function embed(table, ids) {
  const width = table.shape[1];
  const out = new table.data.constructor(ids.data.length * width);
  ids.data.forEach((id, row) => out.set(table.data.subarray(id * width, (id + 1) * width), row * width));
  return tensor([...ids.shape, width], out);
}

// x[indices]: tensors of integers for some axes, null for the others.
function indexBy(x, indices) {
  const used = indices.map((index, axis) => [index, axis]).filter(([index]) => index !== null);
  if (used.some(([index]) => index.data.constructor === Uint8Array)) throw new Error("index by a mask");
  const shape = broadcastShapes(...used.map(([index]) => index.shape));
  const axes = used.map(([, axis]) => axis);
  const rest = x.shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
  const isAdjacent = axes.every((axis, i) => i === 0 || axis === axes[i - 1] + 1);
  const dense = permute(x, [...axes, ...rest]);
  const inner = sizeOf(rest.map((axis) => x.shape[axis]));
  const strides = stridesOf(axes.map((axis) => x.shape[axis]));
  const columns = used.map(([index]) => expand(index, shape).data);
  const out = new x.data.constructor(sizeOf(shape) * inner);
  for (let i = 0; i < sizeOf(shape); i++) {
    let at = 0;
    columns.forEach((column, k) => { at += (column[i] < 0 ? column[i] + x.shape[axes[k]] : column[i]) * strides[k]; });
    out.set(dense.data.subarray(at * inner, (at + 1) * inner), i * inner);
  }
  const result = tensor([...shape, ...rest.map((axis) => x.shape[axis])], out);
  const before = isAdjacent ? rest.filter((axis) => axis < axes[0]).length : 0;
  if (!before) return result;
  const order = [...Array(before).keys()].map((i) => shape.length + i);
  return permute(result, [...order, ...shape.map((_, i) => i), ...[...Array(rest.length - before).keys()].map((i) => shape.length + before + i)]);
}

function indexSelect(x, axis, index) {
  const at = axisOf(axis, x.shape.length);
  return indexBy(x, [...new Array(at).fill(null), index]);
}

function gather(x, axis, index) {
  const at = axisOf(axis, x.shape.length);
  const [strides, own] = [stridesOf(x.shape), stridesOf(index.shape)];
  const out = new x.data.constructor(index.data.length);
  for (let i = 0; i < out.length; i++) {
    let from = 0;
    for (let k = 0; k < strides.length; k++) from += (k === at ? index.data[i] : Math.floor(i / own[k]) % index.shape[k]) * strides[k];
    out[i] = x.data[from];
  }
  return tensor(index.shape, out);
}

// New tensor in which the entries named by index are replaced.
function scatter(x, axis, index, source) {
  const at = axisOf(axis, x.shape.length);
  const [strides, own] = [stridesOf(x.shape), stridesOf(index.shape)];
  const out = x.data.slice();
  const values = isTensor(source) ? stridesOf(source.shape) : null;
  for (let i = 0; i < index.data.length; i++) {
    let [to, from] = [0, 0];
    for (let k = 0; k < strides.length; k++) {
      const position = Math.floor(i / own[k]) % index.shape[k];
      to += (k === at ? index.data[i] : position) * strides[k];
      if (values) from += position * values[k];
    }
    out[to] = values ? source.data[from] : source;
  }
  return tensor(x.shape, out);
}

// New tensor in which source entries are added to the entries named by index.
function scatterAdd(x, axis, index, source) {
  const at = axisOf(axis, x.shape.length);
  const [strides, own, values] = [x, index, source].map(({ shape }) => stridesOf(shape));
  const out = x.data.slice();
  for (let i = 0; i < index.data.length; i++) {
    let [to, from] = [0, 0];
    for (let k = 0; k < strides.length; k++) {
      const position = Math.floor(i / own[k]) % index.shape[k];
      to += (k === at ? index.data[i] : position) * strides[k];
      from += position * values[k];
    }
    out[to] += source.data[from];
  }
  return tensor(x.shape, out);
}

function pad(x, sizes, value = 0) {
  let result = x;
  for (let i = 0; 2 * i < sizes.length; i++) {
    const axis = x.shape.length - 1 - i;
    const [before, after] = [sizes[2 * i], sizes[2 * i + 1]];
    if (before < 0 || after < 0) result = slice(result, axis, Math.max(0, -before), result.shape[axis] - Math.max(0, -after));
    const block = (size) => filled(result.shape.map((length, k) => (k === axis ? size : length)), value, x.data.constructor);
    result = concat([...(before > 0 ? [block(before)] : []), result, ...(after > 0 ? [block(after)] : [])], axis);
  }
  return result;
}

function pool(x, kernel, stride, padding, isMean) {
  const [batch, channels, height, width] = x.shape;
  const [kernelHeight, kernelWidth] = [kernel[0], kernel.at(-1)];
  const [downY, downX] = stride?.length ? [stride[0], stride.at(-1)] : [kernelHeight, kernelWidth];
  const [padY, padX] = padding?.length ? [padding[0], padding.at(-1)] : [0, 0];
  const rows = Math.floor((height + 2 * padY - kernelHeight) / downY) + 1;
  const columns = Math.floor((width + 2 * padX - kernelWidth) / downX) + 1;
  const out = new Float32Array(batch * channels * rows * columns);
  for (let plane = 0; plane < batch * channels; plane++) {
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        let value = isMean ? 0 : -Infinity;
        for (let ky = 0; ky < kernelHeight; ky++) {
          for (let kx = 0; kx < kernelWidth; kx++) {
            const [y, position] = [row * downY - padY + ky, column * downX - padX + kx];
            if (y < 0 || y >= height || position < 0 || position >= width) continue;
            const entry = x.data[(plane * height + y) * width + position];
            value = isMean ? value + entry / (kernelHeight * kernelWidth) : Math.max(value, entry);
          }
        }
        out[(plane * rows + row) * columns + column] = value;
      }
    }
  }
  return tensor([batch, channels, rows, columns], out);
}

function arange(start, stop, step, options) {
  const count = Math.max(0, Math.ceil((stop - start) / step));
  const Type = arrayType(options.dtype, [start, stop, step].every(Number.isInteger) ? Int32Array : Float32Array);
  return tensor([count], Type.from({ length: count }, (_, i) => start + i * step));
}

function where(condition, a, b) {
  const shape = broadcastShapes(condition.shape, isTensor(a) ? a.shape : [], isTensor(b) ? b.shape : []);
  const side = (value) => (isTensor(value) ? expand(value, shape).data : null);
  const [test, left, right] = [expand(condition, shape).data, side(a), side(b)];
  const out = new (resultType(a, b))(test.length);
  for (let i = 0; i < out.length; i++) out[i] = test[i] ? (left ? left[i] : a) : right ? right[i] : b;
  return tensor(shape, out);
}

function cumulative(x, axis) {
  const rank = x.shape.length;
  const at = axisOf(axis, rank);
  const moved = transpose(x, at, rank - 1);
  const out = moved.data.constructor === Uint8Array ? Int32Array.from(moved.data) : moved.data.slice();
  const length = x.shape[at];
  for (let i = 0; i < out.length; i++) if (i % length) out[i] += out[i - 1];
  return transpose(tensor(moved.shape, out), at, rank - 1);
}

function flip(x, axes) {
  const strides = stridesOf(x.shape);
  let offset = 0;
  for (const axis of axes.map((a) => axisOf(a, x.shape.length))) {
    offset += strides[axis] * (x.shape[axis] - 1);
    strides[axis] *= -1;
  }
  return gatherView(x.data, x.shape, strides, offset);
}

function splitSizes(x, sizes, axis) {
  let start = 0;
  return sizes.map((size) => slice(x, axis, start, (start += size)));
}

function splitEvery(x, size, axis = 0) {
  const length = x.shape[axisOf(axis, x.shape.length)];
  return splitSizes(x, Array.from({ length: Math.ceil(length / size) }, (_, i) => Math.min(size, length - i * size)), axis);
}

// View with chosen sizes and strides over dense data.
const asStrided = (x, shape, strides, offset = 0) => gatherView(x.data, shape, strides, offset ?? 0);
const cast = (x, options) => (options.dtype && arrayType(options.dtype) !== x.data.constructor ? tensor(x.shape, arrayType(options.dtype) === Uint8Array && options.dtype === "torch.bool" ? Uint8Array.from(x.data, Boolean) : arrayType(options.dtype).from(x.data)) : x);
const makeNew = (value) => (x, shape, options) => filled(shape, value, arrayType(options.dtype, x.data.constructor));
const makeLike = (value) => (x, options) => filled(x.shape, value, arrayType(options.dtype, x.data.constructor));
const scaled = (value, alpha) => (alpha === undefined || alpha === 1 ? value : isTensor(value) ? pairwise(value, alpha, (a, b) => a * b) : value * alpha);
const floating = (a, b) => { const Type = resultType(a, b); return Type === Float64Array ? Type : Float32Array; };
const compare = (fn) => (a, b) => pairwise(a, b, fn, Uint8Array);
const logical = (fn) => (a, b) => pairwise(a, b, fn, resultType(a, b));
const unsqueeze = (x, axis) => { const shape = [...x.shape]; shape.splice(axis < 0 ? axis + shape.length + 1 : axis, 0, 1); return tensor(shape, x.data); };
const squeeze = (x, axes) => { const removed = axes === undefined || typeof axes === "object" && "dtype" in axes ? x.shape.map((_, i) => i) : [axes].flat().map((axis) => axisOf(axis, x.shape.length)); return tensor(x.shape.filter((size, i) => size !== 1 || !removed.includes(i)), x.data); };
const withIndices = (better) => (x, axis, keepdim = false) => {
  const values = reduce(x, axis, keepdim, (data, start, stop) => data[start + indexOfBest(better)(data, start, stop)], x.data.constructor);
  return [values, reduce(x, axis, keepdim, indexOfBest(better), Int32Array)];
};
const isTrue = (data, start, stop) => { for (let i = start; i < stop; i++) if (data[i]) return 1; return 0; };
const areTrue = (data, start, stop) => { for (let i = start; i < stop; i++) if (!data[i]) return 0; return 1; };

// The last argument of every operation is an object of its keyword arguments.
export const OPERATORS = {
  "regard_web.attend": (q, k, scores, allowed, values, module, normalizer, _, run) => attend({ q, k, scores, allowed, values, module, normalizer }, run),
  "regard_web.rnn": recur,
  "aten.mm": (a, b) => matrixProduct(a, b),
  "aten.addmm": (bias, a, b) => matrixProduct(a, b, bias),
  "aten.bmm": batchProduct,
  "aten.baddbmm": (added, a, b) => pairwise(added, batchProduct(a, b), (x, y) => x + y),
  "aten.mv": (a, b) => reshape(matrixProduct(a, reshape(b, [-1, 1])), [-1]),
  "aten.dot": (a, b) => reshape(matrixProduct(reshape(a, [1, -1]), reshape(b, [-1, 1])), []),
  "aten.convolution": (x, weight, bias, stride, padding, dilation, isTransposed, _, groups) => { if (isTransposed) throw new Error("transposed convolution"); return convolve(x, weight, bias, stride, padding, dilation, groups); },
  "aten.max_pool2d_with_indices": (x, kernel, stride, padding) => [pool(x, kernel, stride, Array.isArray(padding) ? padding : [], false)],
  "aten.avg_pool2d": (x, kernel, stride, padding) => pool(x, kernel, stride, Array.isArray(padding) ? padding : [], true),
  "aten.native_layer_norm": layerNorm,
  "aten.native_group_norm": groupNorm,
  "aten._native_batch_norm_legit_no_training": (x, weight, bias, mean, variance, _, eps) => batchNorm(x, weight, bias, mean, variance, eps),
  "aten.native_batch_norm": (x, weight, bias, mean, variance, _training, _momentum, eps) => batchNorm(x, weight, bias, mean, variance, eps),
  "aten.cudnn_batch_norm": (x, weight, bias, mean, variance, _training, _momentum, eps) => batchNorm(x, weight, bias, mean, variance, eps),
  "aten.embedding": embed,
  "aten.index": indexBy,
  "aten.index_select": indexSelect,
  "aten.gather": gather,
  "aten.scatter": scatter,
  "aten.scatter_add": scatterAdd,
  "aten._softmax": (x, axis) => normalize(x, axis, false),
  "aten._log_softmax": (x, axis) => normalize(x, axis, true),
  "aten.relu": (x) => each(x, (v) => Math.max(0, v)),
  "aten.gelu": (x, options) => gelu(x, options.approximate),
  "aten.silu": (x) => each(x, (v) => v / (1 + Math.exp(-v))),
  "aten.elu": (x) => each(x, (v) => (v > 0 ? v : Math.expm1(v))),
  "aten.leaky_relu": (x, slope) => each(x, (v) => (v > 0 ? v : v * (typeof slope === "number" ? slope : 0.01))),
  "aten.softplus": (x) => each(x, (v) => (v > 20 ? v : Math.log1p(Math.exp(v)))),
  "aten.tanh": (x) => each(x, Math.tanh),
  "aten.sigmoid": (x) => each(x, (v) => 1 / (1 + Math.exp(-v))),
  "aten.exp": (x) => each(x, Math.exp),
  "aten.log": (x) => each(x, Math.log),
  "aten.log1p": (x) => each(x, Math.log1p),
  "aten.sin": (x) => each(x, Math.sin),
  "aten.cos": (x) => each(x, Math.cos),
  "aten.sqrt": (x) => each(x, Math.sqrt),
  "aten.rsqrt": (x) => each(x, (v) => 1 / Math.sqrt(v)),
  "aten.reciprocal": (x) => each(x, (v) => 1 / v),
  "aten.abs": (x) => each(x, Math.abs, x.data.constructor),
  "aten.neg": (x) => each(x, (v) => -v, x.data.constructor),
  "aten.floor": (x) => each(x, Math.floor, x.data.constructor),
  "aten.sign": (x) => each(x, Math.sign, x.data.constructor),
  "aten.square": (x) => each(x, (v) => v * v, x.data.constructor),
  "aten.logical_not": (x) => each(x, (v) => (v ? 0 : 1), Uint8Array),
  "aten.bitwise_not": (x) => (x.data.constructor === Uint8Array ? each(x, (v) => (v ? 0 : 1), Uint8Array) : each(x, (v) => ~v, Int32Array)),
  "aten.add": (a, b, options) => pairwise(a, scaled(b, options.alpha), (x, y) => x + y),
  "aten.sub": (a, b, options) => pairwise(a, scaled(b, options.alpha), (x, y) => x - y),
  "aten.rsub": (a, b, options) => pairwise(b, scaled(a, options.alpha), (x, y) => x - y),
  "aten.mul": (a, b) => pairwise(a, b, (x, y) => x * y),
  "aten.div": (a, b, options) => (options.rounding_mode === "floor" ? pairwise(a, b, (x, y) => Math.floor(x / y)) : options.rounding_mode === "trunc" ? pairwise(a, b, (x, y) => Math.trunc(x / y)) : pairwise(a, b, (x, y) => x / y, floating(a, b))),
  "aten.floor_divide": (a, b) => pairwise(a, b, (x, y) => Math.floor(x / y)),
  "aten.remainder": (a, b) => pairwise(a, b, (x, y) => x - y * Math.floor(x / y)),
  "aten.fmod": (a, b) => pairwise(a, b, (x, y) => x % y),
  "aten.pow": (a, b) => pairwise(a, b, (x, y) => x ** y),
  "aten.maximum": (a, b) => pairwise(a, b, Math.max),
  "aten.minimum": (a, b) => pairwise(a, b, Math.min),
  "aten.addcmul": (x, a, b) => pairwise(x, pairwise(a, b, (p, q) => p * q), (p, q) => p + q),
  "aten.lerp": (a, b, weight) => pairwise(a, pairwise(pairwise(b, a, (p, q) => p - q), weight, (p, q) => p * q), (p, q) => p + q),
  "aten.eq": compare((a, b) => a === b), "aten.ne": compare((a, b) => a !== b), "aten.lt": compare((a, b) => a < b),
  "aten.le": compare((a, b) => a <= b), "aten.gt": compare((a, b) => a > b), "aten.ge": compare((a, b) => a >= b),
  "aten.logical_and": compare((a, b) => a && b), "aten.logical_or": compare((a, b) => a || b), "aten.logical_xor": compare((a, b) => !a !== !b),
  "aten.bitwise_and": logical((a, b) => a & b), "aten.bitwise_or": logical((a, b) => a | b), "aten.bitwise_xor": logical((a, b) => a ^ b),
  "aten.__rshift__": logical((a, b) => a >> b), "aten.__lshift__": logical((a, b) => a << b),
  "aten.bitwise_right_shift": logical((a, b) => a >> b), "aten.bitwise_left_shift": logical((a, b) => a << b),
  "aten.clamp": (x, low, high) => each(x, (v) => Math.min(typeof high === "number" ? high : Infinity, Math.max(typeof low === "number" ? low : -Infinity, v)), x.data.constructor),
  "aten.clamp_min": (x, low) => each(x, (v) => Math.max(low, v), x.data.constructor),
  "aten.clamp_max": (x, high) => each(x, (v) => Math.min(high, v), x.data.constructor),
  "aten.where": where,
  "aten.masked_fill": (x, mask, value) => where(mask, isTensor(value) ? value : filled([], value, x.data.constructor), x),
  "aten.sum": (x, axes, keepdim) => reduce(x, Array.isArray(axes) ? axes : null, keepdim === true, sum, x.data.constructor === Uint8Array ? Int32Array : x.data.constructor),
  "aten.mean": (x, axes, keepdim) => reduce(x, Array.isArray(axes) ? axes : null, keepdim === true, (data, start, stop) => sum(data, start, stop) / (stop - start)),
  "aten.var.correction": (x, axes, options) => reduce(x, Array.isArray(axes) ? axes : null, options?.keepdim === true, (data, start, stop) => { const mean = sum(data, start, stop) / (stop - start); let total = 0; for (let i = start; i < stop; i++) total += (data[i] - mean) ** 2; return total / (stop - start - (options?.correction ?? 1)); }),
  "aten.logsumexp": (x, axes, keepdim) => reduce(x, axes, keepdim === true, (data, start, stop) => { const top = largest(data, start, stop); let total = 0; for (let i = start; i < stop; i++) total += Math.exp(data[i] - top); return top + Math.log(total); }),
  "aten.amax": (x, axes, keepdim) => reduce(x, axes, keepdim === true, largest, x.data.constructor),
  "aten.amin": (x, axes, keepdim) => reduce(x, axes, keepdim === true, smallest, x.data.constructor),
  "aten.max": (x, axis, keepdim) => (typeof axis === "number" ? withIndices((a, b) => a > b)(x, axis, keepdim === true) : reduce(x, null, false, largest, x.data.constructor)),
  "aten.min": (x, axis, keepdim) => (typeof axis === "number" ? withIndices((a, b) => a < b)(x, axis, keepdim === true) : reduce(x, null, false, smallest, x.data.constructor)),
  "aten.argmax": (x, axis, keepdim) => reduce(x, typeof axis === "number" ? axis : null, keepdim === true, indexOfLargest, Int32Array),
  "aten.any": (x, axis, keepdim) => reduce(x, typeof axis === "number" || Array.isArray(axis) ? axis : null, keepdim === true, isTrue, Uint8Array),
  "aten.all": (x, axis, keepdim) => reduce(x, typeof axis === "number" || Array.isArray(axis) ? axis : null, keepdim === true, areTrue, Uint8Array),
  "aten.linalg_vector_norm": (x, order, axes, keepdim) => reduce(x, axes, keepdim === true, (data, start, stop) => { let total = 0; for (let i = start; i < stop; i++) total += data[i] ** 2; return Math.sqrt(total); }),
  "aten.cumsum": cumulative,
  "aten.flip": flip,
  "aten.view": reshape, "aten._unsafe_view": reshape, "aten.reshape": reshape,
  "aten.t": (x) => (x.shape.length < 2 ? x : transpose(x, 0, 1)),
  "aten.transpose": transpose,
  "aten.permute": (x, order) => permute(x, order.map((axis) => axisOf(axis, x.shape.length))),
  "aten.expand": expand,
  "aten.repeat": (x, times) => { let result = reshape(x, [...new Array(times.length - x.shape.length).fill(1), ...x.shape]); times.forEach((count, axis) => { if (count !== 1) result = concat(new Array(count).fill(result), axis); }); return result; },
  "aten.unsqueeze": unsqueeze,
  "aten.squeeze": squeeze,
  "aten.slice": (x, axis = 0, start = 0, stop = Infinity, step = 1) => slice(x, axis, start ?? 0, typeof stop === "number" ? stop : Infinity, typeof step === "number" ? step : 1),
  "aten.select": select,
  "aten.narrow": (x, axis, start, length) => slice(x, axis, start, start + length),
  "aten.cat": (parts, axis) => concat(parts, typeof axis === "number" ? axis : 0),
  "aten.stack": (parts, axis) => concat(parts.map((part) => unsqueeze(part, typeof axis === "number" ? axis : 0)), typeof axis === "number" ? axis : 0),
  "aten.split": splitEvery,
  "aten.split_with_sizes": (x, sizes, axis) => splitSizes(x, sizes, typeof axis === "number" ? axis : 0),
  "aten.unbind": (x, axis) => { const at = typeof axis === "number" ? axisOf(axis, x.shape.length) : 0; return Array.from({ length: x.shape[at] }, (_, i) => select(x, at, i)); },
  "aten.unfold": (x, axis, size, step) => { const at = axisOf(axis, x.shape.length); const strides = stridesOf(x.shape); return gatherView(x.data, [...x.shape.map((length, i) => (i === at ? Math.floor((length - size) / step) + 1 : length)), size], [...strides.map((stride, i) => (i === at ? stride * step : stride)), strides[at]]); },
  "aten.constant_pad_nd": (x, sizes, value) => pad(x, sizes, typeof value === "number" ? value : 0),
  "aten.as_strided": asStrided,
  "aten.diagonal": (x, offset = 0, first = 0, second = 1) => { const strides = stridesOf(x.shape); const [a, b] = [axisOf(first, x.shape.length), axisOf(second, x.shape.length)]; const rest = x.shape.map((_, i) => i).filter((i) => i !== a && i !== b); const low = typeof offset === "number" ? offset : 0; const length = Math.max(0, Math.min(x.shape[a] - Math.max(0, -low), x.shape[b] - Math.max(0, low))); return gatherView(x.data, [...rest.map((i) => x.shape[i]), length], [...rest.map((i) => strides[i]), strides[a] + strides[b]], Math.max(0, low) * strides[b] + Math.max(0, -low) * strides[a]); },
  "aten.tril": (x, offset) => tensor(x.shape, x.data.map((value, i) => { const [rows, columns] = x.shape.slice(-2); return (i % columns) - (Math.floor(i / columns) % rows) <= (typeof offset === "number" ? offset : 0) ? value : 0; })),
  "aten.arange.default": (stop, options) => arange(0, stop, 1, options),
  "aten.arange.start": (start, stop, options) => arange(start, stop, 1, options),
  "aten.arange.start_step": (start, stop, step, options) => arange(start, stop, typeof step === "number" ? step : 1, typeof step === "number" ? options : step),
  "aten.full": (shape, value, options) => filled(shape, value, arrayType(options.dtype, typeof value === "boolean" ? Uint8Array : Number.isInteger(value) ? Int32Array : Float32Array)),
  "aten.zeros": (shape, options) => filled(shape, 0, arrayType(options.dtype)),
  "aten.ones": (shape, options) => filled(shape, 1, arrayType(options.dtype)),
  "aten.empty": (shape, options) => filled(shape, 0, arrayType(options.dtype)),
  "aten.scalar_tensor": (value, options) => filled([], value, arrayType(options.dtype)),
  "aten.new_zeros": makeNew(0), "aten.new_ones": makeNew(1), "aten.new_empty": makeNew(0),
  "aten.new_full": (x, shape, value, options) => filled(shape, value, arrayType(options.dtype, x.data.constructor)),
  "aten.zeros_like": makeLike(0), "aten.ones_like": makeLike(1), "aten.empty_like": makeLike(0),
  "aten.full_like": (x, value, options) => filled(x.shape, value, arrayType(options.dtype, x.data.constructor)),
  "aten.eye": (n, options) => { const out = filled([n, n], 0, arrayType(options.dtype)); for (let i = 0; i < n; i++) out.data[i * n + i] = 1; return out; },
  "aten._to_copy": cast,
  "aten.clone": (x) => x, "aten.alias": (x) => x, "aten.detach": (x) => x, "aten.lift_fresh_copy": (x) => x, "aten.contiguous": (x) => x, "aten.lift_fresh": (x) => x,
  "aten.sym_size": (x, axis) => x.shape[axisOf(axis, x.shape.length)],
  "aten.sym_numel": (x) => x.data.length,
  "getitem": (values, index) => values[index],
  "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "//": (a, b) => Math.floor(a / b), "/": (a, b) => a / b, "%": (a, b) => a - b * Math.floor(a / b), "neg": (a) => -a,
  "==": (a, b) => a === b, "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b,
  "sym_max": Math.max, "sym_min": Math.min,
};
