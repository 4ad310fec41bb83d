"""Building blocks of experiments: cells, seeds and training budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from regard.experiments._verdict import power_law

STOPPED = "stopped; the measurements so far are stored, and the same command resumes from there"
Measure = Callable[[int], dict[str, float]]  # seed -> measured values


class Cell(NamedTuple):
    """One measurement of an experiment."""

    name: str  # "sinusoidal", "lstm, seed 2"
    measure: Callable[[], dict[str, float]]
    repeat: Callable[[int], Cell] | None = None  # number added to the seed -> the same cell; none: it has no seed


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


def seeded_cell(name: str, measure: Measure, seed: int) -> Cell:
    """Return a cell that can be repeated with another seed."""
    repeat = partial(_with_larger_seed, name, measure, seed)
    return Cell(f"{name}, seed {seed}", partial(measure, seed), repeat)


def _with_larger_seed(name: str, measure: Measure, seed: int, added: int) -> Cell:
    return seeded_cell(name, measure, seed + added)


def cells_per_seed(name: str, seeds: int, measure: Measure) -> list[Cell]:
    """Repeat a cell with several seeds, from 1."""
    return [seeded_cell(name, measure, seed) for seed in range(1, seeds + 1)]


def exponent(xs: Iterable[float], ys: Iterable[float]) -> float:
    """Return the p of y ≈ c·x^p, by least squares of the logarithms."""
    return power_law("", xs, ys).value
