"""Interface between masked language models and the masked language task."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from torch import Tensor

from regard.core.protocols import Padded, Readout


class MaskedBatch(NamedTuple):
    """Texts (b t) in which the tokens of some positions are predicted. Each model uses the fields that it needs."""

    input_tokens: Tensor  # (b t) most of the masked positions hold [MASK]
    tokens: Tensor  # (b t) the true tokens; the input tokens if the true ones are not known
    lengths: Tensor  # (b)
    prediction_mask: Tensor  # (b t) bool: the masked positions, whose tokens are predicted
    # (b t) prediction order of the masked positions, from 1; 0: not masked.
    # Positions of equal order do not attend to each other.
    prediction_order: Tensor
    segments: Tensor  # (b t) 0 for the first text of a pair, 1 for the second

    @property
    def inputs(self) -> Padded:
        """The input tokens as a padded batch."""
        return Padded(self.input_tokens, self.lengths)


class MaskedLMOutput(NamedTuple):
    """Features of the masked positions and of the sequences."""

    features: Tensor  # (n d) of the masked positions in row-major order: the input of the readout
    cls_features: Tensor | None = None  # (b d) of the first token of each text, the input of `pairs`


class MaskedLM(Protocol):
    """A model that predicts masked tokens."""

    @property
    def readout(self) -> Readout: ...

    @property
    def encoder(self) -> Callable[[Padded], Tensor]:
        """Texts -> features (b t d) of each token, from the complete text."""

    @property
    def pairs(self) -> Readout | None:
        """Binary classifier on the first token: does the second text follow the first? None if the model has none."""

    def __call__(self, batch: MaskedBatch) -> MaskedLMOutput: ...
