"""Requirements of position encodings, measured for every registered scheme."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from regard.core.errors import ShapeError
from regard.core.registry import registered_names
from regard.experiments._experiment import Cell, ClaimResult, Figures
from regard.experiments._position_requirements import DIM, MAX_LENGTH, measure_requirements
from regard.layers.positions import build

CLAIM = (
    "A position encoding must be unique per position, have equal distances at every length, stay bounded for longer"
    " inputs and be deterministic. The index, a fraction of the length and binary numbers fail or waste features;"
    " sinusoids do not."
)
REFERENCE = "Vaswani et al. 2017, section 3.5"
REQUIREMENTS = ("unique", "equal_distance", "bounded", "deterministic")
NAIVE = ("index", "fraction", "binary")


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
    holds = not failures["sinusoidal"] and all(failures[name] for name in NAIVE)
    complete = ", ".join(name for name, failed in failures.items() if not failed)
    details = "; ".join(f"{name}: {', '.join(failed)}" for name, failed in failures.items() if failed)
    return ClaimResult(holds, f"All four met, with every feature in use: {complete}. The others: {details}.")


def draw(figures: Figures, axes: Any) -> None:
    """Plot schemes × requirements; cells that are met are filled."""
    columns = [*REQUIREMENTS, "features_in_use"]
    values = torch.tensor([[row[column] for column in columns] for row in figures.values()])
    axes.imshow(values.numpy(), cmap="Blues", vmin=0, vmax=2.5, aspect="auto")
    axes.set_xticks(range(len(columns)), [column.replace("_", " ") for column in columns])
    axes.set_yticks(range(len(figures)), list(figures))
    for row, row_values in enumerate(values.tolist()):
        for column, value in enumerate(row_values):
            axes.text(column, row, {0: "no", 1: "yes"}.get(value, f"{value:.0%}"), ha="center", va="center")
