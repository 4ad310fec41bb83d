"""Small models that have every kind of state a decoder may meet, and the truth about them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.core.data_specs import SpecialTokens
from regard.core.protocols import Hypothesis
from regard.core.state_tree import Shared
from regard.decoding.strategy import build

MARKS = SpecialTokens()


class Past(NamedTuple):
    """As a cache of keys and values: grows by one column a step."""

    keys: Tensor  # (r t d)
    values: Tensor  # (r t d)

    def _join(self, other: Past, *, shared: bool) -> Past:
        """Rows below each other, the shorter ones with zeros on the left, which add nothing to what is looked up."""
        length = max(self.keys.shape[1], other.keys.shape[1])
        longer = [[pad(x, (0, 0, length - x.shape[1], 0)) for x in past] for past in (self, other)]
        return Past(*(torch.cat(parts) for parts in zip(*longer, strict=True)))


class RecurrentState(NamedTuple):
    hidden: Tensor  # (r d)
    past: tuple[Past, ...]
    source: Shared[tuple[Tensor, None]]  # (b d), once per source
    kind: str


class Recurrent(nn.Module):
    """A GRU whose logits hang on every part of its state: a wrong order of any of them shows."""

    def __init__(self, size: int = 6, dim: int = 8, *, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(size, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.readout = nn.Linear(dim, size)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=1.5 / dim**0.5 * 2)

    def start(self, source: Tensor) -> RecurrentState:
        """Source (b d) -> state."""
        empty = source.new_zeros(len(source), 0, source.shape[1])
        return RecurrentState(torch.zeros_like(source), (Past(empty, empty),), Shared((source, None)), "toy")

    def features(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        outputs = []
        for x in self.embed(tokens).unbind(1):
            hidden = self.cell(x, state.hidden)
            (past,) = state.past
            past = Past(torch.cat([past.keys, x[:, None]], 1), torch.cat([past.values, hidden[:, None]], 1))
            weights = torch.einsum("rd,rtd->rt", hidden, past.keys).sigmoid()
            source = state.source.value[0]
            folded = source.repeat_interleave(len(tokens) // len(source), dim=0)
            outputs.append(hidden + torch.einsum("rt,rtd->rd", weights, past.values) + folded)
            state = RecurrentState(hidden, (past,), state.source, state.kind)
        return torch.stack(outputs, 1), state

    def forward(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        features, state = self.features(tokens, state)
        return self.readout(features), state


class Bigram(nn.Module):
    """Log probabilities read from a table: what comes after a token is known exactly."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.register_buffer("table", table)
        self.readout = nn.Identity()

    def start(self, sources: int) -> tuple[Tensor]:
        return (torch.zeros(sources),)

    def features(self, tokens: Tensor, state: tuple[Tensor]) -> tuple[Tensor, tuple[Tensor]]:
        return self.table[tokens], state

    def forward(self, tokens: Tensor, state: tuple[Tensor]) -> tuple[Tensor, tuple[Tensor]]:
        return self.features(tokens, state)


@torch.no_grad()
def teacher_forced(model: Any, source: Tensor, tokens: tuple[int, ...]) -> float:
    """The log probability of the tokens and the end mark, in one pass over all of them."""
    logits, _ = model(torch.tensor([[MARKS.bos, *tokens]]), model.start(source))
    chosen = torch.tensor([*tokens, MARKS.eos])[:, None]
    return float(logits[0].log_softmax(-1).gather(1, chosen).double().sum())


def exhaustive(model: Any, source: Tensor, *, limit: int, penalty: float, size: int = 6) -> list[Hypothesis]:
    """Every output up to the limit, best first."""
    letters = [token for token in range(size) if token not in (MARKS.pad, MARKS.bos, MARKS.eos)]
    outputs = [text for n in range(limit + 1) for text in itertools.product(letters, repeat=n)]
    scores = [teacher_forced(model, source, text) for text in outputs]
    found = [Hypothesis(text, s, s / (len(text) + 1) ** penalty) for text, s in zip(outputs, scores, strict=True)]
    return sorted(found, key=lambda hypothesis: -hypothesis.rank_score)


def run(decoder: Any, model: Any, source: Any, *, limits: list[int], **settings: Any) -> list[list[Hypothesis]]:
    """Decode from the start."""
    with torch.no_grad():
        state = model.start(source)
    decoding = build(decoder.__name__.rpartition(".")[2], **settings)
    return decoding(model, state, marks=MARKS, limits=torch.tensor(limits))


@pytest.fixture
def toys() -> SimpleNamespace:
    parts: list[Callable[..., Any]] = [Recurrent, Bigram, teacher_forced, exhaustive, run]
    return SimpleNamespace(marks=MARKS, **{part.__name__: part for part in parts})
