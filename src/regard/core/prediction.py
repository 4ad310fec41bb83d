"""One output of a model. This module does not import torch, so that engines without torch can use it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.core import files
from regard.core.errors import ConfigError

NOTHING: Mapping[str, Any] = {}  # shared by all predictions: many objects would trigger the garbage collector


def unknown_token_remarks(words: Sequence[str]) -> tuple[str, ...]:
    """Return the remark on the input words that are not in the vocabulary; none without such words."""
    return (f"not in the vocabulary, or spelled out in characters: {', '.join(words)}",) if words else ()


@dataclass(frozen=True)
class Prediction:
    """One output of a model for one input."""

    text: str  # one line of readable text
    score: float | None = None  # log probability; None if the task has none
    ranking_score: float | None = None  # value that the predictions of an input are sorted by, best first
    value: Any = None  # the output as an object of the task: notes, boxes, a label
    # suffix (".mid", ".png", ".txt" for a drawing in a terminal) -> a function that returns the file's bytes
    files: Mapping[str, Callable[[], bytes]] = field(default_factory=lambda: NOTHING)
    remarks: tuple[str, ...] = ()  # corrections made to the input, one line each
    # machine-readable parts of the value, as plain JSON values by name: {"entities": […]}
    data: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    @property
    def probability(self) -> float | None:
        """The probability of the output, 0 to 1: exp(score). None if there is no score."""
        if self.score is None or math.isnan(self.score):
            return None
        return math.exp(min(0.0, self.score))  # a sum of log probabilities may exceed 0 by a rounding error

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON, with the same keys for every task; `data` follows them."""
        numbers = {"probability": self.probability, "score": self.score, "ranking_score": self.ranking_score}
        plain = {"text": self.text, **numbers, **self.data}
        return plain | ({"remarks": list(self.remarks)} if self.remarks else {})

    def with_unknown_tokens(self, words: Sequence[str]) -> Prediction:
        """Return the prediction with the input words that are not in the vocabulary, and a remark on them."""
        if not words:
            return self
        data = {**self.data, "unknown_tokens": list(words)}
        return replace(self, remarks=(*self.remarks, *unknown_token_remarks(words)), data=data)

    def render(self, suffix: str) -> bytes:
        """Return the bytes of a file with this suffix; an unknown suffix is an error that lists the available ones."""
        if suffix.lower() not in self.files:
            available = ", ".join(self.files) or "none"
            file_kind = suffix or "a file without a suffix"
            raise ConfigError(f"this prediction cannot be written as {file_kind}; available: {available}")
        return self.files[suffix.lower()]()

    def save(self, path: Path | str) -> Path:
        """Write the prediction to a file whose format is given by the suffix of the path."""
        target = Path(path)
        files.write_bytes(target, self.render(target.suffix))
        return target
