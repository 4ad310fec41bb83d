"""Standard errors, intervals and paired tests, against formulas and direct computation."""

from __future__ import annotations

import numpy as np
import pytest

from regard.core.example_statistics import ExampleStatistics, collect_statistics, record_mean, record_statistics
from regard.training import confidence_intervals


def mean_of(values: np.ndarray) -> ExampleStatistics:
    with collect_statistics() as collected:
        record_mean("accuracy", values)
    return collected["accuracy"]


def test_the_standard_error_of_a_mean_is_that_of_the_formula() -> None:
    values = np.random.default_rng(1).random(400) < 0.3
    expected = values.std(ddof=1) / np.sqrt(len(values))
    assert confidence_intervals.standard_error(mean_of(values)) == pytest.approx(expected, rel=0.2)
    assert (
        confidence_intervals.standard_error(None) == 0.0
        and confidence_intervals.standard_error(mean_of(np.ones(1))) == 0.0
    )


def test_an_interval_holds_the_metric_and_shrinks_with_the_examples() -> None:
    random = np.random.default_rng(2)
    small, large = (confidence_intervals.interval(mean_of(random.random(count) < 0.5)) for count in (50, 5_000))
    assert small.low < 0.5 < small.high and large.low < 0.5 < large.high
    assert large.high - large.low < 0.2 * (small.high - small.low) and (small.examples, large.examples) == (50, 5_000)


def test_the_interval_covers_the_truth_about_as_often_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confidence_intervals, "NUM_RESAMPLES", 200)
    covered = 0
    for seed in range(60):
        interval = confidence_intervals.interval(mean_of(np.random.default_rng(seed).random(100) < 0.4))
        covered += interval.low <= 0.4 <= interval.high
    assert 51 <= covered <= 60


def test_equal_runs_have_p_1_and_different_runs_a_small_p() -> None:
    random = np.random.default_rng(3)
    first = random.random(300) < 0.5
    better = first | (random.random(300) < 0.3)
    assert confidence_intervals.paired_p_value(mean_of(first), mean_of(first)) == 1.0
    assert confidence_intervals.paired_p_value(mean_of(first), mean_of(better)) < 0.01


def test_p_values_of_runs_without_a_difference_are_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confidence_intervals, "NUM_EXCHANGES", 99)
    random = np.random.default_rng(4)
    values = [
        confidence_intervals.paired_p_value(mean_of(random.normal(size=40)), mean_of(random.normal(size=40)), seed=seed)
        for seed in range(100)
    ]
    assert sum(value <= 0.1 for value in values) <= 20 and sum(value > 0.5 for value in values) >= 30


def test_runs_on_other_examples_cannot_be_paired() -> None:
    with pytest.raises(ValueError, match="statistics of 3 and 4 examples cannot be paired"):
        confidence_intervals.paired_p_value(mean_of(np.ones(3)), mean_of(np.ones(4)))


def test_nothing_is_recorded_without_a_collector() -> None:
    record_statistics("bleu", [[1, 2]], lambda rows: 0.0)
    with collect_statistics() as collected:
        pass
    assert collected == {} and confidence_intervals.intervals(collected) == {}
