"""What a task shows of one input: axes whose items say what they are, answers, and a way to run the model again.

This is all that pages, figures and comparisons get from a task; none of them knows the task. Attention modules name
their axes (`Attend(queries="target", keys="source")`); `rows` and `columns` say which axis here such a name means.
Where attention has levels, one name means several axes, one for each row of the batch: the words of the first
sentence, of the second … Each such axis names its parent, so the map of a sentence's words belongs to that row of the
document's map.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor


class Item(NamedTuple):
    """One row or column of a map. What does not apply is None."""

    text: str
    word: int | None = None  # the number of the word it belongs to
    span: tuple[int, int] | None = None  # where it stands in the raw text
    box: tuple[float, float, float, float] | None = None  # left, top, right, bottom in an image, as shares of its size
    time: float | None = None  # seconds
    pitch: float | None = None
    special: bool = False  # a mark, not content


class Parent(NamedTuple):
    """The item of another axis that an axis belongs to."""

    axis: str
    item: int


@dataclass(frozen=True)
class Axis:
    """What the rows or columns of a map are."""

    items: tuple[Item, ...]
    title: str  # what people call it: "source", "output", "words of sentence 2"
    parent: Parent | None = None
    input: str = ""  # the name in Shown.inputs of the tensor whose entries are these items, in order; "": none

    @property
    def labels(self) -> tuple[str, ...]:
        """The text of each item."""
        return tuple(item.text for item in self.items)


class AxisRef(NamedTuple):
    """Which axis a recorded name means in one row of the batch."""

    axis: str
    batch: int | None = 0  # None: in every row


class Token(NamedTuple):
    """One token of an answer, with what else might have stood there."""

    text: str
    score: float  # log p
    alternatives: tuple[tuple[str, float], ...] = ()  # the likeliest tokens with their log p, best first


@dataclass(frozen=True)
class Output:
    """One answer as it is shown."""

    text: str
    score: float | None = None
    rank: float | None = None
    tokens: tuple[Token, ...] = ()


class Truth(NamedTuple):
    """What attention between two axes should find: true links between words (Item.word), key word and query word."""

    queries: str
    keys: str
    links: frozenset[tuple[int, int]]


class Vocabulary(NamedTuple):
    """Tokens worth showing and their names, for the picture of an embedding table."""

    name: str
    size: int
    tokens: tuple[int, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Inspectable:
    """One input, read and answered."""

    title: str  # the input in a line
    axes: dict[str, Axis]
    query_axes: dict[str, tuple[AxisRef, ...]]  # the name of a module's query axis -> what it means here
    key_axes: dict[str, tuple[AxisRef, ...]]  # the name of a module's key axis -> what it means here
    outputs: tuple[Output, ...]  # best first
    replay: Callable[[], Tensor]  # runs the model once over input and answer -> logits (n v) of what was answered
    predicted_ids: Tensor  # (n) which entry of each row of logits was the answer
    seconds: float = 0.0  # that the answer took
    answer_axis: str = ""  # the axis whose items the n answers are; "": the answer as a whole
    # axis -> runs the model with each of its m items taken away in turn -> logits (m n v); where an axis is missing, an
    # item is taken away by forbidding attention to look at it
    ablations: Mapping[str, Callable[[], Tensor]] = field(default_factory=dict)
    # axes of `without` whose items are taken out, so that those behind move up -> whether row i of the batch that the
    # model reads is the input without item i; of the other axes places stay (a token is read as unknown)
    deletion_axes: Mapping[str, bool] = field(default_factory=dict)
    inputs: Mapping[str, Tensor] = field(default_factory=dict)  # token numbers or features as they enter the model
    truth: Truth | None = None
    vocabularies: tuple[Vocabulary, ...] = ()
    views: tuple[str, ...] = ()  # views that suit it beside the common ones: names, or dotted names of other packages
    extra: Mapping[str, Any] = field(default_factory=dict)  # plain values for those views (a piano roll, an image)
