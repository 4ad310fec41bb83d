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
from regard.core.registry import names
from regard.experiments._experiment import Cell, Figures, Verdict
from regard.layers import positions
from regard.layers.block import Block
from regard.layers.embedding import Embedding, table
from regard.layers.feedforward import FeedForward
from regard.layers.heads import Heads, Widths
from regard.layers.position import PositionScheme
from regard.layers.residual import PreNorm

CLAIM = "Self-attention encodes a set: permuting its input permutes its output; positions give it order."
WHERE = "Vaswani et al. 2017, section 3.5"
SYMBOLS, DIM, HEADS, ROWS = 20, 32, 2, 64
SHORT, LONG = 16, 48  # tokens of the training texts, and of texts that are longer


class Reader(nn.Module):
    """Tokens (b t) -> logits (b t v), by blocks of self-attention that look everywhere."""

    def __init__(self, position: str, longest: int) -> None:
        super().__init__()
        scheme = positions.build(position, DIM, longest=longest)
        self.embedding = Embedding(table(SYMBOLS, DIM, pad=0), scheme, dropout=0.0)
        self.layers = nn.ModuleList(self._block(scheme) for _ in range(2))
        self.readout = nn.Linear(DIM, SYMBOLS)

    @staticmethod
    def _block(scheme: PositionScheme) -> Block:
        widths = Widths.divided(DIM, HEADS)
        place = scheme.place(heads=HEADS, dim=widths.head)
        attend = Attend(scores.build("scaled_dot", widths.head), place=place)
        return Block(Heads(attend, widths), FeedForward(DIM, 2 * DIM), around=partial(PreNorm, DIM, 0.0))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x, _ = layer(x)
        logits: Tensor = self.readout(x)
        return logits


def cells(effort: float) -> list[Cell]:
    """Each position scheme, trained to say at every place the token before it."""
    steps = max(2, round(300 * effort))
    return [Cell(name, partial(_measure, name, steps)) for name in names("regard.layers.positions")]


def _measure(name: str, steps: int) -> dict[str, float]:
    model = Reader(name, longest=LONG)
    generator = torch.Generator().manual_seed(1)
    found = {"moved by a permutation": _moved(model, generator)}
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        tokens = torch.randint(1, SYMBOLS, (ROWS, SHORT), generator=generator)
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
    tokens = torch.randint(1, SYMBOLS, (4 * ROWS, length), generator=generator)
    try:
        said = model(tokens)[:, 1:].argmax(dim=-1)
    except ShapeError:  # a table that ends
        return 0.0
    return float((said == tokens[:, :-1]).float().mean())


def verdict(figures: Figures) -> Verdict:
    """Nothing moves without positions; with them it does, and the best scheme says what came before."""
    short, long = (f"right at {length} tokens" for length in (SHORT, LONG))
    others = {name: numbers for name, numbers in figures.items() if name != "none"}
    bare = figures["none"]
    best = max(others, key=lambda name: others[name][short])
    far = max(others, key=lambda name: others[name][long])
    set_like = bare["moved by a permutation"] < 1e-4 < min(n["moved by a permutation"] for n in others.values())
    return Verdict(
        set_like and bare[short] < 0.5 < others[best][short],
        f"Without positions a permutation moves nothing but rounding ({bare['moved by a permutation']:.0e}), and the"
        f" token before a place is known in {bare[short]:.0%} of cases. With {best} positions it is in"
        f" {others[best][short]:.0%} at the trained length of {SHORT}; at {LONG} tokens {far} is best with"
        f" {others[far][long]:.0%}. One seed.",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Bars of each scheme, at the trained length and beyond."""
    places = range(len(figures))
    for shift, length in ((-0.2, SHORT), (0.2, LONG)):
        heights = [numbers[f"right at {length} tokens"] for numbers in figures.values()]
        axes.bar([place + shift for place in places], heights, width=0.4, label=f"{length} tokens")
    axes.set_xticks(list(places), list(figures), rotation=20)
    axes.set_ylabel("token before it, share right")
    axes.legend(frameon=False)
