// The data of the page: one inspection (see inspection/format.py) with its maps unpacked when they are needed.
// A map is kept per head as levels: level 0 is every cell, level k the largest of 2^k x 2^k cells. A level is cut in tiles.
// A tile is base64 of deflated bytes: all high bytes, then all low bytes, of weights times 65535. null = all zeros.

const FULL = 65535;

export const GROUPS = {
  encoder: "Encoder self-attention",
  decoder: "Decoder self-attention",
  cross: "Cross-attention",
  other: "Attention",
};

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

async function tileNumbers(text, count) {
  const values = new Float32Array(count);
  if (text === null) return values;
  const bytes = await inflate(bytesOf(text));
  for (let i = 0; i < count; i++) values[i] = ((bytes[i] << 8) | bytes[count + i]) / FULL;
  return values;
}

// {shape, data}: base64 of little-endian float32 -> {shape, values}
export function floats(packed) {
  const bytes = bytesOf(packed.data);
  return { shape: packed.shape, values: new Float32Array(bytes.buffer, 0, bytes.length / 4) };
}

class AttentionMap {
  constructor(raw, index, fetchTile) {
    Object.assign(this, { name: raw.name, group: raw.group, layer: raw.layer, queries: raw.queries, keys: raw.keys });
    Object.assign(this, { honesty: raw.honesty, index, side: raw.tile, packed: raw.heads, fetchTile });
    [this.heads, this.rows, this.columns] = raw.shape;
    this.long = Math.max(this.rows, this.columns) > this.side;
    this.tiles = new Map();
    this.whole = [];
  }

  get title() {
    return `${GROUPS[this.group] || this.group}, layer ${this.layer + 1}`;
  }

  levels(head) {
    return this.packed[head].levels;
  }

  // The deepest level whose tiles are in the page, or 0 where a server has the rest.
  finest(head) {
    return this.fetchTile ? 0 : this.levels(head).findIndex((level) => level.tiles !== null);
  }

  // One tile of a level as numbers; asked for once, then kept.
  tile(head, level, i, j) {
    const key = `${head}/${level}/${i}/${j}`;
    if (!this.tiles.has(key)) this.tiles.set(key, this.readTile(head, level, i, j));
    return this.tiles.get(key);
  }

  async readTile(head, level, i, j) {
    const { shape: [rows, columns], tiles } = this.levels(head)[level];
    const height = Math.min(this.side, rows - i * this.side);
    const width = Math.min(this.side, columns - j * this.side);
    const text = tiles !== null ? tiles[i][j] : await this.fetchTile(this.index, head, level, i, j);
    return { height, width, values: await tileNumbers(text, height * width) };
  }

  async load() {
    if (this.long) return;
    for (let head = 0; head < this.heads; head++) this.whole.push((await this.tile(head, 0, 0, 0)).values);
  }

  // Short maps: rows x columns numbers of a head; head -1 is the mean of all.
  numbers(head) {
    if (head >= 0) return this.whole[head];
    this.average ||= Float32Array.from(this.whole[0], (_, i) => this.whole.reduce((sum, one) => sum + one[i], 0) / this.heads);
    return this.average;
  }

  value(head, row, column) {
    return this.numbers(head)[row * this.columns + column];
  }

  row(head, row) {
    return this.numbers(head).subarray(row * this.columns, (row + 1) * this.columns);
  }

  // One whole row of any map, long or short.
  async rowLater(head, row) {
    if (!this.long) return this.row(head, row);
    const i = Math.floor(row / this.side);
    const out = new Float32Array(this.columns);
    const across = Math.ceil(this.columns / this.side);
    const parts = await Promise.all(Array.from({ length: across }, (_, j) => this.tile(head, 0, i, j)));
    parts.forEach((part, j) => {
      const start = (row - i * this.side) * part.width;
      out.set(part.values.subarray(start, start + part.width), j * this.side);
    });
    return out;
  }

  // A small picture of a head: level 0 of a short map, the most pooled level of a long one.
  async thumbnail(head) {
    const level = this.levels(head).length - 1;
    const { shape: [rows, columns] } = this.levels(head)[level];
    return { rows, columns, values: (await this.tile(head, level, 0, 0)).values };
  }
}

export class Inspection {
  constructor(raw, fetchTile = null) {
    Object.assign(this, raw);
    this.maps = raw.maps.map((map, index) => new AttentionMap(map, index, fetchTile));
    this.probes = (raw.probes || []).map((probe) => ({ ...probe, maps: probe.maps.map((map, i) => new AttentionMap(map, i, null)) }));
  }

  async load() {
    const all = [...this.maps, ...this.probes.flatMap((probe) => probe.maps)];
    await Promise.all(all.map((map) => map.load()));
    return this;
  }

  labels(axis) {
    return this.axes[axis].labels;
  }

  groups() {
    return [...new Set(this.maps.map((map) => map.group))];
  }

  // The map so named; else the one that aligns best, the last look at the source, or the first there is.
  map(name) {
    const called = (wanted) => this.maps.find((map) => map.name === wanted);
    return called(name) || called(this.alignment?.best) || this.maps.filter((map) => map.group === "cross").at(-1) || this.maps[0];
  }
}

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
