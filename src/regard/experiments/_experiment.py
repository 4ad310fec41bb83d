"""What an experiment is made of: cells that are measured one by one, figures, and a verdict computed from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

Figures = Mapping[str, Mapping[str, float]]  # the name of a cell -> its numbers
MORE = "--minutes 15 has more seeds and trains longer"
STOPPED = "stopped; what was measured is kept, and the same command goes on from there"


class Cell(NamedTuple):
    """A part of an experiment."""

    name: str  # "sinusoidal", "lstm, seed 2"
    measure: Callable[[], dict[str, float]]


class ClaimResult(NamedTuple):
    """Whether a claim holds here, and a paragraph that says by how much, over how many seeds."""

    holds: bool | None  # None: models have learned too little to judge by them, or seeds differ more than models do
    text: str

    @property
    def label(self) -> str:
        """In words, for those who read no further."""
        return "not decided" if self.holds is None else "holds" if self.holds else "does not hold"


class Budget(NamedTuple):
    """What an effort buys."""

    steps: int  # of each training
    seeds: int  # with which each is repeated


def budget(effort: float, steps: int) -> Budget:
    """Two trainings of so many steps, a quick look -> what another effort buys: more seeds, and more steps of each."""
    seeds = 1 if effort < 0.5 else 2 if effort < 4 else 4
    return Budget(max(2, round(2 * steps * effort / seeds)), seeds)


def scaled_count(effort: float, count: int, least: int) -> int:
    """How much data is used: all of it from a quick look on, and little to try whether an experiment runs."""
    return max(least, round(count * min(1.0, effort)))


def cells_per_seed(name: str, seeds: int, measure: Callable[[int], dict[str, float]]) -> list[Cell]:
    """The same cell with each seed, counted from 1."""
    return [Cell(f"{name}, seed {seed}", partial(measure, seed)) for seed in range(1, seeds + 1)]


def describe_seeds(figures: Figures) -> str:
    """How many seeds there are, in words for a verdict."""
    count = max((int(name.rpartition(", seed ")[2]) for name in figures if ", seed " in name), default=1)
    return "One seed" if count == 1 else f"Means of {count} seeds"


def seed_values(figures: Figures, figure: str) -> dict[str, list[float]]:
    """The name of a cell without its seed -> the values of one figure, one a seed."""
    found: dict[str, list[float]] = {}
    for name, numbers in figures.items():
        if figure in numbers:
            found.setdefault(name.partition(", seed ")[0], []).append(numbers[figure])
    return found


def means(figures: Figures, figure: str) -> dict[str, float]:
    """The name of a cell without its seed -> the mean of one figure over the seeds."""
    return {name: fmean(values) for name, values in seed_values(figures, figure).items()}


def is_separated(low: Sequence[float], high: Sequence[float]) -> bool:
    """Values of seeds: is the lowest of `high` above the highest of `low`? A difference that seeds make too is none."""
    return max(low) < min(high)


def is_inconclusive(first: Sequence[float], second: Sequence[float], clear: float) -> bool:
    """Values of seeds: do both lie among each other, and further apart than a `clear` difference? Then seeds make more
    of a difference than what is compared, and nothing is decided."""
    among = not is_separated(first, second) and not is_separated(second, first)
    return among and max(max(values) - min(values) for values in (first, second)) > clear


def format_range(*several: Sequence[float], form: str = ".0%") -> str:
    """The lowest and the highest value of the seeds of each, in words for a verdict."""
    return " and ".join(f"{min(values):{form}} to {max(values):{form}}" for values in several)


def exponent(xs: Iterable[float], ys: Iterable[float]) -> float:
    """The p of y ≈ c·x^p, by least squares of the logarithms."""
    logs = [(math.log(x), math.log(y)) for x, y in zip(xs, ys, strict=True)]
    x, y = (fmean(pair[axis] for pair in logs) for axis in (0, 1))
    slope = sum((a - x) * (b - y) for a, b in logs) / sum((a - x) ** 2 for a, _ in logs)
    return slope


def plot_lines(axes: Any, named: Mapping[str, Mapping[float, float]], *, x: str, y: str) -> None:
    """Curves by name, each x -> y, on axes with titles and a legend."""
    for name, points in named.items():
        axes.plot(list(points), list(points.values()), marker="o", markersize=3, label=name)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    legend_above(axes, columns=2 if max(map(len, named)) > 18 or len(named) == 4 else 3)


def format_values(values: Mapping[str, float], form: str = ".1f") -> str:
    """Names with their values, for a sentence."""
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())


def plot_bars(axes: Any, named: Mapping[str, Mapping[str, Sequence[float]]], *, y: str) -> None:
    """Groups of bars: what a colour stands for -> the name of a group -> values of its seeds. The bar is their mean,
    the line on it reaches from the lowest to the highest."""
    groups = list(dict.fromkeys(group for values in named.values() for group in values))
    width = 0.8 / len(named)
    for number, (name, values) in enumerate(named.items()):
        there = [group for group in groups if group in values]
        places = [groups.index(group) + (number - (len(named) - 1) / 2) * width for group in there]
        heights = [fmean(values[group]) for group in there]
        reach = [
            [height - min(values[group]) for height, group in zip(heights, there, strict=True)],
            [max(values[group]) - height for height, group in zip(heights, there, strict=True)],
        ]
        axes.bar(places, heights, width=0.9 * width, yerr=reach, capsize=2, ecolor="#555555", label=name)
    crowded = sum(map(len, groups)) > 75
    axes.set_xticks(range(len(groups)), groups, rotation=20 if crowded else 0, ha="right" if crowded else "center")
    axes.set_ylabel(y)
    if len(named) > 1:
        legend_above(axes, columns=2 if len(named) == 4 else 3)


def legend_above(axes: Any, *, columns: int) -> None:
    """A legend that covers nothing."""
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2)
