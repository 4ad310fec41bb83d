// Data of the page: one inspection (see inspection/json_format.py), with maps that are unpacked on demand.
// A map is stored per head as levels: level 0 has every cell, level k the largest of 2^k x 2^k cells. A level is split into tiles.
// A tile is base64 of deflated bytes: all highest, all middle, all lowest bytes of weights times 2^24 - 1. null = all zeros.

import { translateTerm, t, translateSummary } from "./i18n.js";

const WEIGHT_SCALE = 2 ** 24 - 1;

function bytesOf(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Values that the model of the page computed are arrays already.
async function decodeTile(text, count) {
  if (text instanceof Float32Array) return text;
  const values = new Float32Array(count);
  if (text === null) return values;
  const bytes = await inflate(bytesOf(text));
  for (let i = 0; i < count; i++) values[i] = ((bytes[i] << 16) | (bytes[count + i] << 8) | bytes[2 * count + i]) / WEIGHT_SCALE;
  return values;
}

// {shape, data}: base64 of deflated bytes of float32: all highest bytes, then the next, down to the lowest -> {shape, values}
export async function decodeFloats(packed) {
  if (packed.values) return packed;
  const planes = await inflate(bytesOf(packed.data));
  const count = planes.length / 4;
  const words = new Uint32Array(count);
  for (let i = 0; i < count; i++) words[i] = (planes[i] << 24) | (planes[count + i] << 16) | (planes[2 * count + i] << 8) | planes[3 * count + i];
  return { shape: packed.shape, values: new Float32Array(words.buffer) };
}

// {shape, data}: base64 of deflated bits, eight per byte, highest first -> one byte each, 1 = true
async function decodeBits(packed) {
  if (packed.values) return packed.values;
  const bytes = await inflate(bytesOf(packed.data));
  const values = new Uint8Array(packed.shape.reduce((product, size) => product * size, 1));
  for (let i = 0; i < values.length; i++) values[i] = (bytes[i >> 3] >> (7 - (i & 7))) & 1;
  return values;
}

class AttentionMap {
  constructor(raw, index, fetchTile) {
    const { title, tile, heads, shape, ...facts } = raw;
    Object.assign(this, facts, { englishTitle: title, groupTitle: translateTerm(title), index, tileSize: tile, packed: heads, fetchTile });
    [this.heads, this.rows, this.columns] = shape;
    this.long = Math.max(this.rows, this.columns) > this.tileSize;
    this.tiles = new Map();
    this.headWeights = [];
  }

  // Set the title to that of the group, with the layer if the group has several.
  withTitle(layers) {
    this.title = layers > 1 ? t`${this.groupTitle}, layer ${this.layer + 1}` : this.groupTitle;
    return this;
  }

  levels(head) {
    return this.packed[head].levels;
  }

  // Return the finest level whose tiles are in the page; 0 if a server has the others.
  finestLevel(head) {
    return this.fetchTile ? 0 : this.levels(head).findIndex((level) => level.tiles !== null);
  }

  // Return one tile of a level as numbers; it is read once, then cached.
  tile(head, level, i, j) {
    const key = `${head}/${level}/${i}/${j}`;
    if (!this.tiles.has(key)) this.tiles.set(key, this.readTile(head, level, i, j));
    return this.tiles.get(key);
  }

  async readTile(head, level, i, j) {
    const { shape: [rows, columns], tiles } = this.levels(head)[level];
    const height = Math.min(this.tileSize, rows - i * this.tileSize);
    const width = Math.min(this.tileSize, columns - j * this.tileSize);
    const text = tiles !== null ? tiles[i][j] : await this.fetchTile(this.index, head, level, i, j);
    return { height, width, values: await decodeTile(text, height * width) };
  }

  async load() {
    if (this.long) return;
    for (let head = 0; head < this.heads; head++) this.headWeights.push((await this.tile(head, 0, 0, 0)).values);
    if (this.allowed) this.mask = await decodeBits(this.allowed);
  }

  // Return true if the query may attend to the key; for all heads (-1), if any head may.
  allows(head, row, column) {
    if (!this.mask) return true;
    const size = this.rows * this.columns;
    const allowedBy = (i) => this.mask[(i % (this.mask.length / size)) * size + row * this.columns + column] === 1;
    return head >= 0 ? allowedBy(head) : Array.from({ length: this.heads }, (_, i) => allowedBy(i)).some(Boolean);
  }

  // Return true if the mask leaves the query a single key, whose weight is then always 1.
  isForced(head, row) {
    if (!this.mask || this.columns === 1) return false;
    let count = 0;
    for (let column = 0; column < this.columns && count < 2; column++) count += this.allows(head, row, column) ? 1 : 0;
    return count === 1;
  }

  // Return true if a head is switched off: it may attend to keys, but all its weights are zero.
  isOff(head) {
    if (this.long || maximum(this.weights(head)) > 0) return false;
    return Array.from({ length: this.rows * this.columns }, (_, i) => i).some((i) => this.allows(head, Math.floor(i / this.columns), i % this.columns));
  }

  // Return the largest weight of a head that is not forced: the value of the darkest color.
  colorTop(head) {
    let top = 0;
    for (let row = 0; row < this.rows; row++) if (!this.isForced(head, row)) top = Math.max(top, maximum(this.row(head, row)));
    return top || maximum(this.weights(head));
  }

  // Weights as drawn: with the scale "row", each row relative to its largest weight.
  drawnWeights(head, scale) {
    const weights = this.weights(head);
    if (scale !== "row") return weights;
    const tops = Array.from({ length: this.rows }, (_, row) => maximum(this.row(head, row)) || 1);
    return weights.map((weight, i) => weight / tops[Math.floor(i / this.columns)]);
  }

  // Short maps: rows x columns weights of a head; head -1 is the mean of all heads.
  weights(head) {
    if (head >= 0) return this.headWeights[head];
    this.meanWeights ||= Float32Array.from(this.headWeights[0], (_, i) => this.headWeights.reduce((sum, weights) => sum + weights[i], 0) / this.heads);
    return this.meanWeights;
  }

  value(head, row, column) {
    return this.weights(head)[row * this.columns + column];
  }

  row(head, row) {
    return this.weights(head).subarray(row * this.columns, (row + 1) * this.columns);
  }

  // Load one complete row of any map, long or short.
  async loadRow(head, row) {
    if (!this.long) return this.row(head, row);
    const i = Math.floor(row / this.tileSize);
    const out = new Float32Array(this.columns);
    const across = Math.ceil(this.columns / this.tileSize);
    const parts = await Promise.all(Array.from({ length: across }, (_, j) => this.tile(head, 0, i, j)));
    parts.forEach((part, j) => {
      const start = (row - i * this.tileSize) * part.width;
      out.set(part.values.subarray(start, start + part.width), j * this.tileSize);
    });
    return out;
  }

  // Thumbnail of a head: level 0 of a short map, the coarsest level of a long one.
  async thumbnail(head) {
    const level = this.levels(head).length - 1;
    const { shape: [rows, columns] } = this.levels(head)[level];
    return { rows, columns, values: (await this.tile(head, level, 0, 0)).values };
  }
}

function unpack(maps, fetchTile) {
  const layers = (group) => maps.filter((map) => map.group === group).length;
  return maps.map((map, index) => new AttentionMap(map, index, fetchTile).withTitle(layers(map.group)));
}

const labelsOf = (axis) => axis.items.map((item) => item.text);
const sameItem = (first, second) => first?.axis === second?.axis && first?.item === second?.item;

const translated = (axes) => Object.fromEntries(Object.entries(axes).map(([name, axis]) => [name, { ...axis, title: translateTerm(axis.title) }]));

// If input and output are not text, the task summarizes them in one line, which is translated here.
function translatedSummaries({ title, outputs, extra }) {
  if (!extra?.roll && !extra?.canvas) return {};
  return { title: translateSummary(title), outputs: outputs.map((output) => ({ ...output, text: translateSummary(output.text) })) };
}

export class Inspection {
  constructor(raw, fetchTile = null) {
    Object.assign(this, raw, { axes: translated(raw.axes) }, translatedSummaries(raw));
    this.maps = unpack(raw.maps, fetchTile);
    this.probes = (raw.probes || []).map((probe) => ({ ...probe, axes: translated(probe.axes), maps: unpack(probe.maps, null), labels: (axis) => labelsOf(probe.axes[axis]) }));
  }

  async load() {
    const maps = [...this.maps, ...this.probes.flatMap((probe) => probe.maps)];
    await Promise.all(maps.map((map) => map.load()));
    if (this.positions) this.positions = { ...this.positions, table: await decodeFloats(this.positions.table), by_distance: await decodeFloats(this.positions.by_distance) };
    if (this.embeddings) this.embeddings = await Promise.all(this.embeddings.map(async (space) => ({ ...space, points: await decodeFloats(space.points) })));
    return this;
  }

  labels(axis) {
    return labelsOf(this.axes[axis]);
  }

  items(axis) {
    return this.axes[axis].items;
  }

  // Return the image whose cells are the items of an axis, or null.
  imageOf(axis) {
    if (!this.items(axis).some((item) => item.box)) return null;
    const { canvas, overlay, boxes, captions } = this.extra || {};
    return axis === "small" ? canvas?.small ?? null : [canvas, overlay, boxes, captions].find((image) => image?.pixels) ?? null;
  }

  // Return the map with this name; otherwise the default map.
  map(name) {
    const byName = (mapName) => this.maps.find((map) => map.name === mapName);
    return byName(name) || byName(this.first) || this.maps[0];
  }

  // Return the maps that belong to an item of another axis; null: those of the outermost level.
  mapsInside(parent) {
    return this.maps.filter((map) => sameItem(map.parent, parent));
  }

  // Return the items that have maps inside them, of the axes that belong to `parent` (null: to no item).
  itemsWithMaps(parent) {
    const parents = this.maps.map((map) => map.parent).filter((item) => item && sameItem(this.axes[item.axis].parent, parent));
    return parents.filter((item, i) => parents.findIndex((candidate) => sameItem(item, candidate)) === i);
  }

  // Return the axes that any map attends to, in the order of the maps.
  attendedAxes() {
    return [...new Set(this.maps.map((map) => map.keys))];
  }
}

export const mapGroups = (maps) => [...new Map(maps.map((map) => [map.group, map.groupTitle]))].map(([key, label]) => ({ key, label }));

export function maximum(values) {
  let top = 0;
  for (let i = 0; i < values.length; i++) if (values[i] > top) top = values[i];
  return top;
}

export function strongest(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}
