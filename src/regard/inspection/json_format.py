"""The one data format: what an inspection holds, and how it becomes the JSON that every page, server and figure reads.

    text, title   the input as it was given, and in a line that people read
    model, task, facts   which model, and what is worth knowing of it (parameters, run, seconds)
    axes      name -> title, items (text; and where they have one word, span, box, time, pitch, special) and parent
    maps      weights [h, t, s] with a query axis and a key axis, their module, the batch row, a group with its title
              and the layer within it, the item they belong to (parent), who may look at whom (allowed; null: all)
    answered  the axis whose items the answers are; first: the map worth looking at first
    outputs   what the model answered, best first, with scores, tokens and what else might have stood in their place
    truth     the true links between two axes, where known, and the error rate of every map against them
    steps     queries, keys, values and scores of every head, for the step-by-step view; null where there was no room
    positions, embeddings    tables of the model itself
    probes    the maps of a fixed example through training
    views     names of views that suit this input beside the common ones; extra: whatever they need, by name

Row t of a map whose queries are the answered axis is the one that emitted answer t. A decoder's self-attention has that
axis as rows and, as columns, an axis of what it had read by then, start mark first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from regard.core.errors import ShapeError
from regard.core.inspectable import Axis, Item, Output, Parent
from regard.inspection.map_tiles import BoolArray, Budget, FloatArray, pack_bits, pack_floats, pack_map

VERSION = 2
STEP_ARRAYS = ("queries", "keys", "values")  # of a step
MAX_STEP_NUMBERS = 1_500_000  # numbers of the steps of all heads that are packed into a page: 8 MB


@dataclass(frozen=True)
class Faithfulness:
    """How far a map may be read as a reason, per head; None where a figure does not apply."""

    gradient: tuple[float | None, ...]  # rank agreement with gradient × input, -1 to 1
    removal: tuple[float | None, ...]  # share of answers that change when the most attended item is taken away
    by_row: bool = True  # each row compared with the answer it emitted; else what each key receives with all answers


@dataclass(frozen=True)
class Map:
    """One attention module's weights for one row of the batch."""

    name: str  # unique: the module's path, and the batch row where it was recorded in several
    module: str
    queries: str
    keys: str
    weights: FloatArray  # (h t s)
    group: str  # maps of one group differ in layer alone
    title: str  # of the group
    layer: int = 0
    inward: bool = False  # self-attention: queries and keys are the same sequence
    batch: int = 0
    parent: Parent | None = None
    allowed: BoolArray | None = None  # (1 or h, t, s)
    honesty: Faithfulness | None = None


@dataclass(frozen=True)
class AlignmentResult:
    """True links (query item, key item) between two axes, and the error rate of each map: of all heads and of each."""

    queries: str
    keys: str
    links: tuple[tuple[int, int], ...]
    rates: dict[str, dict[str, Any]]
    best: str


@dataclass(frozen=True)
class Stage:
    """One step of a score: its name, and its value for every query and key."""

    name: str
    values: FloatArray  # (t s)


@dataclass(frozen=True)
class HeadComputation:
    """All the numbers of one head."""

    map: str
    head: int
    formula: str
    normalizer: str
    queries: FloatArray  # (t d)
    keys: FloatArray  # (s d), as the score has projected them
    values: FloatArray  # (s e)
    stages: tuple[Stage, ...]
    key: str = "k"  # what the score has made of a key

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return sum(part.size for part in (self.queries, self.keys, self.values, *(one.values for one in self.stages)))


@dataclass(frozen=True)
class Positions:
    """Positional encodings (n d), and the mean dot product of two of them by distance (n,)."""

    scheme: str
    table: FloatArray
    by_distance: FloatArray


@dataclass(frozen=True)
class Embeddings:
    """A vocabulary's most frequent words in two dimensions, and for each its nearest by cosine."""

    name: str
    method: str
    labels: tuple[str, ...]
    points: FloatArray  # (n 2)
    neighbours: tuple[tuple[tuple[int, float], ...], ...]


@dataclass(frozen=True)
class TrainingSnapshot:
    """The maps of a fixed example at one step of training."""

    step: int
    axes: dict[str, Axis]
    maps: tuple[Map, ...]
    output: str = ""
    text: str = ""  # the example
    fixed: bool = False  # the rows are those of a reference that is the same at every step


