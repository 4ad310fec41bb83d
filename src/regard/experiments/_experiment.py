"""Building blocks of experiments: cells, figures, results of claims, and plots."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

Figures = Mapping[str, Mapping[str, float]]  # name of a cell -> its measured values
MORE = "--minutes 15 uses more seeds and trains longer"
STOPPED = "stopped; the measurements so far are stored, and the same command resumes from there"


class Cell(NamedTuple):
    """One measurement of an experiment."""

    name: str  # "sinusoidal", "lstm, seed 2"
    measure: Callable[[], dict[str, float]]


class ClaimResult(NamedTuple):
    """Result of a claim, and a paragraph with the measured values."""

    holds: bool | None  # None: the models have learned too little, or seeds differ more than models
    text: str

    @property
    def label(self) -> str:
        """The result in words."""
        return "not decided" if self.holds is None else "holds" if self.holds else "does not hold"


class Budget(NamedTuple):
    """Training budget of an experiment."""

    steps: int  # per training
    seeds: int  # repetitions of each training


def budget(effort: float, steps: int) -> Budget:
    """Return seeds and steps for an effort; effort 1 has two seeds of `steps` steps."""
    seeds = 1 if effort < 0.5 else 2 if effort < 4 else 4
    return Budget(max(2, round(2 * steps * effort / seeds)), seeds)


def scaled_count(effort: float, count: int, minimum: int) -> int:
    """Return the amount of data: `count` from effort 1 on, less for a test run, but at least `minimum`."""
    return max(minimum, round(count * min(1.0, effort)))


def cells_per_seed(name: str, seeds: int, measure: Callable[[int], dict[str, float]]) -> list[Cell]:
    """Repeat a cell with several seeds, from 1."""
    return [Cell(f"{name}, seed {seed}", partial(measure, seed)) for seed in range(1, seeds + 1)]


def describe_seeds(figures: Figures) -> str:
    """Describe the number of seeds for the text of a verdict."""
    count = max((int(name.rpartition(", seed ")[2]) for name in figures if ", seed " in name), default=1)
    return "One seed" if count == 1 else f"Means of {count} seeds"


def seed_values(figures: Figures, figure: str) -> dict[str, list[float]]:
    """Name of a cell without its seed -> the values of one figure, one per seed."""
    values: dict[str, list[float]] = {}
    for name, cell_figures in figures.items():
        if figure in cell_figures:
            values.setdefault(name.partition(", seed ")[0], []).append(cell_figures[figure])
    return values


def means(figures: Figures, figure: str) -> dict[str, float]:
    """Name of a cell without its seed -> the mean of one figure over the seeds."""
    return {name: fmean(values) for name, values in seed_values(figures, figure).items()}


def is_separated(low: Sequence[float], high: Sequence[float]) -> bool:
    """Return True if every value of `high` is above every value of `low`; smaller differences may be due to seeds."""
    return max(low) < min(high)


def is_inconclusive(first: Sequence[float], second: Sequence[float], clear: float) -> bool:
    """Return True if the values of two variants overlap and the seeds of one differ by more than `clear`.

    Seeds then differ more than the variants, and nothing can be concluded.
    """
    overlap = not is_separated(first, second) and not is_separated(second, first)
    return overlap and max(max(values) - min(values) for values in (first, second)) > clear


def format_range(*groups: Sequence[float], form: str = ".0%") -> str:
    """Format the lowest and the highest value of each group for the text of a verdict."""
    return " and ".join(f"{min(values):{form}} to {max(values):{form}}" for values in groups)


def exponent(xs: Iterable[float], ys: Iterable[float]) -> float:
    """Return the p of y ≈ c·x^p, by least squares of the logarithms."""
    logs = [(math.log(x), math.log(y)) for x, y in zip(xs, ys, strict=True)]
    x, y = (fmean(pair[axis] for pair in logs) for axis in (0, 1))
    slope = sum((a - x) * (b - y) for a, b in logs) / sum((a - x) ** 2 for a, _ in logs)
    return slope


def plot_lines(axes: Any, named: Mapping[str, Mapping[float, float]], *, x: str, y: str) -> None:
    """Plot curves {name: {x: y}} with axis labels and a legend."""
    for name, points in named.items():
        axes.plot(list(points), list(points.values()), marker="o", markersize=3, label=name)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    legend_above(axes, columns=2 if max(map(len, named)) > 18 or len(named) == 4 else 3)


def format_values(values: Mapping[str, float], form: str = ".1f") -> str:
    """Format names with their values for a sentence."""
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())


def plot_bars(axes: Any, named: Mapping[str, Mapping[str, Sequence[float]]], *, y: str) -> None:
    """Plot groups of bars {color: {group: values of the seeds}}; bars are means, error bars span the values."""
    groups = list(dict.fromkeys(group for values in named.values() for group in values))
    width = 0.8 / len(named)
    for index, (name, values) in enumerate(named.items()):
        present = [group for group in groups if group in values]
        xs = [groups.index(group) + (index - (len(named) - 1) / 2) * width for group in present]
        heights = [fmean(values[group]) for group in present]
        errors = [
            [height - min(values[group]) for height, group in zip(heights, present, strict=True)],
            [max(values[group]) - height for height, group in zip(heights, present, strict=True)],
        ]
        axes.bar(xs, heights, width=0.9 * width, yerr=errors, capsize=2, ecolor="#555555", label=name)
    crowded = sum(map(len, groups)) > 75
    axes.set_xticks(range(len(groups)), groups, rotation=20 if crowded else 0, ha="right" if crowded else "center")
    axes.set_ylabel(y)
    if len(named) > 1:
        legend_above(axes, columns=2 if len(named) == 4 else 3)


def legend_above(axes: Any, *, columns: int) -> None:
    """Add a legend above the axes."""
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2)
