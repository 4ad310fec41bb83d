"""Texts with gaps, and what a model that fills them is: what masked language models and their task agree on."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor

from regard.core.protocols import Padded, Readout


class MaskedBatch(NamedTuple):
    """Texts (b t) some of whose tokens are to be foretold. A model takes of it what it needs."""

    input_tokens: Tensor  # (b t) tokens, most of the gaps covered by mask marks
    tokens: Tensor  # (b t) the true tokens; where nobody knows them, as they are seen
    lengths: Tensor  # (b)
    prediction_mask: Tensor  # (b t) bool: the gaps
    prediction_order: (
        Tensor  # (b t) in which turn a gap is foretold, from 1 on; 0: no gap. Equal turns do not see each other
    )
    segments: Tensor  # (b t) 0 for the first text of a pair, 1 for the second

    @property
    def inputs(self) -> Padded:
        """What is seen, as a padded text."""
        return Padded(self.input_tokens, self.lengths)


class MaskedLMOutput(NamedTuple):
    """What a model makes of texts with gaps."""

    features: Tensor  # (n d) of each gap, row by row: what its readout takes
    cls_features: Tensor | None = None  # (b d) of the first token of each text, for `pairs`


class MaskedLM(Protocol):
    """A model that fills gaps."""

    @property
    def readout(self) -> Readout: ...

    @property
    def pairs(self) -> Readout | None:
        """Tells from the first token whether a second text follows the first: two classes; None: it cannot."""

    def __call__(self, batch: MaskedBatch) -> MaskedLMOutput:
        """Texts with gaps -> features of the gaps."""
