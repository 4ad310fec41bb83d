// Matrix products, sums in float64: (n k) x (k m) with optional bias, batches of matrices, and convolutions.

import { sizeOf, tensor } from "./tensor.js";

// out (n m) = a (n k) · b (k m), from given offsets. Four rows of b at a time: the sums are read and written a quarter as often.
function multiply(a, aStart, b, bStart, out, outStart, n, k, m) {
  const sums = new Float64Array(m);
  for (let row = 0; row < n; row++) {
    sums.fill(0);
    const first = aStart + row * k;
    let i = 0;
    for (; i + 3 < k; i += 4) {
      const p = a[first + i];
      const q = a[first + i + 1];
      const r = a[first + i + 2];
      const s = a[first + i + 3];
      const start = bStart + i * m;
      const second = start + m;
      const third = second + m;
      const fourth = third + m;
      for (let column = 0; column < m; column++) sums[column] += p * b[start + column] + q * b[second + column] + r * b[third + column] + s * b[fourth + column];
    }
    for (; i < k; i++) {
      const factor = a[first + i];
      const start = bStart + i * m;
      for (let column = 0; column < m; column++) sums[column] += factor * b[start + column];
    }
    out.set(sums, outStart + row * m);
  }
}

export function matrixProduct(a, b, bias = null) {
  const [n, k] = a.shape;
  const m = b.shape[1];
  const out = new Float32Array(n * m);
  multiply(a.data, 0, b.data, 0, out, 0, n, k, m);
  if (bias) {
    const isRow = bias.data.length === m;
    for (let i = 0; i < out.length; i++) out[i] += bias.data[isRow ? i % m : i % bias.data.length];
  }
  return tensor([n, m], out);
}

export function batchProduct(a, b) {
  const [batch, n, k] = a.shape;
  const m = b.shape[2];
  const out = new Float32Array(batch * n * m);
  for (let i = 0; i < batch; i++) multiply(a.data, i * n * k, b.data, i * k * m, out, i * n * m, n, k, m);
  return tensor([batch, n, m], out);
}

// Convolution over one or two spatial axes: x (b c …), weights (o c/groups …).
export function convolve(x, weight, bias, stride, padding, dilation, groups) {
  const isPlane = x.shape.length === 4;
  const [batch, channels] = x.shape;
  const [height, width] = isPlane ? x.shape.slice(2) : [1, x.shape[2]];
  const [outputs, inner] = weight.shape;
  const [kernelHeight, kernelWidth] = isPlane ? weight.shape.slice(2) : [1, weight.shape[2]];
  const pair = (values, single) => (isPlane ? [values[0], values.at(-1)] : [single, values[0]]);
  const [[downY, downX], [padY, padX], [stepY, stepX]] = [pair(stride, 1), pair(padding, 0), pair(dilation, 1)];
  const rows = Math.floor((height + 2 * padY - stepY * (kernelHeight - 1) - 1) / downY) + 1;
  const columns = Math.floor((width + 2 * padX - stepX * (kernelWidth - 1) - 1) / downX) + 1;
  const shape = isPlane ? [batch, outputs, rows, columns] : [batch, outputs, columns];
  const out = new Float32Array(sizeOf(shape));
  const sums = new Float64Array(rows * columns);
  for (let image = 0; image < batch; image++) {
    for (let output = 0; output < outputs; output++) {
      sums.fill(bias ? bias.data[output] : 0);
      const group = Math.floor(output / (outputs / groups));
      for (let channel = 0; channel < inner; channel++) {
        const plane = (image * channels + group * inner + channel) * height * width;
        for (let ky = 0; ky < kernelHeight; ky++) {
          for (let kx = 0; kx < kernelWidth; kx++) {
            const factor = weight.data[((output * inner + channel) * kernelHeight + ky) * kernelWidth + kx];
            if (factor === 0) continue;
            for (let row = 0; row < rows; row++) {
              const y = row * downY - padY + ky * stepY;
              if (y < 0 || y >= height) continue;
              for (let column = 0; column < columns; column++) {
                const position = column * downX - padX + kx * stepX;
                if (position >= 0 && position < width) sums[row * columns + column] += factor * x.data[plane + y * width + position];
              }
            }
          }
        }
      }
      out.set(sums, (image * outputs + output) * rows * columns);
    }
  }
  return tensor(shape, out);
}
