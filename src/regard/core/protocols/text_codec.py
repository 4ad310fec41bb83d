"""Interface between a text task and engines that predict without torch: encode inputs, decode hypotheses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from regard.core.data_specs import SpecialTokens
from regard.core.prediction import Prediction
from regard.core.protocols import Hypothesis

TokenRows = list[list[int]]


class TextCodec(Protocol):
    """Encoder and decoder of a text task, built from its run folder alone.

    The engine supplies the search between encoding and decoding. A module data/text/TASK_codec.py has VERBS, the verbs
    of the task, and `load(data, folder)`, which builds a codec from the [data] section of a recipe and a run's files.
    """

    @property
    def special_tokens(self) -> SpecialTokens: ...

    def search_settings(self, options: Mapping[str, Any], decoding: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Request options and decoder settings -> the settings of the search; None if one search is not enough."""

    def encode_texts(self, texts: Sequence[str]) -> TokenRows:
        """Texts -> token rows for the search. An empty row needs no search. A text that cannot be read is an error."""

    def unknown_tokens(self, text: str, row: Sequence[int]) -> tuple[str, ...]:
        """Text and its row -> the words that the training data did not contain."""

    def max_new_tokens(self, row: Sequence[int]) -> int:
        """Return the maximum number of tokens in the output for a row."""

    def decode_hypotheses(self, hypotheses: Sequence[Sequence[Hypothesis]]) -> list[list[Prediction]]:
        """Hypotheses of each row, best first -> predictions; an empty row has no hypotheses."""
