"""Small models with every kind of state that a strategy may have to reorder, and reference implementations."""

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

SPECIAL_TOKENS = SpecialTokens()


class Past(NamedTuple):
    """Cache of keys and values that grows by one column per step."""

    keys: Tensor  # (r t d)
    values: Tensor  # (r t d)

    def _join(self, other: Past, *, shared: bool) -> Past:
        """Concatenate the rows; the shorter cache is padded with zeros on the left, which do not change the weighted
        sum."""
        length = max(self.keys.shape[1], other.keys.shape[1])
        longer = [[pad(x, (0, 0, length - x.shape[1], 0)) for x in past] for past in (self, other)]
        return Past(*(torch.cat(parts) for parts in zip(*longer, strict=True)))


class RecurrentState(NamedTuple):
    hidden: Tensor  # (r d)
    past: tuple[Past, ...]
    source: Shared[tuple[Tensor, None]]  # (b d), once per source
    kind: str


class Recurrent(nn.Module):
    """A GRU whose logits depend on every part of its state, so that any wrong row order changes them."""

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
    """Logits from a table: the distribution after each token is known exactly."""

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
    """Return the log probability of the tokens and EOS, computed in one forward pass."""
    logits, _ = model(torch.tensor([[SPECIAL_TOKENS.bos, *tokens]]), model.start(source))
    chosen = torch.tensor([*tokens, SPECIAL_TOKENS.eos])[:, None]
    return float(logits[0].log_softmax(-1).gather(1, chosen).double().sum())


def exhaustive(model: Any, source: Tensor, *, limit: int, penalty: float, size: int = 6) -> list[Hypothesis]:
    """Return all outputs up to the limit, best first."""
    vocabulary = [
        token for token in range(size) if token not in (SPECIAL_TOKENS.pad, SPECIAL_TOKENS.bos, SPECIAL_TOKENS.eos)
    ]
    outputs = [tokens for n in range(limit + 1) for tokens in itertools.product(vocabulary, repeat=n)]
    scores = [teacher_forced(model, source, tokens) for tokens in outputs]
    hypotheses = [
        Hypothesis(tokens, s, s / (len(tokens) + 1) ** penalty) for tokens, s in zip(outputs, scores, strict=True)
    ]
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.rank_score)


def run(decoder: Any, model: Any, source: Any, *, limits: list[int], **settings: Any) -> list[list[Hypothesis]]:
    """Decode from the initial state."""
    with torch.no_grad():
        state = model.start(source)
    decoding = build(decoder.__name__.rpartition(".")[2], **settings)
    return decoding(model, state, special_tokens=SPECIAL_TOKENS, limits=torch.tensor(limits))


@pytest.fixture
def toys() -> SimpleNamespace:
    parts: list[Callable[..., Any]] = [Recurrent, Bigram, teacher_forced, exhaustive, run]
    return SimpleNamespace(special_tokens=SPECIAL_TOKENS, **{part.__name__: part for part in parts})
