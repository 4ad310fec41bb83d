"""Self-attention with and without position encodings: sensitivity to order, at the training length and beyond."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.attention import scores
from regard.attention.attend import Attend
from regard.core.errors import ShapeError
from regard.core.registry import registered_names
from regard.experiments._experiment import (
    Cell,
    ClaimResult,
    Figures,
    budget,
    cells_per_seed,
    describe_seeds,
    means,
    plot_bars,
    seed_values,
)
from regard.layers import positions
from regard.layers.block import Block
from regard.layers.embedding import Embedding, embedding_table
from regard.layers.feedforward import FeedForward
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.norm import PreNorm
from regard.layers.positions._base import PositionScheme

CLAIM = (
    "Self-attention treats its input as a set: permuting the input permutes the output; position encodings add order."
)
REFERENCE = "Vaswani et al. 2017, section 3.5"
SYMBOLS, DIM, HEADS, BATCH_SIZE = 20, 32, 2, 64
STEPS = 300
SHORT, LONG = 16, 48  # tokens of training sequences, and of longer sequences
PERMUTATION_CHANGE = "change under permutation"
ACCURACIES = tuple(f"accuracy at {length} tokens" for length in (SHORT, LONG))


class Reader(nn.Module):
    """Tokens (b t) -> logits (b t v), with blocks of bidirectional self-attention."""

    def __init__(self, position: str, max_length: int) -> None:
        super().__init__()
        scheme = positions.build(position, DIM, max_length=max_length)
        self.embedding = Embedding(embedding_table(SYMBOLS, DIM, pad=0), scheme, dropout=0.0)
        self.layers = nn.ModuleList(self._block(scheme) for _ in range(2))
        self.readout = nn.Linear(DIM, SYMBOLS)

    @staticmethod
    def _block(scheme: PositionScheme) -> Block:
        dims = HeadDims.split_evenly(DIM, HEADS)
        position_bias = scheme.position_bias(heads=HEADS, dim=dims.head_dim)
        attend = Attend(scores.build("scaled_dot", dims.head_dim), position_bias=position_bias)
        return Block(MultiHeadAttention(attend, dims), FeedForward(DIM, 2 * DIM), make_norm=partial(PreNorm, DIM, 0.0))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x, _ = layer(x)
        logits: Tensor = self.readout(x)
        return logits


def cells(effort: float) -> list[Cell]:
    """Return a cell for each position scheme, trained to predict the previous token at every position."""
    steps, seeds = budget(effort, STEPS)
    return [
        cell
        for name in registered_names("regard.layers.positions")
        for cell in cells_per_seed(name, seeds, partial(_measure, name, steps))
    ]


def _measure(name: str, steps: int, seed: int) -> dict[str, float]:
    torch.manual_seed(seed)
    model = Reader(name, max_length=LONG)
    generator = torch.Generator().manual_seed(seed)
    change = _permutation_change(model, generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        tokens = torch.randint(1, SYMBOLS, (BATCH_SIZE, SHORT), generator=generator)
        loss = cross_entropy(model(tokens)[:, 1:].flatten(0, 1), tokens[:, :-1].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    accuracies = (_accuracy(model, length, generator) for length in (SHORT, LONG))
    return {PERMUTATION_CHANGE: change, **dict(zip(ACCURACIES, accuracies, strict=True))}


@torch.no_grad()
def _permutation_change(model: Reader, generator: torch.Generator) -> float:
    """Return the largest difference between the output of a permuted input and the permuted output; 0 for a set."""
    tokens = torch.randint(1, SYMBOLS, (8, SHORT), generator=generator)
    order = torch.randperm(SHORT, generator=generator)
    return float((model(tokens[:, order]) - model(tokens)[:, order]).abs().max())


@torch.no_grad()
def _accuracy(model: Reader, length: int, generator: torch.Generator) -> float:
    tokens = torch.randint(1, SYMBOLS, (4 * BATCH_SIZE, length), generator=generator)
    try:
        predicted = model(tokens)[:, 1:].argmax(dim=-1)
    except ShapeError:  # a table of fixed length
        return 0.0
    return float((predicted == tokens[:, :-1]).float().mean())


def verdict(figures: Figures) -> ClaimResult:
    """Check that the model is equivariant only without positions, and that the best scheme finds the previous token."""
    change, short, long = (means(figures, figure) for figure in (PERMUTATION_CHANGE, *ACCURACIES))
    schemes = [name for name in change if name != "none"]
    best, best_long = (max(schemes, key=lambda name: accuracy[name]) for accuracy in (short, long))
    is_set = change["none"] < 1e-4 < min(change[name] for name in schemes)
    accurate = ", ".join(name for name in schemes if short[name] > 0.9) or "none"
    return ClaimResult(
        is_set and short["none"] < 0.5 and short[best] > 0.9,
        f"Without positions a permutation changes the outputs only by rounding ({change['none']:.0e}), and the previous"
        f" token is predicted in {short['none']:.0%} of cases. Above 90 % at the training length of {SHORT}:"
        f" {accurate}; at {LONG} tokens {best_long} is best with {long[best_long]:.0%}. {describe_seeds(figures)}.",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot the accuracy of each scheme at the training length and beyond."""
    bars = {figure.removeprefix("accuracy at "): seed_values(figures, figure) for figure in ACCURACIES}
    plot_bars(axes, bars, y="accuracy of the previous token")
