"""Bidirectional GRU and LSTM over packed sequences, without computation for padding; on a CPU with custom gradients.

PyTorch's backward pass allocates a tensor of the size of the whole batch at every step and takes ten times as long as
the products need. Here both directions run in one loop with few operations per step. Everything that does not depend on
the recurrence (input products, slopes of the gates, the weight gradient) is computed for all steps at once. On other
devices PyTorch's networks are used, with the same weights.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from regard.core.tracing import gradients, is_tracing, is_transforming
from regard.layers.recurrent import RecurrentEncoder


class Packing(NamedTuple):
    """Non-padding positions of padded sequences (n s), ordered by step: first those of step 0, longest sequence
    first."""

    indices: Tensor  # (N) index of each position in the flattened padded tensor, n·s
    reversed_indices: Tensor  # (N) index of the mirrored position in the same sequence
    batch_sizes: list[int]  # number of sequences with a step 0, 1, 2 …

    def pack(self, x: Tensor) -> Tensor:
        """(n s …) -> (N …)."""
        return x.flatten(0, 1).index_select(0, self.indices)

    def pad(self, x: Tensor, shape: tuple[int, int]) -> Tensor:
        """(N …) -> (n s …), zeros at padding."""
        padded = x.new_zeros(shape[0] * shape[1], *x.shape[1:]).index_copy(0, self.indices, x)
        return padded.view(*shape, *x.shape[1:])


def make_packing(lengths: Tensor, width: int) -> Packing:
    """Lengths (n) of sequences padded to `width` -> packing. Empty sequences are left out."""
    order = lengths.argsort(descending=True, stable=True)
    steps = torch.arange(int(lengths.max()) if len(lengths) else 0, device=lengths.device)
    is_inside = steps[:, None] < lengths[order]  # (s n)
    batch_sizes = is_inside.sum(dim=1)
    indices = (order * width + steps[:, None])[is_inside]
    step, row = is_inside.nonzero(as_tuple=True)
    starts = torch.cat([batch_sizes.new_zeros(1), batch_sizes.cumsum(0)])[:-1]
    reversed_indices = starts[lengths[order][row] - 1 - step] + row
    return Packing(indices, reversed_indices, batch_sizes.tolist())


class BidirectionalRNN(nn.Module):
    """Packed features (N d) -> (N 2h): a forward and a backward GRU or LSTM, concatenated."""

    def __init__(self, cell_type: Literal["gru", "lstm"], input_size: int, dim: int) -> None:
        super().__init__()
        self.net = RecurrentEncoder(cell_type, input_size, dim, bidirectional=True).net
        self.cell: Any = {"gru": _GRU, "lstm": _LSTM}[cell_type]
        self.plain: Any = {"gru": _plain_gru, "lstm": _plain_lstm}[cell_type]

    def forward(self, x: Tensor, packing: Packing) -> Tensor:
        if x.device.type != "cpu" or torch.is_autocast_enabled("cpu") or (is_tracing() and not is_transforming()):
            sizes = torch.tensor(packing.batch_sizes)
            out: Tensor = self.net(PackedSequence(x, sizes))[0].data
            return out
        inputs, recurrent, input_bias, bias = (
            self._stacked_weight(name) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        directions = torch.stack([x, x.index_select(0, packing.reversed_indices)])
        gates = torch.baddbmm(input_bias[:, None], directions, inputs.mT)  # (2 N g·h)
        run = self.plain if is_transforming() else self.cell.apply
        hidden = run(gates, recurrent, bias, packing.batch_sizes)  # (2 N h)
        return torch.cat([hidden[0], hidden[1].index_select(0, packing.reversed_indices)], dim=-1)

    def _stacked_weight(self, name: str) -> Tensor:
        """Return the weights of both directions, stacked."""
        return torch.stack([self.net.get_parameter(f"{name}_l0"), self.net.get_parameter(f"{name}_l0_reverse")])


class _GRU(torch.autograd.Function):
    """Cho et al. 2014, with the reset gate after the product, as in PyTorch."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, recurrent: Tensor, bias: Tensor, batch_sizes: list[int]) -> Tensor:
        """Input products (2 N 3h), recurrent weights (2 3h h) and bias (2 3h) -> hidden states (2 N h)."""
        d = recurrent.shape[2]
        weight, stacked_bias = recurrent.mT, bias[:, None]
        hidden = gates.new_empty(2, gates.shape[1], d)
        gate_values = torch.empty_like(gates)  # reset and update gate, new state
        inner = torch.empty_like(hidden)  # the recurrent product of the new state, before the reset gate
        hidden_state, low = gates.new_zeros(2, batch_sizes[0] if batch_sizes else 0, d), 0
        for count in batch_sizes:
            here = slice(low, low + count)
            hidden_state = hidden_state[:, :count]
            product = torch.baddbmm(stacked_bias, hidden_state, weight)  # (2 b 3h)
            reset_update = torch.add(gates[:, here, : 2 * d], product[..., : 2 * d]).sigmoid_()
            new = torch.addcmul(gates[:, here, 2 * d :], reset_update[..., :d], product[..., 2 * d :]).tanh_()
            gate_values[:, here, : 2 * d], gate_values[:, here, 2 * d :], inner[:, here] = (
                reset_update,
                new,
                product[..., 2 * d :],
            )
            hidden_state = torch.lerp(new, hidden_state, reset_update[..., d:])
            hidden[:, here] = hidden_state
            low += count
        ctx.save_for_backward(hidden, gate_values, inner, recurrent, gates, bias)
        ctx.batch_sizes = batch_sizes
        return hidden

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of every gate is that of the hidden state times a slope that is computed in advance."""
        hidden, gate_values, inner, recurrent, gates, bias = ctx.saved_tensors
        if torch.is_grad_enabled():  # for second derivatives
            return (
                *gradients(lambda g, w, b: _plain_gru(g, w, b, ctx.batch_sizes), (gates, recurrent, bias), grad),
                None,
            )
        previous = _previous(hidden, ctx.batch_sizes)
        reset, update, new = gate_values.chunk(3, dim=-1)
        to_new = (1 - update).mul_(1 - new * new)
        to_reset = to_new * inner * reset * (1 - reset)
        to_update = (previous - new).mul_(update).mul_(1 - update)
        slopes = torch.stack([to_reset, to_update, to_new * reset], dim=2)  # (2 N 3 h)
        d_product, d_hidden = torch.empty_like(slopes), torch.empty_like(hidden)
        d_next, high = grad.new_zeros(2, 0, hidden.shape[2]), hidden.shape[1]
        for count in reversed(ctx.batch_sizes):
            here = slice(high - count, high)
            d = grad[:, here].clone()
            d[:, : d_next.shape[1]] += d_next
            d_hidden[:, here] = d
            change = torch.mul(slopes[:, here], d[:, :, None], out=d_product[:, here])
            d_next = torch.baddbmm(d * update[:, here], change.flatten(2), recurrent)
            high -= count
        flat = d_product.flatten(2)
        d_gates = torch.cat([flat[..., : 2 * hidden.shape[2]], d_hidden * to_new], dim=-1)
        return d_gates, flat.mT @ previous, flat.sum(dim=1), None


class _LSTM(torch.autograd.Function):
    """Hochreiter and Schmidhuber 1997, with forget gates (Gers et al. 2000)."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, recurrent: Tensor, bias: Tensor, batch_sizes: list[int]) -> Tensor:
        """Input products (2 N 4h), recurrent weights (2 4h h) and bias (2 4h) -> hidden states (2 N h)."""
        d = recurrent.shape[2]
        weight, gates = recurrent.mT, inputs + bias[:, None]
        hidden, cells = gates.new_empty(2, gates.shape[1], d), gates.new_empty(2, gates.shape[1], d)
        gate_values = torch.empty_like(gates)  # input and forget gate, new content, output gate
        hidden_state, low = gates.new_zeros(2, batch_sizes[0] if batch_sizes else 0, d), 0
        cell = hidden_state
        for count in batch_sizes:
            here = slice(low, low + count)
            product = torch.baddbmm(gates[:, here], hidden_state[:, :count], weight)  # (2 b 4h)
            product[..., : 2 * d].sigmoid_(), product[..., 2 * d : 3 * d].tanh_(), product[..., 3 * d :].sigmoid_()
            enter, forget, new, leave = product.chunk(4, dim=-1)
            cell = torch.addcmul(enter * new, forget, cell[:, :count])
            hidden_state = leave * cell.tanh()
            gate_values[:, here], cells[:, here], hidden[:, here] = product, cell, hidden_state
            low += count
        ctx.save_for_backward(hidden, cells, gate_values, recurrent, inputs, bias)
        ctx.batch_sizes = batch_sizes
        return hidden

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of every gate is that of the cell or hidden state times a slope that is computed in advance."""
        hidden, cells, gate_values, recurrent, inputs, bias = ctx.saved_tensors
        if torch.is_grad_enabled():  # for second derivatives
            return (
                *gradients(lambda g, w, b: _plain_lstm(g, w, b, ctx.batch_sizes), (inputs, recurrent, bias), grad),
                None,
            )
        enter, forget, new, leave = gate_values.chunk(4, dim=-1)
        size = hidden.shape[2]
        cell_tanh = cells.tanh()
        to_cell = leave * (1 - cell_tanh * cell_tanh)
        to_leave = cell_tanh * leave * (1 - leave)
        of_cell = torch.stack(
            [
                new * enter * (1 - enter),
                _previous(cells, ctx.batch_sizes) * forget * (1 - forget),
                enter * (1 - new * new),
            ],
            dim=2,
        )  # (2 N 3 h)
        d_gates = torch.empty_like(gate_values)
        d_next, d_next_cell = (grad.new_zeros(2, 0, size) for _ in range(2))
        high = hidden.shape[1]
        for count in reversed(ctx.batch_sizes):
            here = slice(high - count, high)
            d = grad[:, here].clone()
            d[:, : d_next.shape[1]] += d_next
            d_cell = d * to_cell[:, here]
            d_cell[:, : d_next_cell.shape[1]] += d_next_cell
            change = d_gates[:, here]
            torch.mul(of_cell[:, here], d_cell[:, :, None], out=change[..., : 3 * size].unflatten(-1, (3, size)))
            torch.mul(d, to_leave[:, here], out=change[..., 3 * size :])
            d_next, d_next_cell = change @ recurrent, d_cell * forget[:, here]
            high -= count
        return d_gates, d_gates.mT @ _previous(hidden, ctx.batch_sizes), d_gates.sum(dim=1), None


def _plain_gru(gates: Tensor, recurrent: Tensor, bias: Tensor, batch_sizes: list[int]) -> Tensor:
    """`_GRU` in differentiable operations."""
    hidden = gates.new_zeros(2, batch_sizes[0] if batch_sizes else 0, recurrent.shape[2])
    parts = []
    for count, here in zip(batch_sizes, gates.split(batch_sizes, dim=1), strict=True):
        previous = hidden[:, :count]
        enter, inner = here.chunk(3, dim=-1), (bias[:, None] + previous @ recurrent.mT).chunk(3, dim=-1)
        reset, update = (torch.sigmoid(enter[gate] + inner[gate]) for gate in (0, 1))
        new = torch.tanh(enter[2] + reset * inner[2])
        hidden = new + update * (previous - new)
        parts.append(hidden)
    return torch.cat(parts, dim=1)


def _plain_lstm(gates: Tensor, recurrent: Tensor, bias: Tensor, batch_sizes: list[int]) -> Tensor:
    """`_LSTM` in differentiable operations."""
    hidden = cell = gates.new_zeros(2, batch_sizes[0] if batch_sizes else 0, recurrent.shape[2])
    parts = []
    for count, here in zip(batch_sizes, gates.split(batch_sizes, dim=1), strict=True):
        enter, forget, new, leave = (here + bias[:, None] + hidden[:, :count] @ recurrent.mT).chunk(4, dim=-1)
        cell = torch.sigmoid(forget) * cell[:, :count] + torch.sigmoid(enter) * torch.tanh(new)
        hidden = torch.sigmoid(leave) * torch.tanh(cell)
        parts.append(hidden)
    return torch.cat(parts, dim=1)


def _previous(states: Tensor, batch_sizes: list[int]) -> Tensor:
    """States (2 N h) -> the state one step before each, zeros before the first."""
    previous = torch.zeros_like(states)
    low = 0
    for count, next_count in pairwise(batch_sizes):
        previous[:, low + count : low + count + next_count] = states[:, low : low + next_count]
        low += count
    return previous
