// Dense tensors: {shape, data}. Numbers are Float32Array (float64 in a program: Float64Array), integers Int32Array, bools Uint8Array.

export const sizeOf = (shape) => shape.reduce((product, size) => product * size, 1);
export const tensor = (shape, data) => ({ shape, data });
export const axisOf = (axis, rank) => (axis < 0 ? axis + rank : axis);

const ARRAYS = { "torch.float32": Float32Array, "torch.float16": Float32Array, "torch.float64": Float64Array, "torch.int64": Int32Array, "torch.int32": Int32Array, "torch.bool": Uint8Array, "torch.uint8": Uint8Array };

// Array type of a dtype's name.
export function arrayType(dtype, otherwise = Float32Array) {
  return dtype ? ARRAYS[dtype] ?? otherwise : otherwise;
}

export function filled(shape, value, Type = Float32Array) {
  return tensor(shape, new Type(sizeOf(shape)).fill(value));
}

// Elements between neighbors of each axis in a dense tensor.
export function stridesOf(shape) {
  const strides = new Array(shape.length);
  let step = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = step;
    step *= shape[axis];
  }
  return strides;
}

// Copy a strided view of data into a dense tensor.
export function gatherView(data, shape, strides, offset = 0) {
  const out = new data.constructor(sizeOf(shape));
  const rank = shape.length;
  if (!out.length) return tensor(shape, out);
  if (!rank) {
    out[0] = data[offset];
    return tensor(shape, out);
  }
  const index = new Array(rank).fill(0);
  const last = shape[rank - 1];
  const step = strides[rank - 1];
  let from = offset;
  for (let to = 0; to < out.length; to += last) {
    for (let i = 0, source = from; i < last; i++, source += step) out[to + i] = data[source];
    for (let axis = rank - 2; axis >= 0; axis--) {
      from += strides[axis];
      if (++index[axis] < shape[axis]) break;
      from -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return tensor(shape, out);
}

export function permute(x, order) {
  const strides = stridesOf(x.shape);
  return gatherView(x.data, order.map((axis) => x.shape[axis]), order.map((axis) => strides[axis]));
}

export function transpose(x, first, second) {
  const rank = x.shape.length;
  const order = x.shape.map((_, axis) => axis);
  [order[axisOf(first, rank)], order[axisOf(second, rank)]] = [axisOf(second, rank), axisOf(first, rank)];
  return permute(x, order);
}

export function reshape(x, shape) {
  const known = shape.reduce((product, size) => (size < 0 ? product : product * size), 1);
  return tensor(shape.map((size) => (size < 0 ? x.data.length / (known || 1) : size)), x.data);
}

export function broadcastShapes(...shapes) {
  const rank = Math.max(...shapes.map((shape) => shape.length));
  return Array.from({ length: rank }, (_, axis) => {
    const sizes = shapes.map((shape) => shape[shape.length - rank + axis] ?? 1);
    return sizes.find((size) => size !== 1) ?? 1;
  });
}

// Repeat axes of size 1 to a shape; a size of -1 keeps the size.
export function expand(x, shape) {
  const added = shape.length - x.shape.length;
  const sizes = shape.map((size, axis) => (size < 0 ? x.shape[axis - added] : size));
  if (sizes.length === x.shape.length && sizes.every((size, axis) => size === x.shape[axis])) return x;
  const own = stridesOf(x.shape);
  const strides = sizes.map((_, axis) => (axis < added || x.shape[axis - added] === 1 ? 0 : own[axis - added]));
  return gatherView(x.data, sizes, strides);
}

// View of a range of one axis: from start (inclusive) to stop (exclusive).
export function slice(x, axis, start, stop, step = 1) {
  const at = axisOf(axis, x.shape.length);
  const size = x.shape[at];
  const low = Math.min(size, Math.max(0, start < 0 ? start + size : start));
  const high = Math.min(size, Math.max(low, stop < 0 ? stop + size : stop));
  if (low === 0 && high === size && step === 1) return x;
  const strides = stridesOf(x.shape);
  const shape = [...x.shape];
  shape[at] = Math.ceil((high - low) / step);
  const offset = low * strides[at];
  strides[at] *= step;
  return gatherView(x.data, shape, strides, offset);
}

export function select(x, axis, index) {
  const at = axisOf(axis, x.shape.length);
  const row = index < 0 ? index + x.shape[at] : index;
  const part = slice(x, at, row, row + 1);
  return tensor(x.shape.filter((_, i) => i !== at), part.data);
}

export function concat(parts, axis) {
  const used = parts.filter((part) => !(part.shape.length === 1 && part.shape[0] === 0));
  const [first] = used.length ? used : parts;
  const at = axisOf(axis, first.shape.length);
  const shape = [...first.shape];
  shape[at] = used.reduce((sum, part) => sum + part.shape[at], 0);
  const outer = sizeOf(shape.slice(0, at));
  const inner = sizeOf(shape.slice(at + 1));
  const out = new first.data.constructor(sizeOf(shape));
  let column = 0;
  for (const part of used) {
    const width = part.shape[at] * inner;
    for (let row = 0; row < outer; row++) out.set(part.data.subarray(row * width, (row + 1) * width), row * shape[at] * inner + column);
    column += width;
  }
  return tensor(shape, out);
}
