"""Requirements of position encodings, measured for every registered scheme.

An additive encoding is measured by its vectors. An encoding inside the score is measured by the scores of equal
queries and keys, so that every difference between positions comes from the encoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.attention.scores import build as build_score
from regard.core.errors import ShapeError
from regard.core.registry import registered_names
from regard.experiments._experiment import Cell
from regard.experiments._verdict import ClaimResult, Effect, Figures, decide
from regard.layers.positions import build
from regard.layers.positions._base import PositionScheme

CLAIM = (
    "A position encoding must be unique per position, have equal distances at every length, stay bounded for longer"
    " inputs and be deterministic. The index, a fraction of the length and binary numbers fail or waste features;"
    " sinusoids do not."
)
REFERENCE = "Vaswani et al. 2017, section 3.5"
REQUIREMENTS = ("unique", "equal_distance", "bounded", "deterministic")
NAIVE = ("index", "fraction", "binary")
DIM = 16
SHORT, MAX_LENGTH, BEYOND = 16, 64, 256  # a short sequence, the configured maximum, and a longer one
TOLERANCE = 1e-4


def cells(effort: float) -> list[Cell]:
    """Return a cell for each scheme; nothing is trained, so effort has no effect."""
    return [
        Cell(name, partial(_measure, name)) for name in registered_names("regard.layers.positions") if name != "none"
    ]


def _measure(name: str) -> dict[str, float]:
    requirements = {key: float(value) for key, value in measure_requirements(name)._asdict().items()}
    return requirements | {"features_in_use": _features_in_use(name)}


def _features_in_use(name: str) -> float:
    """Return the fraction of features that vary over positions; 1 for schemes inside the score."""
    try:
        added = build(name, DIM, max_length=MAX_LENGTH).encode_sequence(MAX_LENGTH)
    except ShapeError:
        added = None
    return 1.0 if added is None else float((added.std(dim=0) > 1e-6).float().mean())


def verdict(figures: Figures) -> ClaimResult:
    """Check that sinusoids meet all requirements with every feature in use, and that each naive scheme fails one."""
    failures = {
        name: [f"not {requirement.replace('_', ' ')}" for requirement in REQUIREMENTS if not values[requirement]]
        + ([f"uses {values['features_in_use']:.0%} of the features"] if values["features_in_use"] < 1 else [])
        for name, values in figures.items()
    }
    conditions = {
        "sinusoids meet all four requirements with every feature in use": not failures["sinusoidal"],
        f"each of {', '.join(NAIVE)} fails one": all(failures[name] for name in NAIVE),
    }
    effects = [_count_met(name, figures[name]) for name in ("sinusoidal", *NAIVE)]
    complete = ", ".join(name for name, failed in failures.items() if not failed)
    details = "; ".join(f"{name}: {', '.join(failed)}" for name, failed in failures.items() if failed)
    text = f"All four met, with every feature in use: {complete}. The others: {details}."
    return decide(text, conditions, effects)


def _count_met(name: str, values: Mapping[str, float]) -> Effect:
    """Return the number of requirements that a scheme meets; it is exact, because nothing is sampled."""
    count = sum(values[requirement] for requirement in REQUIREMENTS)
    return Effect(f"requirements met by {name}", count, count, count, ".0f")


def draw(figures: Figures, axes: Any) -> None:
    """Plot schemes × requirements; cells that are met are filled."""
    columns = [*REQUIREMENTS, "features_in_use"]
    values = torch.tensor([[row[column] for column in columns] for row in figures.values()])
    axes.imshow(values.numpy(), cmap="Blues", vmin=0, vmax=2.5, aspect="auto")
    axes.set_xticks(range(len(columns)), [column.replace("_", "\n", 1).replace("_", " ") for column in columns])
    axes.set_yticks(range(len(figures)), list(figures))
    for row, row_values in enumerate(values.tolist()):
        for column, value in enumerate(row_values):
            axes.text(
                column, row, {0: "no", 1: "yes"}.get(value, f"{value:.0%}"), ha="center", va="center", color="#1c2024"
            )


class Requirements(NamedTuple):
    """The requirements that a scheme meets."""

    unique: bool  # no two positions have the same encoding
    equal_distance: bool  # neighbouring positions have the same distance in short and in long sequences
    bounded: bool  # accepts inputs beyond the maximum length, and its values do not grow with the length
    deterministic: bool  # does not depend on the random seed


def measure_requirements(name: str) -> Requirements:
    """Measure the four requirements of a new scheme of this name."""
    scheme = _build(name, seed=1)
    short, long = _encode(scheme, SHORT), _encode(scheme, MAX_LENGTH)
    return Requirements(
        unique=bool(torch.pdist(long).min() > TOLERANCE),
        equal_distance=_is_close(_step_lengths(short, SHORT), _step_lengths(long, SHORT)),
        bounded=_is_bounded(scheme, long),
        deterministic=_is_close(_encode(_build(name, seed=2), MAX_LENGTH, seed=2), long),
    )


def all_requirements() -> dict[str, Requirements]:
    """Measure the requirements of every registered scheme."""
    return {name: measure_requirements(name) for name in registered_names("regard.layers.positions")}


def _build(name: str, *, seed: int) -> PositionScheme:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(name, DIM, max_length=MAX_LENGTH)


@torch.no_grad()
def _encode(scheme: PositionScheme, length: int, *, seed: int = 0) -> Tensor:
    """Return (t n): one row per position, for additive schemes and for schemes inside the score."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # a scheme inside the score has parameters per layer
        position_bias = scheme.position_bias(heads=1, dim=DIM)
    if position_bias is not None:
        vectors = torch.linspace(0.5, 1.5, DIM).expand(1, 1, length, DIM)
        scores: Tensor = position_bias.score(build_score("scaled_dot", DIM), vectors, vectors, 0)
        return scores[0, 0]  # (t s)
    added = scheme.encode_sequence(length)
    return torch.zeros(length, DIM) if added is None else added


def _step_lengths(encoding: Tensor, count: int) -> Tensor:
    """Return the distances between neighbours of the first `count` positions."""
    first = encoding[:count, :count]
    lengths: Tensor = torch.linalg.vector_norm(first[1:] - first[:-1], dim=1)
    return lengths


def _is_bounded(scheme: PositionScheme, encoding: Tensor) -> bool:
    try:
        beyond = _encode(scheme, BEYOND)
    except ShapeError:  # a table of fixed length
        return False
    return bool(beyond.abs().max() <= 2 * encoding.abs().max())


def _is_close(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, atol=TOLERANCE)
