"""What a task's reader hands to `collect`: input and output as tokens, their labels, and a way to run them again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from regard.core.protocols import Padded
from regard.data.alignment import Links
from regard.inspection.format import Axis, Output


class Pair(NamedTuple):
    """A source and what the model said, as one row each."""

    source: Padded  # (1 s), end mark included
    target: Tensor  # (1 t+1): start, the output, end


class Vocabulary(NamedTuple):
    """Tokens worth showing and their names, for the picture of an embedding table."""

    name: str  # "source" or "target"
    size: int
    tokens: tuple[int, ...]
    labels: tuple[str, ...]


class Truth(NamedTuple):
    """True links between words, the word that each token stands in (marks left out), and the links to draw."""

    links: Links  # (source word, output word)
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    drawn: tuple[tuple[int, int], ...]  # (output token, source token)


@dataclass(frozen=True)
class Example:
    """One input, read and answered. `rows` and `columns` say which axis of ours a recorded axis is."""

    axes: dict[str, Axis]
    rows: dict[str, str]
    columns: dict[str, str]
    outputs: tuple[Output, ...]
    replay: Callable[[], Any]  # the model once over input and output, all at once
    seconds: float  # the search for the output took
    pair: Pair | None = None
    truth: Truth | None = None
    vocabularies: tuple[Vocabulary, ...] = ()
    shown: dict[str, Any] = field(default_factory=dict)
