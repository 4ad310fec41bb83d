"""The data that a task provides to inspect one prediction: outputs, and the labeled axes of its attention maps.

A task returns an `Inspectable`: labeled axes, outputs, and functions that run the model again. Inspection code uses
nothing else of a task.

Attention modules name their axes (`Attend(queries="target", keys="source")`). `query_axes` and `key_axes` map such a
name to an axis of this input. With hierarchical attention one name maps to several axes, one for each row of the batch:
the words of the first sentence, of the second, and so on. Each of these axes names its parent item, so that the map of
a sentence's words can be shown under that sentence's row of the document's map.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from torch import Tensor


class Item(NamedTuple):
    """One row or column of an attention map. Fields that do not apply are None."""

    text: str
    word: int | None = None  # index of the word it belongs to
    span: tuple[int, int] | None = None  # character range in the raw text
    box: tuple[float, float, float, float] | None = None  # left, top, right, bottom as fractions of the image size
    time: float | None = None  # seconds
    pitch: float | None = None
    special: bool = False  # a special token


class Parent(NamedTuple):
    """The item of another axis that an axis belongs to."""

    axis: str
    item: int


@dataclass(frozen=True)
class Axis:
    """The items along the rows or columns of an attention map."""

    items: tuple[Item, ...]
    title: str  # displayed name: "source", "output", "words of sentence 2"
    parent: Parent | None = None
    input: str = ""  # key in Inspectable.inputs of the tensor whose entries are these items, in order; "": none

    @property
    def labels(self) -> tuple[str, ...]:
        """The text of each item."""
        return tuple(item.text for item in self.items)


class AxisRef(NamedTuple):
    """The axis that a recorded axis name refers to in one row of the batch."""

    axis: str
    batch: int | None = 0  # None: in every row


class Token(NamedTuple):
    """One token of an output, with its alternatives."""

    text: str
    score: float  # log p
    alternatives: tuple[tuple[str, float], ...] = ()  # the most likely tokens with their log p, best first


@dataclass(frozen=True)
class Output:
    """One displayed output."""

    text: str
    score: float | None = None
    rank: float | None = None
    tokens: tuple[Token, ...] = ()


class Truth(NamedTuple):
    """Reference alignment between two axes: pairs (key word, query word) of word indices (Item.word)."""

    queries: str
    keys: str
    links: frozenset[tuple[int, int]]


class Vocabulary(NamedTuple):
    """A selection of tokens with labels, for the projection of an embedding table."""

    name: str
    size: int
    tokens: tuple[int, ...]
    labels: tuple[str, ...]


class Replay(Protocol):
    """Runs the model once over the input and its output (teacher forcing)."""

    def __call__(self) -> Tensor:
        """Return the logits (n v) of the n predictions."""


@dataclass(frozen=True)
class Inspectable:
    """One input with its outputs, its axes, and functions that run the model again."""

    title: str  # the input as one line
    axes: dict[str, Axis]
    query_axes: dict[str, tuple[AxisRef, ...]]  # a module's name of its query axis -> axes of this input
    key_axes: dict[str, tuple[AxisRef, ...]]  # a module's name of its key axis -> axes of this input
    outputs: tuple[Output, ...]  # best first
    replay: Replay
    predicted_ids: Tensor  # (n) the predicted class of each row of the logits
    seconds: float = 0.0  # duration of the prediction
    answer_axis: str = ""  # the axis of the n predictions; "": one prediction for the entire input
    # axis -> a function that removes each of its m items in turn and returns the logits (m n v);
    # items of an axis without an entry are removed by masking attention to them
    ablations: Mapping[str, Callable[[], Tensor]] = field(default_factory=dict)
    # axes of `ablations` whose items are deleted, so that later items move up -> True if row i of the model's batch is
    # the input without item i; on all other axes positions stay (the token is replaced by the unknown token)
    deletion_axes: Mapping[str, bool] = field(default_factory=dict)
    inputs: Mapping[str, Tensor] = field(default_factory=dict)  # token ids or features, as passed to the model
    truth: Truth | None = None
    vocabularies: tuple[Vocabulary, ...] = ()
    views: tuple[str, ...] = ()  # additional views: registered names, or dotted names from other packages
    extra: Mapping[str, Any] = field(default_factory=dict)  # plain values for these views (a piano roll, an image)
    remarks: tuple[str, ...] = ()  # on the input: text that was cut, unknown words, a resized image; one line each