@dataclass(frozen=True)
class Inspection:
    """One input seen through one model."""

    text: str
    model: str
    task: str
    axes: dict[str, Axis]
    maps: tuple[Map, ...]
    title: str = ""  # "": the text itself
    answered: str = ""
    outputs: tuple[Output, ...] = ()
    facts: dict[str, str | int | float] = field(default_factory=dict)
    truth: AlignmentResult | None = None
    steps: tuple[HeadComputation, ...] = ()
    positions: Positions | None = None
    embeddings: tuple[Embeddings, ...] = ()
    probes: tuple[TrainingSnapshot, ...] = ()
    views: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for attention in self.maps:
            shape, wanted = attention.weights.shape[1:], tuple(len(self.axes[name].items) for name in _sides(attention))
            if shape != wanted:
                raise ShapeError(
                    f"map {attention.name}: {shape[0]} × {shape[1]} weights but {wanted[0]} items on axis "
                    f"{attention.queries!r} and {wanted[1]} on {attention.keys!r}; give one item per row and column"
                )

    @property
    def primary_map(self) -> Map | None:
        """The map worth looking at first: the one nearest to the truth, else the last look from the answers, or from
        anywhere, at something other than themselves, else the first; of the uppermost level there is."""
        if not self.maps:
            return None
        best = [] if self.truth is None else [one for one in self.maps if one.name == self.truth.best]
        upper = [one for one in self.maps if one.parent is None] or list(self.maps)
        outward = [one for one in upper if not one.inward]
        emitting = [one for one in outward if one.queries == self.answered]
        return (best or emitting[-1:] or outward[-1:] or upper)[0]


def _sides(attention: Map) -> tuple[str, str]:
    return attention.queries, attention.keys


def to_json(inspection: Inspection, *, budget: Budget | None = None) -> dict[str, Any]:
    """Plain values for `json.dumps`; the budget bounds how much of long maps is kept at full detail."""
    budget = Budget() if budget is None else budget
    return {
        "version": VERSION,
        "text": inspection.text,
        "title": inspection.title or inspection.text,
        "model": inspection.model,
        "task": inspection.task,
        "facts": inspection.facts,
        "axes": axes_to_json(inspection.axes),
        "maps": [_map(attention, budget) for attention in inspection.maps],
        "answered": inspection.answered,
        "first": inspection.primary_map and inspection.primary_map.name,
        "outputs": [_output(output) for output in inspection.outputs],
        "truth": inspection.truth and vars(inspection.truth),
        "steps": _steps(inspection.steps),
        "positions": inspection.positions and _packed(inspection.positions, "table", "by_distance"),
        "embeddings": [_packed(space, "points") for space in inspection.embeddings],
        "probes": [_probe(probe, budget) for probe in inspection.probes],
        "views": list(inspection.views),
        "extra": dict(inspection.extra),
    }


def axes_to_json(axes: dict[str, Axis]) -> dict[str, Any]:
    """Axes as plain values; of an item only what it has."""
    return {
        name: {
            "title": axis.title,
            "items": [_item(item) for item in axis.items],
            "parent": axis.parent and axis.parent._asdict(),
        }
        for name, axis in axes.items()
    }


def _item(item: Item) -> dict[str, Any]:
    return {name: value for name, value in item._asdict().items() if value is not None and value is not False}


def map_to_json(attention: Map) -> dict[str, Any]:
    """What a map is, without its numbers."""
    names = ("name", "module", "queries", "keys", "group", "title", "layer", "inward", "batch")
    return {name: getattr(attention, name) for name in names} | {
        "parent": attention.parent and attention.parent._asdict()
    }


def _map(attention: Map, budget: Budget) -> dict[str, Any]:
    return {
        **map_to_json(attention),
        "honesty": attention.honesty and vars(attention.honesty),
        "allowed": None if attention.allowed is None else pack_bits(attention.allowed),
        **pack_map(attention.weights, budget=budget),
    }


def _output(output: Output) -> dict[str, Any]:
    return {**vars(output), "tokens": [token._asdict() for token in output.tokens]}


def _packed(table: Positions | Embeddings | HeadComputation, *names: str) -> dict[str, Any]:
    """The fields of a dataclass, those named packed as numbers."""
    return {**vars(table), **{name: pack_floats(getattr(table, name)) for name in names}}


def _steps(steps: tuple[HeadComputation, ...]) -> list[dict[str, Any]]:
    """Every head; the numbers of as many as there is room for, the others can be asked for one by one."""
    room, found = MAX_STEP_NUMBERS, []
    for step in steps:
        room -= step.size
        found.append(step_to_json(step) if room >= 0 else {**vars(step), **dict.fromkeys(STEP_ARRAYS), "stages": None})
    return found


def step_to_json(step: HeadComputation) -> dict[str, Any]:
    """All the numbers of one head; mask and weights are those of its map."""
    stages = [{"name": stage.name, "values": pack_floats(stage.values)} for stage in step.stages]
    return {**_packed(step, *STEP_ARRAYS), "stages": stages}


def _probe(probe: TrainingSnapshot, budget: Budget) -> dict[str, Any]:
    maps = [_map(attention, budget) for attention in probe.maps]
    return {
        "step": probe.step,
        "axes": axes_to_json(probe.axes),
        "maps": maps,
        "output": probe.output,
        "text": probe.text,
        "fixed": probe.fixed,
    }
