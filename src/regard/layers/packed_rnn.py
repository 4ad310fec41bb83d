"""Recurrent networks in both directions over packed sequences: no step is computed for padding, on a CPU by hand.

PyTorch's own backward pass makes a tensor of the size of the whole batch for every step, and takes ten times as long as
the products need. Here both directions run in one loop of few operations a step: what does not depend on the
recurrence (input products, slopes of the gates, the gradient of the weights) is computed for all steps at once.
On other devices the networks are PyTorch's own, with the same weights.
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
    """The real places of padded sequences (n s), step by step: first those of step 0, the longest sequence first."""

    indices: Tensor  # (N) where each stands in the flattened padding, n·s
    reversed_indices: (
        Tensor  # (N) where the place stands that is as far from the end of its sequence as this from the beginning
    )
    batch_sizes: list[int]  # how many sequences have a step 0, 1, 2 …

    def pack(self, x: Tensor) -> Tensor:
        """(n s …) -> (N …)."""
        return x.flatten(0, 1).index_select(0, self.indices)

    def pad(self, x: Tensor, shape: tuple[int, int]) -> Tensor:
        """(N …) -> (n s …), zeros where nothing was."""
        padded = x.new_zeros(shape[0] * shape[1], *x.shape[1:]).index_copy(0, self.indices, x)
        return padded.view(*shape, *x.shape[1:])


def make_packing(lengths: Tensor, width: int) -> Packing:
    """Lengths (n) of sequences that are padded to `width` -> how they are packed. Empty sequences are left out."""
    order = lengths.argsort(descending=True, stable=True)
    steps = torch.arange(int(lengths.max()) if len(lengths) else 0, device=lengths.device)
    inside = steps[:, None] < lengths[order]  # (s n)
    rows = inside.sum(dim=1)
    places = (order * width + steps[:, None])[inside]
    step, row = inside.nonzero(as_tuple=True)
    starts = torch.cat([rows.new_zeros(1), rows.cumsum(0)])[:-1]
    mirror = starts[lengths[order][row] - 1 - step] + row
    return Packing(places, mirror, rows.tolist())


class BidirectionalRNN(nn.Module):
    """Packed features (N d) -> (N 2h): a GRU or LSTM from left to right beside one from right to left."""

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
        inputs, recurrent, added, bias = (self._both(name) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        both = torch.stack([x, x.index_select(0, packing.reversed_indices)])
        gates = torch.baddbmm(added[:, None], both, inputs.mT)  # (2 N g·h)
        run = self.plain if is_transforming() else self.cell.apply
        hidden = run(gates, recurrent, bias, packing.batch_sizes)  # (2 N h)
        return torch.cat([hidden[0], hidden[1].index_select(0, packing.reversed_indices)], dim=-1)

    def _both(self, name: str) -> Tensor:
        """The weights of both directions, one upon the other."""
        return torch.stack([self.net.get_parameter(f"{name}_l0"), self.net.get_parameter(f"{name}_l0_reverse")])


class _GRU(torch.autograd.Function):
    """Cho et al. 2014, with the reset gate behind the product, as PyTorch has it."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, recurrent: Tensor, bias: Tensor, rows: list[int]) -> Tensor:
        """Input products (2 N 3h), recurrent weights (2 3h h) and bias (2 3h) -> hidden states (2 N h)."""
        d = recurrent.shape[2]
        weight, added = recurrent.mT, bias[:, None]
        hidden = gates.new_empty(2, gates.shape[1], d)
        opened = torch.empty_like(gates)  # reset and update gate, new state
        inner = torch.empty_like(hidden)  # the recurrent product of the new state, before the reset gate
        before, low = gates.new_zeros(2, rows[0] if rows else 0, d), 0
        for count in rows:
            here = slice(low, low + count)
            before = before[:, :count]
            product = torch.baddbmm(added, before, weight)  # (2 b 3h)
            two = torch.add(gates[:, here, : 2 * d], product[..., : 2 * d]).sigmoid_()
            new = torch.addcmul(gates[:, here, 2 * d :], two[..., :d], product[..., 2 * d :]).tanh_()
            opened[:, here, : 2 * d], opened[:, here, 2 * d :], inner[:, here] = two, new, product[..., 2 * d :]
            before = torch.lerp(new, before, two[..., d:])
            hidden[:, here] = before
            low += count
        ctx.save_for_backward(hidden, opened, inner, recurrent, gates, bias)
        ctx.rows = rows
        return hidden

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Every gate's gradient is the hidden state's times a slope that is known beforehand."""
        hidden, opened, inner, recurrent, gates, bias = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is wanted
            return (*gradients(lambda g, w, b: _plain_gru(g, w, b, ctx.rows), (gates, recurrent, bias), grad), None)
        before = _previous(hidden, ctx.rows)
        reset, update, new = opened.chunk(3, dim=-1)
        to_new = (1 - update).mul_(1 - new * new)
        to_reset = to_new * inner * reset * (1 - reset)
        to_update = (before - new).mul_(update).mul_(1 - update)
        slopes = torch.stack([to_reset, to_update, to_new * reset], dim=2)  # (2 N 3 h)
        d_product, d_hidden = torch.empty_like(slopes), torch.empty_like(hidden)
        carried, high = grad.new_zeros(2, 0, hidden.shape[2]), hidden.shape[1]
        for count in reversed(ctx.rows):
            here = slice(high - count, high)
            d = grad[:, here].clone()
            d[:, : carried.shape[1]] += carried
            d_hidden[:, here] = d
            change = torch.mul(slopes[:, here], d[:, :, None], out=d_product[:, here])
            carried = torch.baddbmm(d * update[:, here], change.flatten(2), recurrent)
            high -= count
        flat = d_product.flatten(2)
        d_gates = torch.cat([flat[..., : 2 * hidden.shape[2]], d_hidden * to_new], dim=-1)
        return d_gates, flat.mT @ before, flat.sum(dim=1), None


class _LSTM(torch.autograd.Function):
    """Hochreiter and Schmidhuber 1997, with forget gates (Gers et al. 2000)."""

    @staticmethod
    def forward(ctx: Any, given: Tensor, recurrent: Tensor, bias: Tensor, rows: list[int]) -> Tensor:
        """Input products (2 N 4h), recurrent weights (2 4h h) and bias (2 4h) -> hidden states (2 N h)."""
        d = recurrent.shape[2]
        weight, gates = recurrent.mT, given + bias[:, None]
        hidden, cells = gates.new_empty(2, gates.shape[1], d), gates.new_empty(2, gates.shape[1], d)
        opened = torch.empty_like(gates)  # input and forget gate, new content, output gate
        before, low = gates.new_zeros(2, rows[0] if rows else 0, d), 0
        cell = before
        for count in rows:
            here = slice(low, low + count)
            product = torch.baddbmm(gates[:, here], before[:, :count], weight)  # (2 b 4h)
            product[..., : 2 * d].sigmoid_(), product[..., 2 * d : 3 * d].tanh_(), product[..., 3 * d :].sigmoid_()
            enter, forget, new, leave = product.chunk(4, dim=-1)
            cell = torch.addcmul(enter * new, forget, cell[:, :count])
            before = leave * cell.tanh()
            opened[:, here], cells[:, here], hidden[:, here] = product, cell, before
            low += count
        ctx.save_for_backward(hidden, cells, opened, recurrent, given, bias)
        ctx.rows = rows
        return hidden

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Every gate's gradient is that of the cell or of the hidden state times a slope that is known beforehand."""
        hidden, cells, opened, recurrent, given, bias = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is wanted
            return (*gradients(lambda g, w, b: _plain_lstm(g, w, b, ctx.rows), (given, recurrent, bias), grad), None)
        enter, forget, new, leave = opened.chunk(4, dim=-1)
        size = hidden.shape[2]
        shown = cells.tanh()
        to_cell = leave * (1 - shown * shown)
        to_leave = shown * leave * (1 - leave)
        of_cell = torch.stack(
            [new * enter * (1 - enter), _previous(cells, ctx.rows) * forget * (1 - forget), enter * (1 - new * new)],
            dim=2,
        )  # (2 N 3 h)
        d_gates = torch.empty_like(opened)
        carried, kept = (grad.new_zeros(2, 0, size) for _ in range(2))
        high = hidden.shape[1]
        for count in reversed(ctx.rows):
            here = slice(high - count, high)
            d = grad[:, here].clone()
            d[:, : carried.shape[1]] += carried
            d_cell = d * to_cell[:, here]
            d_cell[:, : kept.shape[1]] += kept
            change = d_gates[:, here]
            torch.mul(of_cell[:, here], d_cell[:, :, None], out=change[..., : 3 * size].unflatten(-1, (3, size)))
            torch.mul(d, to_leave[:, here], out=change[..., 3 * size :])
            carried, kept = change @ recurrent, d_cell * forget[:, here]
            high -= count
        return d_gates, d_gates.mT @ _previous(hidden, ctx.rows), d_gates.sum(dim=1), None


