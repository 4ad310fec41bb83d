"""Does self-attention see order, and which positions give it, also on input longer than it was trained on?"""

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

CLAIM = "Self-attention encodes a set: permuting its input permutes its output; positions give it order."
WHERE = "Vaswani et al. 2017, section 3.5"
SYMBOLS, DIM, HEADS, BATCH_SIZE = 20, 32, 2, 64
STEPS = 300
SHORT, LONG = 16, 48  # tokens of the training texts, and of texts that are longer

MOVED = "moved by a permutation"


class Reader(nn.Module):
    """Tokens (b t) -> logits (b t v), by blocks of self-attention that look everywhere."""

    def __init__(self, position: str, longest: int) -> None:
        super().__init__()
        scheme = positions.build(position, DIM, max_length=longest)
        self.embedding = Embedding(embedding_table(SYMBOLS, DIM, pad=0), scheme, dropout=0.0)
        self.layers = nn.ModuleList(self._block(scheme) for _ in range(2))
        self.readout = nn.Linear(DIM, SYMBOLS)

    @staticmethod
    def _block(scheme: PositionScheme) -> Block:
        widths = HeadDims.split_evenly(DIM, HEADS)
        place = scheme.position_bias(heads=HEADS, dim=widths.head_dim)
        attend = Attend(scores.build("scaled_dot", widths.head_dim), position_bias=place)
        return Block(
            MultiHeadAttention(attend, widths), FeedForward(DIM, 2 * DIM), make_norm=partial(PreNorm, DIM, 0.0)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x, _ = layer(x)
        logits: Tensor = self.readout(x)
        return logits


def cells(effort: float) -> list[Cell]:
    """Each position scheme, trained to say at every place the token before it."""
    steps, seeds = budget(effort, STEPS)
    return [
        cell
        for name in registered_names("regard.layers.positions")
        for cell in cells_per_seed(name, seeds, partial(_measure, name, steps))
    ]


def _measure(name: str, steps: int, seed: int) -> dict[str, float]:
    torch.manual_seed(seed)
    model = Reader(name, longest=LONG)
    generator = torch.Generator().manual_seed(seed)
    found = {MOVED: _moved(model, generator)}
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        tokens = torch.randint(1, SYMBOLS, (BATCH_SIZE, SHORT), generator=generator)
        loss = cross_entropy(model(tokens)[:, 1:].flatten(0, 1), tokens[:, :-1].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return found | {f"right at {length} tokens": _right(model, length, generator) for length in (SHORT, LONG)}


@torch.no_grad()
def _moved(model: Reader, generator: torch.Generator) -> float:
    """How far the output of a permuted text is from the permuted output, at most; 0 for a set."""
    tokens = torch.randint(1, SYMBOLS, (8, SHORT), generator=generator)
    order = torch.randperm(SHORT, generator=generator)
    return float((model(tokens[:, order]) - model(tokens)[:, order]).abs().max())


@torch.no_grad()
def _right(model: Reader, length: int, generator: torch.Generator) -> float:
    tokens = torch.randint(1, SYMBOLS, (4 * BATCH_SIZE, length), generator=generator)
    try:
        said = model(tokens)[:, 1:].argmax(dim=-1)
    except ShapeError:  # a table that ends
        return 0.0
    return float((said == tokens[:, :-1]).float().mean())


def verdict(figures: Figures) -> ClaimResult:
    """Nothing moves without positions; with them it does, and the best scheme says what came before."""
    moved, short, long = (means(figures, figure) for figure in (MOVED, *_rights()))
    others = [name for name in moved if name != "none"]
    best, far = (max(others, key=lambda name: found[name]) for found in (short, long))
    set_like = moved["none"] < 1e-4 < min(moved[name] for name in others)
    good = ", ".join(name for name in others if short[name] > 0.9) or "none"
    return ClaimResult(
        set_like and short["none"] < 0.5 and short[best] > 0.9,
        f"Without positions a permutation moves nothing but rounding ({moved['none']:.0e}), and the token before a"
        f" place is known in {short['none']:.0%} of cases. Above 90 % at the trained length of {SHORT}: {good};"
        f" at {LONG} tokens {far} is best with {long[far]:.0%}. {describe_seeds(figures)}.",
    )


def _rights() -> list[str]:
    return [f"right at {length} tokens" for length in (SHORT, LONG)]


def draw(figures: Figures, axes: Any) -> None:
    """Bars of each scheme, at the trained length and beyond."""
    named = {figure.removeprefix("right at "): seed_values(figures, figure) for figure in _rights()}
    plot_bars(axes, named, y="token before it, share right")
