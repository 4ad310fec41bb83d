// The inspection of one input as the explorer's page reads it (inspection/json_format.py), from recorded attention.

import { concat, filled, tensor } from "./tensor.js";

const TILE = 256; // rows and columns of a map that is drawn cell by cell

export const noChanges = () => ({ disabled_heads: [], hidden_items: [], temperature: 1 });

// Records the attention of several runs of programs. `axes` names the axes of one run: {queries: {name: axis}, keys: {name: axis}}.
export class Recorder {
  constructor(model, changes) {
    Object.assign(this, { model, changes, entries: new Map() });
  }

  // Context of a run of a program for one row of the batch.
  context(axes, row = null) {
    const keysOf = (module) => axes.keys[this.model.modules[module].keys];
    return {
      changes: this.changes,
      hiddenKeys: (module) => this.changes.hidden_items.filter(([axis]) => axis === keysOf(module)).map(([, item]) => item),
      record: (call) => {
        const key = row === null ? call.module : `${call.module} #${row + 1}`;
        if (!this.entries.has(key)) this.entries.set(key, { name: key, module: call.module, row: row ?? 0, axes, calls: [] });
        const { calls } = this.entries.get(key);
        if (calls.length) Object.assign(calls.at(-1), { k: null, values: null }); // a later call has all keys
        calls.push(call);
      },
    };
  }

  // Context that applies the changes and records nothing.
  silent(axes) {
    return { ...this.context(axes), record: undefined };
  }
}

// Tensors (1 h t s) of several calls joined along t; earlier calls had fewer keys.
function joinCalls(parts) {
  const keys = Math.max(...parts.map(({ shape }) => shape[3]));
  const padded = parts.map((part) => {
    const missing = keys - part.shape[3];
    return missing ? concat([part, filled([...part.shape.slice(0, 3), missing], 0, part.data.constructor)], 3) : part;
  });
  return padded.length === 1 ? padded[0] : concat(padded, 2);
}

// 2 x 2 max pooling.
function pool({ rows, columns, values }) {
  const [height, width] = [Math.ceil(rows / 2), Math.ceil(columns / 2)];
  const out = new Float32Array(height * width);
  for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) {
    const to = (i >> 1) * width + (j >> 1);
    out[to] = Math.max(out[to], values[i * columns + j]);
  }
  return { rows: height, columns: width, values: out };
}

function tilesOf({ rows, columns, values }) {
  return Array.from({ length: Math.ceil(rows / TILE) }, (_, i) => Array.from({ length: Math.ceil(columns / TILE) }, (_unused, j) => {
    const [height, width] = [Math.min(TILE, rows - i * TILE), Math.min(TILE, columns - j * TILE)];
    const tile = new Float32Array(height * width);
    for (let row = 0; row < height; row++) tile.set(values.subarray((i * TILE + row) * columns + j * TILE, (i * TILE + row) * columns + j * TILE + width), row * width);
    return tile;
  }));
}

// One head as a pyramid of levels, the finest first.
function packHead(level) {
  const levels = [level];
  while (Math.max(levels.at(-1).rows, levels.at(-1).columns) > TILE) levels.push(pool(levels.at(-1)));
  return { levels: levels.map((part) => ({ shape: [part.rows, part.columns], tiles: tilesOf(part) })) };
}

const titleOf = (queries, keys, inward) => {
  const title = inward ? `${queries} self-attention` : `${queries} → ${keys}`;
  return title[0].toUpperCase() + title.slice(1);
};

// Rows and columns of a map that belong to items; queries beyond the items are padding.
function mapOf(entry, { model, axes, changes }) {
  const { module, calls } = entry;
  const { queries: queryName, keys: keyName, normalizer } = model.modules[module];
  const weights = joinCalls(calls.map((call) => call.weights));
  const [, heads, t, s] = weights.shape;
  const axisName = (names, name, size) => {
    if (names[name]) return names[name];
    axes[`${name} ${size}`] ??= { title: name, items: Array.from({ length: size }, (_, i) => ({ text: String(i + 1) })), parent: null };
    return `${name} ${size}`;
  };
  const [queries, keys] = [axisName(entry.axes.queries, queryName, t), axisName(entry.axes.keys, keyName, s)];
  const [rows, columns] = [axes[queries].items.length, axes[keys].items.length];
  if (rows !== t || columns !== s) throw new Error(`map ${entry.name}: ${t} × ${s} weights, but ${rows} and ${columns} items`);
  const isLong = Math.max(t, s) > TILE;
  const inward = queryName === keyName;
  const masks = calls.map((call) => tensor(call.weights.shape, call.mask ?? new Uint8Array(call.weights.data.length).fill(1)));
  const isMasked = calls.some((call) => call.mask) || calls.some((call) => call.weights.shape[3] < s);
  const isOff = (head) => changes.disabled_heads.some(([name, index]) => name === module && index === head);
  return {
    name: entry.name, module, queries, keys, group: `${queries} > ${keys}`, inward, batch: entry.row, normalizer,
    title: titleOf(axes[queries].title, axes[keys].title, inward), parent: axes[keys].parent ?? axes[queries].parent ?? null, honesty: null,
    allowed: isLong || !isMasked ? null : { shape: [heads, t, s], values: joinCalls(masks).data },
    shape: [heads, t, s], tile: TILE,
    heads: Array.from({ length: heads }, (_, head) => packHead({ rows: t, columns: s, values: isOff(head) ? new Float32Array(t * s) : weights.data.slice(head * t * s, (head + 1) * t * s) })),
  };
}

