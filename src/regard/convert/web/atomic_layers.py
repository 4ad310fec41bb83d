"""Layers that remain one operation in a program: attention, and recurrent networks.

`regard_web::attend` normalizes scores (b h t s) and multiplies the weights with the values; queries and keys are
recorded for the step-by-step view. `regard_web::rnn` runs all layers and directions of a network over one sequence per
row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from regard.attention.attend import Attend
from regard.attention.masks import NO_MASK, Mask
from regard.attention.normalizers import Softmax
from regard.attention.record import attention_modules
from regard.attention.score import ProjectedKeys
from regard.layers.pyramid_encoder import PYRAMID_FACTOR, PyramidEncoder, join_adjacent
from regard.layers.recurrent import RecurrentEncoder, RNNState, from_torch

LIBRARY = torch.library.Library("regard_web", "DEF")
LIBRARY.define(
    "attend(Tensor q, Tensor k, Tensor scores, Tensor? allowed, Tensor values, str module, str normalizer) -> Tensor"
)
LIBRARY.define(
    "rnn(Tensor x, Tensor hidden, Tensor cell, Tensor[] weights, str kind, int layers, int directions)"
    " -> (Tensor, Tensor, Tensor)"
)


def _attend(  # noqa: PLR0917  # an operator
    q: Tensor, k: Tensor, scores: Tensor, allowed: Tensor | None, values: Tensor, module: str, normalizer: str
) -> Tensor:
    return scores.new_empty(*scores.shape[:-1], values.shape[-1])


def _rnn(  # noqa: PLR0917  # an operator
    x: Tensor, hidden: Tensor, cell: Tensor, weights: list[Tensor], kind: str, layers: int, directions: int
) -> tuple[Tensor, Tensor, Tensor]:
    width = directions * hidden.shape[-1]
    return x.new_empty(*x.shape[:-1], width), torch.empty_like(hidden), torch.empty_like(cell)


LIBRARY.impl("attend", _attend, "Meta")
LIBRARY.impl("rnn", _rnn, "Meta")


class AtomicAttend:
    """Forward pass of an `Attend` as one operation after the scores."""

    def __init__(self, name: str, attend: Attend) -> None:
        self.name, self.attend = name, attend
        self.normalizer = "softmax" if isinstance(attend.weigh.normalizer, Softmax) else "hard"

    def __call__(self, q: Tensor, k: Tensor | ProjectedKeys, v: Tensor, mask: Mask = NO_MASK) -> Tensor:
        keys = k.tensor if isinstance(k, ProjectedKeys) else k
        scores = self.attend.weigh.scores(q, keys, None, mask.start)
        allowed = mask.dense(q.shape[-2], keys.shape[-2])
        output: Tensor = torch.ops.regard_web.attend(q, keys, scores, allowed, v, self.name, self.normalizer)
        return output


class AtomicEncoder:
    """Forward pass of a `RecurrentEncoder` over one unpadded sequence per row."""

    def __init__(self, net: nn.RNNBase) -> None:
        self.run = AtomicRecurrent(net)

    def __call__(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, RNNState]:
        out, after = self.run(x)
        return out, from_torch(after)


class AtomicRecurrent:
    """Forward pass of a recurrent network of PyTorch over unpadded sequences."""

    def __init__(self, net: nn.RNNBase) -> None:
        self.net = net

    def __call__(self, x: Tensor, state: Any = None) -> Any:
        net = self.net
        directions = 2 if net.bidirectional else 1
        if state is None:
            zeros = x.new_zeros(net.num_layers * directions, x.shape[0], net.hidden_size)
            state = (zeros, zeros)
        hidden, cell = state if isinstance(state, tuple) else (state, state)
        weights = [weight for group in net.all_weights for weight in group]
        out, hidden, cell = torch.ops.regard_web.rnn(
            x, hidden, cell, weights, net.mode.lower(), net.num_layers, directions
        )
        return out, (hidden, cell) if isinstance(net, nn.LSTM) else hidden


class AtomicPyramid:
    """Forward pass of a `PyramidEncoder` over one unpadded recording."""

    def __init__(self, encoder: PyramidEncoder) -> None:
        self.encoder = encoder

    def __call__(self, frames: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        x, lengths = join_adjacent(frames, lengths, self.encoder.stack)
        for index, layer in enumerate(self.encoder.layers):
            if index:
                x, lengths = join_adjacent(x, lengths, PYRAMID_FACTOR)
            x, _ = AtomicRecurrent(layer.net)(x)  # type: ignore[arg-type]  # of a BidirectionalRNN
        return x, lengths


@contextmanager
def with_atomic_layers(model: nn.Module) -> Iterator[None]:
    """Replace the forward passes of these layers inside the block."""
    with ExitStack() as stack:
        for name, attend in attention_modules(model).items():
            stack.enter_context(patch.object(attend, "forward", AtomicAttend(name, attend)))
        for module in model.modules():
            if isinstance(module, RecurrentEncoder):
                stack.enter_context(patch.object(module, "forward", AtomicEncoder(module.net)))
            if isinstance(module, PyramidEncoder):
                stack.enter_context(patch.object(module, "forward", AtomicPyramid(module)))
            if isinstance(module, nn.RNNBase):
                stack.enter_context(patch.object(module, "forward", AtomicRecurrent(module)))
        yield
