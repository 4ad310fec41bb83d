"""Classifier-free guidance for sampling: Ho and Salimans 2022.

    log p + (guidance - 1) · (log p - log p without the condition), normalized again

Each row is computed with its condition and without it, in the same batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from regard.core.data_specs import SpecialTokens
from regard.core.protocols import Decoder, Padded, Readout, State
from regard.core.protocols.music import MusicCondition
from regard.core.state_tree import map_rows


class GuidedState(NamedTuple):
    """The state of a model for rows of one piece with its condition, followed by the same rows without it."""

    both: State

    def _walk_tensors(self, change: Callable[[Tensor], Tensor]) -> GuidedState:
        """Implements core.state_tree, to which a pair of rows is one row."""
        return GuidedState(map_rows(self.both, lambda x: torch.cat([change(half) for half in x.tensor_split(2)])))


class GuidedReadout(NamedTuple):
    """Features with the condition and without it (… 2d) -> guided log probabilities (… v), not normalized."""

    readout: Readout
    guidance: float

    def __call__(self, features: Tensor) -> Tensor:
        log_probs = self.readout(torch.stack(features.chunk(2, dim=-1))).float().log_softmax(dim=-1)
        conditional, unconditional = log_probs
        guided: Tensor = conditional + (self.guidance - 1) * (conditional - unconditional)
        return guided

    def loss(self, features: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """Return the sum of -log p of the labels, under the guided distribution."""
        return cross_entropy(self(features), labels, reduction="sum", label_smoothing=smoothing)


class GuidedDecoder:
    """A `Decoder` of one piece with the guided distribution of a model."""

    def __init__(self, model: Decoder, guidance: float) -> None:
        self.model, self.readout = model, GuidedReadout(model.readout, guidance)

    def start(self, source: Padded | MusicCondition) -> GuidedState:
        """Return the state of a piece (1 …) before its first token."""
        return GuidedState(self.model.start(_with_unconditional(source)))

    def features(self, tokens: Tensor, state: GuidedState) -> tuple[Tensor, GuidedState]:
        """Tokens (r t) -> features with the condition and without it (r t 2d)."""
        x, both = self.model.features(tokens.repeat(2, 1), state.both)
        return torch.cat(x.tensor_split(2), dim=-1), GuidedState(both)

    def __call__(self, tokens: Tensor, state: GuidedState) -> tuple[Tensor, GuidedState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state


def _with_unconditional(source: Padded | MusicCondition) -> Padded | MusicCondition:
    """The condition of a piece -> two rows, the second without classes; both have the fixed tokens."""
    classes = torch.cat([source.tokens, torch.full_like(source.tokens, SpecialTokens.pad)])
    lengths = torch.cat([source.lengths, torch.ones_like(source.lengths)])
    if not isinstance(source, MusicCondition):
        return Padded(classes, lengths)
    fixed = Padded(source.fixed_tokens.tokens.repeat(2, 1), source.fixed_tokens.lengths.repeat(2))
    return MusicCondition(classes, lengths, fixed)
