"""The result of an inspection, and its JSON format for pages, server and figures.

    text, title   the raw input, and a one-line title for display
    model, task, facts   names, and facts about the run (parameters, run, seconds)
    remarks   on the input, one line each: text that exceeds the context, unknown words, a resized image
    axes      name -> title, items (text and, optionally, word, span, box, time, pitch, special) and parent
    maps      weights [h, t, s] with a query axis and a key axis, module, batch row, group with its title, layer within
              the group, parent item, and mask (allowed; null: all), and two faithfulness metrics (honesty)
    answered  the axis whose items are the outputs; first: the map to show first
    outputs   predictions, best first, with scores, tokens and their alternatives
    truth     the true links between two axes, if known, and the error rate of every map
    steps     queries, keys, values and scores of every head, for the step-by-step view; null if over the size limit, or
              if a server sends them on request
    positions, embeddings    tables of the model itself
    probes    the maps of a fixed example during training
    views     names of additional views for this input; extra: their data, by name

In a map whose queries are the answered axis, row t emitted output t. A decoder's self-attention has that axis as rows.
Its columns are the axis of the tokens read so far, which starts with BOS.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from regard.core.errors import ShapeError
from regard.core.inspectable import Axis, Item, Output, Parent
from regard.inspection.map_tiles import BoolArray, Budget, FloatArray, pack_bits, pack_floats, pack_map

VERSION = 3
STEP_ARRAYS = ("queries", "keys", "values")  # array fields of HeadComputation
MAX_STEP_NUMBERS = 700_000  # values of the steps of all heads in a page: 3.5 MB


@dataclass(frozen=True)
class Faithfulness:
    """Faithfulness metrics of a map, per head; None if a metric does not apply."""

    gradient: tuple[float | None, ...]  # rank correlation with gradient × input, -1 to 1
    removal: tuple[float | None, ...]  # share of outputs that change when the most attended item is removed
    gradient_of_mean: float | None = None  # the same metric of the mean of all heads
    removal_of_mean: float | None = None
    by_row: bool = True  # each row is compared with its output; else the mean weight of each key with all outputs


@dataclass(frozen=True)
class Map:
    """Attention weights of one module for one batch row."""

    name: str  # unique: module path, and the batch row if there are several
    module: str
    queries: str
    keys: str
    weights: FloatArray  # (h t s)
    group: str  # maps of one group differ only in the layer
    title: str  # title of the group
    layer: int = 0
    inward: bool = False  # self-attention: queries and keys are the same sequence
    batch: int = 0
    parent: Parent | None = None
    allowed: BoolArray | None = None  # (1 or h, t, s)
    honesty: Faithfulness | None = None


@dataclass(frozen=True)
class AlignmentResult:
    """True links (query item, key item) between two axes, and error rates of each map, for the mean and each head."""

    queries: str
    keys: str
    links: tuple[tuple[int, int], ...]
    rates: dict[str, dict[str, Any]]
    best: str


@dataclass(frozen=True)
class Stage:
    """One step in the computation of a score: name, and value for every query and key."""

    name: str
    values: FloatArray  # (t s)


@dataclass(frozen=True)
class HeadComputation:
    """All intermediate values of one attention head."""

    map: str
    head: int
    formula: str
    normalizer: str
    queries: FloatArray  # (t d)
    keys: FloatArray  # (s d), projected by the score
    values: FloatArray  # (s e)
    stages: tuple[Stage, ...]
    key: str = "k"  # label of the projected keys

    @property
    def size(self) -> int:
        """Number of values."""
        arrays = (self.queries, self.keys, self.values, *(stage.values for stage in self.stages))
        return sum(array.size for array in arrays)


@dataclass(frozen=True)
class Positions:
    """Position encodings (n d), and the mean dot product of two of them by distance (n,)."""

    scheme: str
    table: FloatArray
    by_distance: FloatArray


@dataclass(frozen=True)
class Embeddings:
    """Most frequent words of a vocabulary in two dimensions, and the nearest neighbours of each by cosine."""

    name: str
    method: str
    labels: tuple[str, ...]
    points: FloatArray  # (n 2)
    neighbours: tuple[tuple[tuple[int, float], ...], ...]


@dataclass(frozen=True)
class TrainingSnapshot:
    """Maps of a fixed example at one training step."""

    step: int
    axes: dict[str, Axis]
    maps: tuple[Map, ...]
    output: str = ""
    text: str = ""  # the example
    fixed: bool = False  # the rows are the tokens of a reference, the same at every step


@dataclass(frozen=True)
class Inspection:
    """The inspection of one input with one model."""

    text: str
    model: str
    task: str
    axes: dict[str, Axis]
    maps: tuple[Map, ...]
    title: str = ""  # "": the text
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
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for attention in self.maps:
            shape = attention.weights.shape[1:]
            expected = tuple(len(self.axes[name].items) for name in (attention.queries, attention.keys))
            if shape != expected:
                raise ShapeError(
                    f"map {attention.name}: {shape[0]} × {shape[1]} weights but {expected[0]} items on axis "
                    f"{attention.queries!r} and {expected[1]} on {attention.keys!r}; give one item per row and column"
                )

    @property
    def primary_map(self) -> Map | None:
        """The map to show first: the one with the lowest alignment error; else the last cross-attention of the outputs,
        or of any queries; else the first map of the top level."""
        if not self.maps:
            return None
        best = [] if self.truth is None else [item for item in self.maps if item.name == self.truth.best]
        top = [item for item in self.maps if item.parent is None] or list(self.maps)
        cross = [item for item in top if not item.inward]
        from_outputs = [item for item in cross if item.queries == self.answered]
        return (best or from_outputs[-1:] or cross[-1:] or top)[0]


def to_json(
    inspection: Inspection, *, budget: Budget | None = None, max_step_numbers: int | None = None
) -> dict[str, Any]:
    """Return plain values for `json.dumps`.

    The budget limits how much of long maps is stored at full resolution, and `max_step_numbers` how many values of the
    steps are stored (default MAX_STEP_NUMBERS).
    """
    budget = Budget() if budget is None else budget
    return {
        "version": VERSION,
        "text": inspection.text,
        "title": inspection.title or inspection.text,
        "model": inspection.model,
        "task": inspection.task,
        "facts": inspection.facts,
        "remarks": list(inspection.remarks),
        "axes": axes_to_json(inspection.axes),
        "maps": [_map(attention, budget) for attention in inspection.maps],
        "answered": inspection.answered,
        "first": inspection.primary_map and inspection.primary_map.name,
        "outputs": [_output(output) for output in inspection.outputs],
        "truth": inspection.truth and vars(inspection.truth),
        "steps": _steps(inspection.steps, MAX_STEP_NUMBERS if max_step_numbers is None else max_step_numbers),
        "positions": inspection.positions and _packed(inspection.positions, "table", "by_distance"),
        "embeddings": [_packed(space, "points") for space in inspection.embeddings],
        "probes": [_probe(probe, budget) for probe in inspection.probes],
        "views": list(inspection.views),
        "extra": dict(inspection.extra),
    }


def axes_to_json(axes: dict[str, Axis]) -> dict[str, Any]:
    """Return axes as plain values; empty fields of items are omitted."""
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
    """Return the description of a map, without its weights."""
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
    """Return the fields of a dataclass; the named array fields are packed."""
    return {**vars(table), **{name: pack_floats(getattr(table, name)) for name in names}}


def _steps(steps: tuple[HeadComputation, ...], max_numbers: int) -> list[dict[str, Any]]:
    """Return all heads. Arrays beyond the size limit are null; they can be requested one by one."""
    remaining, tables = max_numbers, []
    for step in steps:
        remaining -= step.size
        tables.append(
            step_to_json(step) if remaining >= 0 else {**vars(step), **dict.fromkeys(STEP_ARRAYS), "stages": None}
        )
    return tables


def step_to_json(step: HeadComputation) -> dict[str, Any]:
    """Return all values of one head; mask and weights are in its map."""
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
