// Entry for scripts that call the engine directly, without a worker: tests and measurements.

import { Engine } from "./engine.js";
import { readImage } from "./images.js";
import { Tokenizer } from "./tokenizer.js";

// All cells of a level from its tiles, row by row.
function cellsOf({ shape: [rows, columns], tiles }, size) {
  return Array.from({ length: rows * columns }, (_, i) => {
    const [row, column] = [Math.floor(i / columns), i % columns];
    const j = Math.floor(column / size);
    return tiles[Math.floor(row / size)][j][(row % size) * Math.min(size, columns - j * size) + (column % size)];
  });
}

// An inspection as plain values; a map as one array of all heads.
function plain(inspection) {
  const maps = inspection.maps.map(({ name, queries, keys, group, title, layer, shape, heads, tile }) => ({ name, queries, keys, group, title, layer, shape, values: heads.flatMap((head) => cellsOf(head.levels[0], tile)) }));
  return { ...inspection, maps, steps: inspection.steps.length, embeddings: [], positions: null, probes: [] };
}

export function start() {
  let engine = null;
  globalThis.regard = {
    load: (file) => { engine = new Engine(file); },
    inspect: async (request) => plain(await engine.inspect(request)),
    seconds: async (request) => {
      const startedAt = performance.now();
      await engine.inspect(request);
      return (performance.now() - startedAt) / 1000;
    },
    tokenizer: (state) => new Tokenizer(state),
    image: readImage,
  };
}
