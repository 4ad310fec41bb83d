"""A memory that slides: a model that remembers so many tokens goes on for as long as one likes.

When the memory is full, the older half is forgotten: the model reads the tokens that are left anew, from a whole number
of bars on, as it read crops from the middle of pieces when it was trained. So every position scheme can go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.protocols import Decoder, Readout, State
from regard.core.tree import spread


class Slid(NamedTuple):
    """All tokens so far, the model's own state, and how many of the tokens it has forgotten."""

    tokens: Tensor  # (r n)
    inner: State
    forgotten: int


class Sliding:
    """A `Decoder` of one source that never runs out of memory; `begin` gives the model's state before the token of a
    number."""

    def __init__(self, model: Decoder, begin: Callable[[int], State], *, longest: int, bar: int) -> None:
        self.model, self.begin, self.longest, self.bar = model, begin, longest, bar

    @property
    def readout(self) -> Readout:
        return self.model.readout

    def start(self, source: Tensor) -> Slid:
        """The state before the first token; only the device of `source` (1 …) counts, the rest is known."""
        return Slid(torch.zeros(1, 0, dtype=torch.long, device=source.device), self.begin(0), 0)

    def features(self, tokens: Tensor, state: Slid) -> tuple[Tensor, Slid]:
        """Of many tokens at once only the last may have features: those that fit into the memory."""
        whole = torch.cat([state.tokens, tokens], dim=1)
        length = whole.shape[1]
        if length - state.forgotten <= self.longest:
            x, inner = self.model.features(tokens, state.inner)
            return x, Slid(whole, inner, state.forgotten)
        forgotten = -(-(length - max(self.bar, self.longest // 2)) // self.bar) * self.bar
        x, inner = self.model.features(whole[:, forgotten:], spread(self.begin(forgotten), len(whole)))
        return x[:, -tokens.shape[1] :], Slid(whole, inner, forgotten)

    def __call__(self, tokens: Tensor, state: Slid) -> tuple[Tensor, Slid]:
        x, state = self.features(tokens, state)
        return self.readout(x), state