// All values of one head of a map, for the step-by-step view.
function stepsOf(map, entry, { model, changes }) {
  const { formula, normalizer, dependsOnPosition, showsProducts, stage, key } = model.modules[entry.module];
  const { temperature } = changes;
  const scores = joinCalls(entry.calls.map((call) => call.scores));
  const queries = entry.calls.length === 1 ? entry.calls[0].q : concat(entry.calls.map((call) => call.q), 2);
  const last = entry.calls.at(-1);
  const score = temperature === 1 ? formula : dependsOnPosition ? `(${formula}) / ${temperature}` : `${formula} / ${temperature}`;
  const [, heads, t, s] = scores.shape;
  const headOf = (x, head) => ({ shape: x.shape.slice(2), values: x.data.slice(head * x.shape[2] * x.shape[3], (head + 1) * x.shape[2] * x.shape[3]) });
  const scale = Math.sqrt(queries.shape[3]);
  return Array.from({ length: heads }, (_, head) => {
    const values = scores.data.slice(head * t * s, (head + 1) * t * s);
    const stages = [{ name: stage, values: { shape: [t, s], values } }];
    if (showsProducts) stages.unshift({ name: "q·k", values: { shape: [t, s], values: values.map((value) => value * scale) } });
    if (temperature !== 1) stages.push({ name: `÷ ${temperature}`, values: { shape: [t, s], values: values.map((value) => value / temperature) } });
    return { map: map.name, head, formula: `${normalizer}[ ${score} + M ] · V`, normalizer: normalizer.toLowerCase(), key, queries: headOf(queries, head), keys: headOf(last.k, head), values: headOf(last.values, head), stages };
  });
}

// The map to show first: the last cross-attention of the outputs, or of any queries; else the first map.
function firstMap(maps, answered) {
  const top = maps.some((map) => map.parent === null) ? maps.filter((map) => map.parent === null) : maps;
  const cross = top.filter((map) => !map.inward);
  return cross.filter((map) => map.queries === answered).at(-1) ?? cross.at(-1) ?? top[0];
}

// recorder, and the task's part: {text, title, axes, answered, outputs, views, extra, remarks, seconds}
export function inspectionOf(recorder, part) {
  const { model, changes } = recorder;
  const context = { model, changes, axes: part.axes };
  const modules = [...new Set([...recorder.entries.values()].map(({ module }) => module))];
  const entries = [...recorder.entries.values()].sort((a, b) => modules.indexOf(a.module) - modules.indexOf(b.module) || a.row - b.row);
  const layers = new Map();
  const maps = entries.map((entry) => {
    const map = mapOf(entry, context);
    layers.set(map.group, (layers.get(map.group) ?? -1) + 1);
    return { ...map, layer: layers.get(map.group) };
  });
  const order = [...layers.keys()];
  const sorted = [...maps].sort((a, b) => order.indexOf(a.group) - order.indexOf(b.group));
  const first = sorted.length ? firstMap(sorted, part.answered) : null;
  const steps = sorted.filter(({ shape }) => Math.max(shape[1], shape[2]) <= TILE).sort((a, b) => (a !== first) - (b !== first) || a.layer - b.layer)
    .flatMap((map) => stepsOf(map, entries.find((entry) => entry.name === map.name), context));
  return {
    ...model.page, text: part.text, title: part.title ?? part.text, remarks: part.remarks ?? [], axes: part.axes, maps: sorted, answered: part.answered ?? "", first: first?.name ?? null,
    facts: { ...model.page.facts, seconds: Math.round(1000 * part.seconds) / 1000 }, outputs: part.outputs, truth: null, steps, views: part.views ?? [], extra: part.extra ?? {},
  };
}

export const item = (text, properties = {}) => ({ text, ...properties });
export const axis = (items, title, parent = null) => ({ title, items, parent });