def _plain_gru(gates: Tensor, recurrent: Tensor, bias: Tensor, rows: list[int]) -> Tensor:
    """`_GRU` in operations that have gradients of their own."""
    hidden = gates.new_zeros(2, rows[0] if rows else 0, recurrent.shape[2])
    parts = []
    for count, here in zip(rows, gates.split(rows, dim=1), strict=True):
        before = hidden[:, :count]
        enter, inner = here.chunk(3, dim=-1), (bias[:, None] + before @ recurrent.mT).chunk(3, dim=-1)
        reset, update = (torch.sigmoid(enter[gate] + inner[gate]) for gate in (0, 1))
        new = torch.tanh(enter[2] + reset * inner[2])
        hidden = new + update * (before - new)
        parts.append(hidden)
    return torch.cat(parts, dim=1)


def _plain_lstm(gates: Tensor, recurrent: Tensor, bias: Tensor, rows: list[int]) -> Tensor:
    """`_LSTM` in operations that have gradients of their own."""
    hidden = cell = gates.new_zeros(2, rows[0] if rows else 0, recurrent.shape[2])
    parts = []
    for count, here in zip(rows, gates.split(rows, dim=1), strict=True):
        enter, forget, new, leave = (here + bias[:, None] + hidden[:, :count] @ recurrent.mT).chunk(4, dim=-1)
        cell = torch.sigmoid(forget) * cell[:, :count] + torch.sigmoid(enter) * torch.tanh(new)
        hidden = torch.sigmoid(leave) * torch.tanh(cell)
        parts.append(hidden)
    return torch.cat(parts, dim=1)


def _previous(states: Tensor, rows: list[int]) -> Tensor:
    """States (2 N h) -> the state one step before each, zeros before the first."""
    before = torch.zeros_like(states)
    low = 0
    for count, after in pairwise(rows):
        before[:, low + count : low + count + after] = states[:, low : low + after]
        low += count
    return before
