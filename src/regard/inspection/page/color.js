// Color scales. The sequential scale changes evenly in lightness, so it is readable without hue: for color-blind readers and in
// grey print. There is a two-sided scale for signed numbers, and eight head colors that color-blind readers can distinguish.
// On a dark page the sequential scale is reversed, so that zero always has the color of the page.

const SEQUENTIAL_LIGHT = ["#fdfcf8", "#f3f3d3", "#cfe6c2", "#90cdb9", "#4ca9b3", "#2a7fa8", "#245592", "#1d2f6b", "#120f3a"];
const SEQUENTIAL_DARK = ["#15181e", "#1c2748", "#21447a", "#22678f", "#2b8a96", "#51ab92", "#8fc98a", "#d3e08c", "#fdf7bd"];
const SIGNED_LIGHT = ["#1b4f8f", "#5b93c5", "#bcd6e8", "#fdfcf8", "#f5cf9f", "#d98a35", "#8f4a06"];
const SIGNED_DARK = ["#8ec5f5", "#3d7cb8", "#23405f", "#15181e", "#5a3a1a", "#bb7326", "#fbc37a"];
const HEADS_LIGHT = ["#0b62a8", "#b84c0a", "#00805f", "#b03a83", "#8a6d00", "#4a4fb5", "#01738b", "#5d5a55"];
const HEADS_DARK = ["#62b1f0", "#f58a4b", "#37c39a", "#e485bf", "#dcbc3f", "#9aa0f5", "#4fc4dc", "#b9b5ad"];

const MASKED_GREY = { light: [228, 226, 220], dark: [44, 48, 56] }; // masked cells

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

function ramp(anchors) {
  const stopColors = anchors.map(channels);
  const table = new Uint8ClampedArray(256 * 3);
  for (let i = 0; i < 256; i++) {
    const position = (i / 255) * (stopColors.length - 1);
    const low = Math.min(Math.floor(position), stopColors.length - 2);
    for (let c = 0; c < 3; c++) table[i * 3 + c] = stopColors[low][c] + (position - low) * (stopColors[low + 1][c] - stopColors[low][c]);
  }
  return table;
}

const RAMPS = { light: ramp(SEQUENTIAL_LIGHT), dark: ramp(SEQUENTIAL_DARK) };
const SIGNED = { light: ramp(SIGNED_LIGHT), dark: ramp(SIGNED_DARK) };

export const currentTheme = () => document.documentElement.dataset.theme;

const rgbAt = (table, i) => `rgb(${table[i * 3]},${table[i * 3 + 1]},${table[i * 3 + 2]})`;
const tableIndex = (share) => Math.round(255 * Math.min(1, Math.max(0, share || 0)));

// Weight between 0 and 1 -> color.
export const shade = (share, scale = "sequential") => rgbAt(RAMPS[currentTheme()], tableIndex(SCALE_POSITION[scale](share)));

// Number between -1 and 1 -> color.
export const signedShade = (share) => rgbAt(SIGNED[currentTheme()], tableIndex((share + 1) / 2));

// Relative luminance of a color given as three bytes (WCAG).
const luminance = (rgb) => rgb.map((byte) => byte / 255).map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4))
  .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);

// Black or white, whichever is more readable on a color; the contrast is at least 4.5:1.
const readableOn = (rgb) => ((luminance(rgb) + 0.05) ** 2 > 1.05 * 0.05 ? "#000000" : "#ffffff");

// Text color that is readable on shade(share).
export function textColorOn(share) {
  const [table, i] = [RAMPS[currentTheme()], tableIndex(share) * 3];
  return readableOn([table[i], table[i + 1], table[i + 2]]);
}

// Text color that is readable on a color #rrggbb.
export const textColorOnHex = (hex) => readableOn(channels(hex));

export const headColor = (head) => (currentTheme() === "dark" ? HEADS_DARK : HEADS_LIGHT)[head % 8];

// Position on a scale of a share of the largest value. A root scale keeps small weights visible next to large ones.
const SCALE_POSITION = { sequential: (share) => share, linear: (share) => share, row: (share) => share, root: (share) => Math.sqrt(Math.max(0, share)), signed: (share) => (share + 1) / 2 };

// Numbers (any length) -> RGBA bytes, 0 .. top on a scale. Entries whose index is `hidden` are drawn in grey.
export function paint(values, top, { scale = "sequential", hidden = null } = {}) {
  const table = (scale === "signed" ? SIGNED : RAMPS)[currentTheme()];
  const grey = MASKED_GREY[currentTheme()];
  const bytes = new Uint8ClampedArray(values.length * 4);
  for (let i = 0; i < values.length; i++) {
    const entry = tableIndex(SCALE_POSITION[scale](values[i] / (top || 1))) * 3;
    for (let c = 0; c < 3; c++) bytes[i * 4 + c] = hidden?.(i) ? grey[c] : table[entry + c];
    bytes[i * 4 + 3] = 255;
  }
  return bytes;
}

// Rows x columns of numbers -> small canvas with one pixel per cell, to be enlarged without smoothing.
export function pixels(values, rows, columns, top, options = {}) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  canvas.getContext("2d").putImageData(new ImageData(paint(values, top, options), columns, rows), 0, 0);
  return canvas;
}
