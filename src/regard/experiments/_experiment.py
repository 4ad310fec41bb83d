"""What an experiment is made of: cells that are measured one by one, figures, and a verdict computed from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from statistics import fmean
from typing import Any, NamedTuple

Figures = Mapping[str, Mapping[str, float]]  # the name of a cell -> its numbers


class Cell(NamedTuple):
    """A part of an experiment."""

    name: str  # "sinusoidal", "lstm, seed 2"
    measure: Callable[[], dict[str, float]]


class Verdict(NamedTuple):
    """Whether a claim holds here, and a paragraph that says by how much, over how many seeds."""

    holds: bool
    text: str


def seeded(name: str, seeds: int) -> list[str]:
    """Names of the same cell with each seed."""
    return [f"{name}, seed {seed}" for seed in range(1, seeds + 1)]


def over_seeds(figures: Figures, figure: str) -> dict[str, list[float]]:
    """The name of a cell without its seed -> the values of one figure, one a seed."""
    found: dict[str, list[float]] = {}
    for name, numbers in figures.items():
        if figure in numbers:
            found.setdefault(name.partition(", seed ")[0], []).append(numbers[figure])
    return found


def means(figures: Figures, figure: str) -> dict[str, float]:
    """The name of a cell without its seed -> the mean of one figure over the seeds."""
    return {name: fmean(values) for name, values in over_seeds(figures, figure).items()}


def exponent(xs: Iterable[float], ys: Iterable[float]) -> float:
    """The p of y ≈ c·x^p, by least squares of the logarithms."""
    logs = [(math.log(x), math.log(y)) for x, y in zip(xs, ys, strict=True)]
    x, y = (fmean(pair[axis] for pair in logs) for axis in (0, 1))
    slope = sum((a - x) * (b - y) for a, b in logs) / sum((a - x) ** 2 for a, _ in logs)
    return slope


def lines(axes: Any, named: Mapping[str, Mapping[float, float]], *, x: str, y: str) -> None:
    """Curves by name, each x -> y, on axes with titles and a legend."""
    for name, points in named.items():
        axes.plot(list(points), list(points.values()), marker="o", markersize=3, label=name)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.legend(frameon=False)
