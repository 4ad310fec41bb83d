// Images as Pillow reads and resizes them: grey by ITU-R 601, two passes of a filter with 22 bits of precision.

const PRECISION = 2 ** 22;

const sinc = (x) => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));
const FILTERS = {
  box: [0.5, (x) => (x > -0.5 && x <= 0.5 ? 1 : 0)],
  bilinear: [1, (x) => Math.max(0, 1 - Math.abs(x))],
  hamming: [1, (x) => { const size = Math.abs(x); return size === 0 ? 1 : size >= 1 ? 0 : sinc(size) * (0.54 + 0.46 * Math.cos(Math.PI * size)); }],
  bicubic: [2, (x) => {
    const size = Math.abs(x);
    if (size < 1) return (1.5 * size - 2.5) * size * size + 1;
    return size < 2 ? (((size - 5) * size + 8) * size - 4) * -0.5 : 0;
  }],
  lanczos: [3, (x) => (x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0)],
};

// For every output pixel: the first input pixel, and the weight of each input pixel.
function coefficients(low, high, size, outSize, name) {
  const [support, filter] = FILTERS[name];
  const scale = (high - low) / outSize;
  const stretch = Math.max(1, scale);
  return Array.from({ length: outSize }, (_, i) => {
    const center = low + (i + 0.5) * scale;
    const first = Math.max(0, Math.trunc(center - support * stretch + 0.5));
    const last = Math.min(size, Math.trunc(center + support * stretch + 0.5));
    const weights = Array.from({ length: last - first }, (_unused, x) => filter((x + first - center + 0.5) / stretch));
    const sum = weights.reduce((total, weight) => total + weight, 0) || 1;
    return { first, weights: weights.map((weight) => Math.trunc((weight / sum) * PRECISION + (weight < 0 ? -0.5 : 0.5))) };
  });
}

const clip = (sum) => Math.min(255, Math.max(0, Math.floor((sum + PRECISION / 2) / PRECISION)));

// Resize one axis: `axis` 1 is the width, 0 the height.
function resample(image, axis, low, high, outSize, name) {
  const { height, width, channels, data } = image;
  const [rows, columns] = axis ? [height, outSize] : [outSize, width];
  const table = coefficients(low, high, axis ? width : height, outSize, name);
  const out = new Uint8Array(rows * columns * channels);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const { first, weights } = table[axis ? column : row];
      for (let channel = 0; channel < channels; channel++) {
        let sum = 0;
        weights.forEach((weight, i) => { sum += weight * data[((axis ? row : first + i) * width + (axis ? first + i : column)) * channels + channel]; });
        out[(row * columns + column) * channels + channel] = clip(sum);
      }
    }
  }
  return { height: rows, width: columns, channels, data: out };
}

function stretch(image, height, width, name, box = [0, 0, image.width, image.height]) {
  const [left, top, right, bottom] = box;
  if (name === "nearest") {
    const data = new Uint8Array(height * width * image.channels);
    for (let row = 0; row < height; row++) for (let column = 0; column < width; column++) {
      const [y, x] = [Math.floor(top + ((row + 0.5) * (bottom - top)) / height), Math.floor(left + ((column + 0.5) * (right - left)) / width)];
      for (let c = 0; c < image.channels; c++) data[(row * width + column) * image.channels + c] = image.data[(y * image.width + x) * image.channels + c];
    }
    return { height, width, channels: image.channels, data };
  }
  const isSame = [width === image.width && left === 0 && right === width, height === image.height && top === 0 && bottom === height];
  const passes = [(part) => (isSame[0] ? part : resample(part, 1, left, right, width, name)), (part) => (isSame[1] ? part : resample(part, 0, top, bottom, height, name))];
  // Pillow 13 starts with the height if that removes more than twice as many lines; the passes round to 8 bits, so the order matters.
  if (height < image.height && image.height - height > 2 * (image.width - width)) passes.reverse();
  return passes.reduce((part, pass) => pass(part), image);
}

// Part of an image with the shape of the result, around its center.
function centerBox(image, height, width) {
  const [ratio, wanted] = [image.width / image.height, width / height];
  const [cropWidth, cropHeight] = ratio === wanted ? [image.width, image.height] : ratio >= wanted ? [wanted * image.height, image.height] : [image.width, image.width / wanted];
  const [left, top] = [(image.width - cropWidth) * 0.5, (image.height - cropHeight) * 0.5];
  return [left, top, left + cropWidth, top + cropHeight];
}

// Half to even, as Python rounds.
const round = (value) => { const low = Math.floor(value); return value - low === 0.5 ? low + (low % 2) : Math.round(value); };

function pad(image, height, width, name, fill) {
  const scale = Math.min(1, width / image.width, height / image.height);
  const [innerWidth, innerHeight] = [image.width, image.height].map((size) => Math.max(1, round(size * scale)));
  const inner = stretch(image, innerHeight, innerWidth, name);
  const { channels } = image;
  const data = new Uint8Array(height * width * channels).fill(fill);
  const [left, top] = [Math.floor((width - innerWidth) / 2), Math.floor((height - innerHeight) / 2)];
  for (let row = 0; row < innerHeight; row++) data.set(inner.data.subarray(row * innerWidth * channels, (row + 1) * innerWidth * channels), ((top + row) * width + left) * channels);
  return { height, width, channels, data };
}

// image {height, width, channels, data} -> the size of the model, see regard/data/images/resize.py
export function toShape(image, { height, width, fit, fill, resample: name }) {
  if (image.height === height && image.width === width) return image;
  if (fit === "crop") return stretch(image, height, width, name, centerBox(image, height, width));
  return fit === "pad" ? pad(image, height, width, name, fill) : stretch(image, height, width, name);
}

// RGBA bytes -> image with 1 or 3 channels, transparent parts on white
export function fromRgba(rgba, height, width, channels) {
  const data = new Uint8Array(height * width * channels);
  let isTransparent = false;
  for (let i = 0; i < height * width; i++) {
    const alpha = rgba[4 * i + 3];
    isTransparent ||= alpha < 255;
    const [red, green, blue] = [0, 1, 2].map((k) => (alpha === 255 ? rgba[4 * i + k] : Math.round((rgba[4 * i + k] * alpha + 255 * (255 - alpha)) / 255)));
    if (channels === 1) data[i] = (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16;
    else data.set([red, green, blue], 3 * i);
  }
  return { height, width, channels, data, isTransparent };
}
