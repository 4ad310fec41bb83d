// Recurrent networks: Elman, LSTM and GRU layers in one or two directions over complete sequences, as in PyTorch.

import { sizeOf, tensor } from "./tensor.js";

const sigmoid = (x) => 1 / (1 + Math.exp(-x));

// out = weight (rows columns) · x + bias
function affine(weight, bias, x, start, columns, out) {
  for (let row = 0; row < out.length; row++) {
    let sum = bias.data[row];
    const base = row * columns;
    for (let i = 0; i < columns; i++) sum += weight.data[base + i] * x[start + i];
    out[row] = sum;
  }
}

// One step: gates of the input and of the state -> the new hidden state and cell, in place.
const CELLS = {
  rnn_tanh: (size, input, inner, hidden) => {
    for (let i = 0; i < size; i++) hidden[i] = Math.tanh(input[i] + inner[i]);
  },
  gru: (size, input, inner, hidden) => {
    for (let i = 0; i < size; i++) {
      const reset = sigmoid(input[i] + inner[i]);
      const update = sigmoid(input[size + i] + inner[size + i]);
      const fresh = Math.tanh(input[2 * size + i] + reset * inner[2 * size + i]);
      hidden[i] = fresh + update * (hidden[i] - fresh);
    }
  },
  lstm: (size, input, inner, hidden, cell) => {
    for (let i = 0; i < size; i++) {
      const gate = (k) => input[k * size + i] + inner[k * size + i];
      cell[i] = sigmoid(gate(1)) * cell[i] + sigmoid(gate(0)) * Math.tanh(gate(2));
      hidden[i] = sigmoid(gate(3)) * Math.tanh(cell[i]);
    }
  },
};

// x (b t d), hidden and cell (layers·directions b size), weights [w_ih, w_hh, b_ih, b_hh] per layer and direction
export function recur(x, hidden, cell, weights, kind, layers, directions) {
  const [batch, steps] = x.shape;
  const size = hidden.shape[2];
  const lastHidden = Float32Array.from(hidden.data);
  const lastCell = Float32Array.from(cell.data);
  let input = x;
  for (let layer = 0; layer < layers; layer++) {
    const width = input.shape[2];
    const out = new Float32Array(batch * steps * directions * size);
    for (let direction = 0; direction < directions; direction++) {
      const index = layer * directions + direction;
      const [inputWeight, stateWeight, inputBias, stateBias] = weights.slice(4 * index, 4 * index + 4);
      const gates = [new Float64Array(inputBias.data.length), new Float64Array(stateBias.data.length)];
      for (let row = 0; row < batch; row++) {
        const at = (index * batch + row) * size;
        const state = Float32Array.from(lastHidden.subarray(at, at + size));
        const memory = Float32Array.from(lastCell.subarray(at, at + size));
        for (let step = 0; step < steps; step++) {
          const position = direction ? steps - 1 - step : step;
          affine(inputWeight, inputBias, input.data, (row * steps + position) * width, width, gates[0]);
          affine(stateWeight, stateBias, state, 0, size, gates[1]);
          CELLS[kind](size, gates[0], gates[1], state, memory);
          out.set(state, ((row * steps + position) * directions + direction) * size);
        }
        lastHidden.set(state, at);
        lastCell.set(memory, at);
      }
    }
    input = tensor([batch, steps, directions * size], out);
  }
  const after = (data, shape) => tensor(shape, sizeOf(shape) ? data : new Float32Array(0));
  return [input, after(lastHidden, hidden.shape), after(lastCell, cell.shape)];
}
