"""What answers without torch know of a task: how its inputs become rows of tokens, and what is found answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from regard.core.data_specs import SpecialTokens
from regard.core.prediction import Prediction
from regard.core.protocols import Hypothesis

TokenRows = list[list[int]]


class TextCodec(Protocol):
    """A task by its run folder alone. A module data/text/TASK_codec.py has `load(data, folder)`, which makes one of the [data]
    section of a recipe and the files of a run, and VERBS, the task's own."""

    @property
    def special_tokens(self) -> SpecialTokens: ...

    def search_settings(self, options: Mapping[str, Any], decoding: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What is asked and the settings of the decoder -> those of the one search that answers it; None where one
        search is not enough."""

    def encode_texts(self, texts: Sequence[str]) -> TokenRows:
        """Texts -> the rows that a search reads; an empty row is answered without one. What cannot be read is an
        error."""

    def max_new_tokens(self, row: Sequence[int]) -> int:
        """The most tokens that the answer to a row may have."""

    def decode_hypotheses(self, hypotheses: Sequence[Sequence[Hypothesis]]) -> list[list[Prediction]]:
        """Hypotheses of each row, best first -> answers; none of an empty row."""
