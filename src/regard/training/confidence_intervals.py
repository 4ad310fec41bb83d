"""Standard errors, bootstrap intervals and paired tests of metrics, from per-example statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from regard.core.example_statistics import ExampleStatistics

NUM_RESAMPLES = 1_000  # of an interval
NUM_QUICK_RESAMPLES = 100  # of the standard error during training
NUM_EXCHANGES = 1_000  # of a paired test
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A bootstrap interval of a metric (Efron 1979, percentile method)."""

    low: float
    high: float
    standard_error: float
    examples: int
    confidence: float = CONFIDENCE

    def to_dict(self) -> dict[str, float]:
        """Return plain values for JSON."""
        return asdict(self)


def _affordable(statistics: ExampleStatistics, count: int) -> int:
    """Return a fifth of the count if rows are objects, whose metric takes long, such as average precision."""
    return count // 5 if statistics.rows.dtype == object else count


def resample(statistics: ExampleStatistics, *, count: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the metric on `count` samples of the examples, drawn with replacement."""
    random, size = np.random.default_rng(seed), len(statistics.rows)
    count = _affordable(statistics, count)
    return np.array([statistics.aggregate(statistics.rows[random.integers(0, size, size)]) for _ in range(count)])


def standard_error(statistics: ExampleStatistics | None) -> float:
    """Return the standard error of a metric; 0 without statistics, or with fewer than two examples."""
    if statistics is None or len(statistics.rows) < 2:
        return 0.0
    error = float(resample(statistics, count=NUM_QUICK_RESAMPLES).std(ddof=1))
    return error if np.isfinite(error) else 0.0


def interval(statistics: ExampleStatistics) -> Interval:
    """Return the interval that holds the metric of CONFIDENCE of all resamples."""
    values = resample(statistics, count=NUM_RESAMPLES)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return Interval(float(low), float(high), float(values.std(ddof=1)), statistics.num_examples)


def intervals(collected: Mapping[str, ExampleStatistics]) -> dict[str, Interval]:
    """Return the interval of each metric that has statistics of at least two examples."""
    return {name: interval(statistics) for name, statistics in collected.items() if len(statistics.rows) > 1}


def paired_p_value(first: ExampleStatistics, second: ExampleStatistics, *, seed: int = 0) -> float:
    """Return the p-value of the difference of two runs on the same examples, by approximate randomization.

    Under the null hypothesis the rows of an example can be exchanged between the runs (Noreen 1989). The p-value is the
    share of random exchanges whose difference is at least the observed one, the observed one included.
    """
    if first.rows.shape != second.rows.shape:
        raise ValueError(f"statistics of {len(first.rows)} and {len(second.rows)} examples cannot be paired")
    observed, random = abs(first.value - second.value), np.random.default_rng(seed)
    extreme, count = 0, _affordable(first, NUM_EXCHANGES)
    for _ in range(count):
        exchanged = random.random(len(first.rows)) < 0.5
        shape = (-1,) + (1,) * (first.rows.ndim - 1)
        left = np.where(exchanged.reshape(shape), second.rows, first.rows)
        right = np.where(exchanged.reshape(shape), first.rows, second.rows)
        extreme += abs(first.aggregate(left) - first.aggregate(right)) >= observed - 1e-12
    return (extreme + 1) / (count + 1)
