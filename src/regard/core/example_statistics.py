"""Per-example statistics of metrics: tasks record them during an evaluation, from which errors and tests are computed.

A metric of a corpus, such as BLEU or F1, is a function of the rows of its examples. Resampled rows give its standard
error and interval; rows exchanged between two runs give a paired test. Without a collector recording is a no-op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[Any]  # (n …) one row per example
Aggregate = Callable[[Rows], float]


@dataclass(frozen=True)
class ExampleStatistics:
    """The rows of all examples of an evaluation, and the function that computes the metric from rows."""

    rows: Rows
    aggregate: Aggregate
    num_examples: int  # more than the rows if a row is a group of examples

    @property
    def value(self) -> float:
        """The metric on all examples."""
        return self.aggregate(self.rows)


Collected = dict[str, ExampleStatistics]  # metric -> statistics
_collector: ContextVar[Collected | None] = ContextVar("example_statistics", default=None)


@contextmanager
def collect_statistics() -> Iterator[Collected]:
    """Yield the statistics that tasks record inside the block, by metric."""
    collected: Collected = {}
    token = _collector.set(collected)
    try:
        yield collected
    finally:
        _collector.reset(token)


def is_collecting() -> bool:
    """Return True if statistics are collected, so that rows that take time are computed only then."""
    return _collector.get() is not None


def record_statistics(metric: str, rows: Any, aggregate: Aggregate, *, num_examples: int | None = None) -> None:
    """Record the rows (n …) of a metric; `aggregate` maps any selection of rows to the metric.

    `num_examples` is given if a row is a group of examples, such as a batch.
    """
    collected = _collector.get()
    if collected is not None:
        array = np.asarray(rows)
        collected[metric] = ExampleStatistics(array, aggregate, len(array) if num_examples is None else num_examples)


def record_mean(
    metric: str, values: Any, *, weights: Any = 1.0, scale: float = 1.0, num_examples: int | None = None
) -> None:
    """Record a metric that is `scale` times the sum of the values (n) of its examples, divided by that of weights."""
    sums = np.asarray(values, dtype=np.float64).reshape(-1)
    rows = np.stack([sums, np.broadcast_to(np.asarray(weights, dtype=np.float64), sums.shape)], axis=1)

    def mean(selected: Rows) -> float:
        total, count = selected.sum(axis=0)
        return float(scale * total / count) if count else 0.0

    record_statistics(metric, rows, mean, num_examples=num_examples)
