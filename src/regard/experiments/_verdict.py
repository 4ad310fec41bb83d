"""Verdicts: conditions that decide a claim, effect sizes with intervals, and the plateau rule."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from types import ModuleType
from typing import NamedTuple

from regard.experiments._plateau import LATE_GAIN, describe_rule, why_unfinished

Figures = Mapping[str, Mapping[str, float]]  # name of a cell -> its measured values
MORE = "--minutes 15 uses more seeds and trains longer"
STUDENT_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45)  # two-sided 95 % quantiles of Student's t for 1 to 6 degrees
NORMAL_95 = 1.96


class Effect(NamedTuple):
    """Size of an effect with an interval."""

    name: str  # "F1, bidirectional minus causal"
    value: float
    low: float
    high: float
    form: str = "+.2f"

    def __str__(self) -> str:
        value, low, high = (format(number, self.form) for number in (self.value, self.low, self.high))
        interval = f"{low} to {high}" if self.low != self.high else "no interval: one value"
        return f"{self.name}: {value} ({interval})"


class ClaimResult(NamedTuple):
    """Result of a claim, a paragraph with the measured values, and why the result is what it is."""

    holds: bool | None  # None: the models have learned too little, or seeds differ more than models
    text: str
    rule: str = ""  # the rule that decides, in one sentence
    reason: str = ""  # why the rule gives this result, in one sentence
    effects: tuple[Effect, ...] = ()

    @property
    def label(self) -> str:
        """The result in words."""
        return "not decided" if self.holds is None else "holds" if self.holds else "does not hold"


def decide(text: str, conditions: Mapping[str, bool], effects: Sequence[Effect], *, undecided: str = "") -> ClaimResult:
    """Return the result of a claim that holds if all conditions are met; `undecided` is a reason not to decide."""
    failed = [condition for condition, met in conditions.items() if not met]
    *others, last = conditions
    rule = f"The claim holds if {', '.join(others)}{' and ' if others else ''}{last}."
    reason = undecided or (f"Not met: {'; '.join(failed)}." if failed else "Every condition of the rule is met.")
    return ClaimResult(None if undecided else not failed, text, rule, reason, tuple(effects))


def judge(experiment: ModuleType, figures: Figures) -> ClaimResult:
    """Return the verdict of an experiment; it is not decided while a trained model is still improving.

    An experiment that trains names its validation curve in CURVE, and its cells have the figure `LATE_GAIN`.
    """
    result: ClaimResult = experiment.verdict(figures)
    curve: str | None = getattr(experiment, "CURVE", None)
    if curve is None:
        return result
    result = result._replace(rule=f"{result.rule} {describe_rule(curve)}".strip())
    unfinished = why_unfinished(means(figures, LATE_GAIN), longer=MORE)
    if not unfinished:
        return result
    reason = f"{result.reason} {unfinished}" if result.holds is None else unfinished
    return result._replace(holds=None, reason=reason)


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


def describe_seeds(figures: Figures) -> str:
    """Describe the number of seeds for the text of a verdict."""
    count = len({name.rpartition(", seed ")[2] for name in figures if ", seed " in name})
    return "One seed" if count <= 1 else f"Means of {count} seeds"


def difference(name: str, first: Sequence[float], second: Sequence[float], *, form: str = "+.2f") -> Effect:
    """Return the mean of `first` minus that of `second`; the interval spans the differences of all pairs of seeds."""
    return Effect(name, fmean(first) - fmean(second), min(first) - max(second), max(first) - min(second), form)


def ratio(name: str, first: Sequence[float], second: Sequence[float], *, form: str = ".2f") -> Effect:
    """Return the mean of `first` divided by that of `second`; the interval spans the ratios of all pairs of seeds."""
    low, middle, high = (
        numerator / max(denominator, 1e-12)
        for numerator, denominator in (
            (min(first), max(second)),
            (fmean(first), fmean(second)),
            (max(first), min(second)),
        )
    )
    return Effect(name, middle, low, high, form)


def power_law(name: str, xs: Iterable[float], ys: Iterable[float]) -> Effect:
    """Return the p of y ≈ c·x^p by least squares of the logarithms, with a 95 % interval of the fit."""
    logs = [(math.log(x), math.log(y)) for x, y in zip(xs, ys, strict=True)]
    x, y = (fmean(pair[axis] for pair in logs) for axis in (0, 1))
    spread = sum((a - x) ** 2 for a, _ in logs)
    slope = sum((a - x) * (b - y) for a, b in logs) / spread
    degrees = len(logs) - 2
    if degrees < 1:
        return Effect(name, slope, slope, slope, ".2f")
    residuals = sum((b - y - slope * (a - x)) ** 2 for a, b in logs)
    quantile = STUDENT_95[degrees - 1] if degrees <= len(STUDENT_95) else NORMAL_95
    margin = quantile * math.sqrt(residuals / degrees / spread)
    return Effect(name, slope, slope - margin, slope + margin, ".2f")


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


def format_values(values: Mapping[str, float], form: str = ".1f") -> str:
    """Format names with their values for a sentence."""
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())
