"""Which position encodings keep what a position encoding is asked to be."""

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
    "A position encoding must tell every place apart, step equally in every length, stay bounded on longer input and be"
    " deterministic; the index, a fraction of the length and binary numbers fail or waste, sinusoids do not."
)
WHERE = "Vaswani et al. 2017, section 3.5"
REQUIREMENTS = ("unique", "equal_distance", "bounded", "deterministic")
NAIVE = ("index", "fraction", "binary")


def cells(effort: float) -> list[Cell]:
    """A cell for each scheme; nothing is trained, so that effort does not matter."""
    return [
        Cell(name, partial(_measure, name)) for name in registered_names("regard.layers.positions") if name != "none"
    ]


def _measure(name: str) -> dict[str, float]:
    kept = {asked: float(value) for asked, value in measure_requirements(name)._asdict().items()}
    return kept | {"features_in_use": _in_use(name)}


def _in_use(name: str) -> float:
    """The share of the features that are not the same at every place; 1 for schemes inside the score."""
    try:
        added = build(name, DIM, max_length=MAX_LENGTH).encode_sequence(MAX_LENGTH)
    except ShapeError:
        added = None
    return 1.0 if added is None else float((added.std(dim=0) > 1e-6).float().mean())


def _all_kept(numbers: Any) -> bool:
    return all(numbers[asked] for asked in REQUIREMENTS)


def verdict(figures: Figures) -> ClaimResult:
    """Sinusoids keep all and use every feature; each naive way lacks something."""
    lacks = {
        name: [asked.replace("_", " ") for asked in REQUIREMENTS if not numbers[asked]]
        + ([f"uses {numbers['features_in_use']:.0%} of the features"] if numbers["features_in_use"] < 1 else [])
        for name, numbers in figures.items()
    }
    holds = not lacks["sinusoidal"] and all(lacks[name] for name in NAIVE)
    whole = ", ".join(name for name, lack in lacks.items() if not lack)
    told = "; ".join(f"{name}: {', '.join(lack)}" for name, lack in lacks.items() if lack)
    return ClaimResult(holds, f"All four kept, with every feature in use: {whole}. What the others lack: {told}.")


def draw(figures: Figures, axes: Any) -> None:
    """Schemes × requirements: filled where it is kept."""
    columns = [*REQUIREMENTS, "features_in_use"]
    values = torch.tensor([[numbers[column] for column in columns] for numbers in figures.values()])
    axes.imshow(values.numpy(), cmap="Blues", vmin=0, vmax=2.5, aspect="auto")
    axes.set_xticks(range(len(columns)), [column.replace("_", " ") for column in columns])
    axes.set_yticks(range(len(figures)), list(figures))
    for row, numbers in enumerate(values.tolist()):
        for column, value in enumerate(numbers):
            axes.text(column, row, {0: "no", 1: "yes"}.get(value, f"{value:.0%}"), ha="center", va="center")
