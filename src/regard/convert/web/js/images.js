// Input images: the browser decodes the user's file, and resize.js brings it to the shape of the model.

import { fromRgba, toShape } from "./resize.js";
import { tensor } from "./tensor.js";
import { bytesOf } from "./weights.js";

const MAX_PIXELS = 2 ** 24; // of an uploaded image

// upload {name, file: base64} -> {name, image, original, remarks}; shape: of the model
export async function readImage({ name, file }, shape) {
  const bitmap = await createImageBitmap(new Blob([bytesOf(file)]), { premultiplyAlpha: "none", colorSpaceConversion: "none" }).catch(() => {
    throw new Error(`${name}: not an image that this browser can read; give PNG, JPEG, WebP …`);
  });
  const { width, height } = bitmap;
  if (width * height > MAX_PIXELS) throw new Error(`${name}: ${width}x${height} pixels; an image has at most ${MAX_PIXELS} pixels: scale it down`);
  const context = new OffscreenCanvas(width, height).getContext("2d", { colorSpace: "srgb", willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  return shaped(name, fromRgba(context.getImageData(0, 0, width, height).data, height, width, shape.channels), shape);
}

// Image of any size -> the input of a model
export function shaped(name, original, shape) {
  const image = toShape(original, shape);
  const remarks = original.isTransparent ? ["transparent: placed on a white background"] : [];
  if (image !== original) remarks.push(`${original.height}x${original.width} pixels: resized to ${shape.height}x${shape.width}`);
  return { name, image, original, remarks };
}

// Image -> (1 c h w) of -1 … 1
export function imageTensor({ height, width, channels, data }) {
  const values = new Float32Array(data.length);
  const size = height * width;
  for (let i = 0; i < size; i++) for (let c = 0; c < channels; c++) values[c * size + i] = Math.fround(Math.fround(data[i * channels + c] * Math.fround(2 / 255)) - 1);
  return tensor([1, channels, height, width], values);
}

// Pixels as the page draws them: one list of channels per pixel.
export function pixelsOf({ channels, data }) {
  return Array.from({ length: data.length / channels }, (_, i) => Array.from(data.subarray(i * channels, (i + 1) * channels)));
}
