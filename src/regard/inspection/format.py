"""The one data format: what an inspection holds, and how it becomes the JSON that every page, server and figure reads.

    title, model, task, facts    what went in, which model, and what is worth knowing of it (parameters, run, seconds)
    axes      name -> labels and kind ("tokens", "regions", "sentences", "items" …); one label per row or column
    maps      [h, t, s] weights with a group (encoder, decoder, cross, other), a layer, a query axis and a key axis
    outputs   what the model answered, best first, with scores
    alignment the true links of output and source, where known, and the error rate of every map against them
    steps     queries, keys, values, scores and mask of single heads, for the step-by-step view
    positions, embeddings    tables of the model itself
    probes    the maps of fixed examples through training
    shown     whatever the view of another task needs (an image, a piano roll), by name

Row t of a decoder's map is the one that emitted output t: its label is that output, and the key axis of its
self-attention ("read") has the tokens the decoder had read, start mark first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from regard.core.errors import ShapeError
from regard.inspection.pack import Budget, Numbers, pack_floats, pack_map

VERSION = 1


@dataclass(frozen=True)
class Axis:
    """Names of rows or columns. Text here is data and is never read as HTML."""

    labels: tuple[str, ...]
    kind: str = "tokens"
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Honesty:
    """How far a map may be read as a reason, per head; None where a figure does not apply."""

    gradient: tuple[float | None, ...]  # rank agreement with gradient × input, -1 to 1
    removal: tuple[float | None, ...]  # share of outputs that change when the most attended token is removed


@dataclass(frozen=True)
class Map:
    """One attention module's weights for one example."""

    name: str
    group: str
    layer: int
    queries: str
    keys: str
    weights: Numbers  # (h t s)
    honesty: Honesty | None = None


@dataclass(frozen=True)
class Output:
    """One answer of the model."""

    text: str
    score: float
    rank_score: float


@dataclass(frozen=True)
class Alignment:
    """True links (output, source), and the error rate of each map: the mean of its heads, and each head."""

    truth: tuple[tuple[int, int], ...]
    rates: dict[str, dict[str, Any]]
    best: str


@dataclass(frozen=True)
class Stage:
    """One step of a score: its name, and its value for every query and key."""

    name: str
    values: Numbers  # (t s)


@dataclass(frozen=True)
class Step:
    """All the numbers of one head."""

    map: str
    head: int
    formula: str
    normalizer: str
    queries: Numbers  # (t d)
    keys: Numbers  # (s d)
    values: Numbers  # (s e)
    stages: tuple[Stage, ...]
    allowed: Numbers  # (t s) 1 = may look
    weights: Numbers  # (t s)


@dataclass(frozen=True)
class Positions:
    """Positional encodings (n d), and the mean dot product of two of them by distance (n,)."""

    scheme: str
    table: Numbers
    by_distance: Numbers


@dataclass(frozen=True)
class Embeddings:
    """A vocabulary's most frequent words in two dimensions, and for each its nearest by cosine."""

    name: str
    method: str
    labels: tuple[str, ...]
    points: Numbers  # (n 2)
    neighbours: tuple[tuple[tuple[int, float], ...], ...]


@dataclass(frozen=True)
class Probe:
    """The maps of a fixed example at one step of training."""

    step: int
    axes: dict[str, Axis]
    maps: tuple[Map, ...]
    output: str = ""


@dataclass(frozen=True)
class Inspection:
    """One example seen through one model."""

    title: str
    model: str
    task: str
    axes: dict[str, Axis]
    maps: tuple[Map, ...]
    outputs: tuple[Output, ...] = ()
    facts: dict[str, str | int | float] = field(default_factory=dict)
    alignment: Alignment | None = None
    steps: tuple[Step, ...] = ()
    positions: Positions | None = None
    embeddings: tuple[Embeddings, ...] = ()
    probes: tuple[Probe, ...] = ()
    shown: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_axes(self.maps, self.axes)


def check_axes(maps: tuple[Map, ...], axes: dict[str, Axis]) -> None:
    """Every row and column of every map has exactly one label."""
    for one in maps:
        wanted = (len(axes[one.queries].labels), len(axes[one.keys].labels))
        if tuple(one.weights.shape[1:]) != wanted:
            raise ShapeError(
                f"map {one.name}: {one.weights.shape[1]} × {one.weights.shape[2]} weights but {wanted[0]} labels on "
                f"axis {one.queries!r} and {wanted[1]} on {one.keys!r}; give one label per row and column"
            )


def to_json(found: Inspection, *, budget: Budget | None = None) -> dict[str, Any]:
    """Plain values for `json.dumps`; the budget bounds how much of long maps is kept at full detail."""
    budget = Budget() if budget is None else budget
    return {
        "version": VERSION,
        "title": found.title,
        "model": found.model,
        "task": found.task,
        "facts": found.facts,
        "axes": _axes(found.axes),
        "maps": [_map(one, budget) for one in found.maps],
        "outputs": [{"text": o.text, "score": o.score, "rank_score": o.rank_score} for o in found.outputs],
        "alignment": None if found.alignment is None else vars(found.alignment),
        "steps": [_step(one) for one in found.steps],
        "positions": None if found.positions is None else _positions(found.positions),
        "embeddings": [_embeddings(one) for one in found.embeddings],
        "probes": [_probe(one, budget) for one in found.probes],
        "shown": found.shown,
    }


def _axes(axes: dict[str, Axis]) -> dict[str, Any]:
    return {name: {"labels": list(axis.labels), "kind": axis.kind, **axis.extra} for name, axis in axes.items()}


def _map(one: Map, budget: Budget) -> dict[str, Any]:
    honesty = None if one.honesty is None else vars(one.honesty)
    names = {"name": one.name, "group": one.group, "layer": one.layer, "queries": one.queries, "keys": one.keys}
    return {**names, "honesty": honesty, **pack_map(one.weights, budget=budget)}


def _step(one: Step) -> dict[str, Any]:
    numbers = {name: pack_floats(getattr(one, name)) for name in ("queries", "keys", "values", "allowed", "weights")}
    stages = [{"name": stage.name, "values": pack_floats(stage.values)} for stage in one.stages]
    return {
        "map": one.map,
        "head": one.head,
        "formula": one.formula,
        "normalizer": one.normalizer,
        "stages": stages,
        **numbers,
    }


def _positions(one: Positions) -> dict[str, Any]:
    return {"scheme": one.scheme, "table": pack_floats(one.table), "by_distance": pack_floats(one.by_distance)}


def _embeddings(one: Embeddings) -> dict[str, Any]:
    return {**vars(one), "points": pack_floats(one.points)}


def _probe(one: Probe, budget: Budget) -> dict[str, Any]:
    return {
        "step": one.step,
        "axes": _axes(one.axes),
        "maps": [_map(m, budget) for m in one.maps],
        "output": one.output,
    }
