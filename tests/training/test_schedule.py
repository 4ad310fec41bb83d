"""Schedules: the published curves, as pure functions."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from regard.training.config import Schedule
from regard.training.schedule import constant, cosine, inverse_sqrt, noam, schedule


def test_noam_is_the_formula_of_the_paper():
    for step in (1, 399, 400, 401, 9000):
        assert noam(step, warmup=400) == pytest.approx(min(step**-0.5, step * 400**-1.5))


def test_inverse_sqrt_is_noam_with_its_peak_at_one():
    peak = noam(400, warmup=400)
    for step in (1, 200, 400, 5000):
        assert inverse_sqrt(step, warmup=400) == pytest.approx(noam(step, warmup=400) / peak)


def test_constant_rises_and_stays():
    assert [constant(step, warmup=4) for step in (1, 2, 4, 5, 100)] == [0.25, 0.5, 1, 1, 1]


def test_cosine_rises_falls_and_ends_at_its_floor():
    curve = [cosine(step, warmup=10, total=110, floor=0.1) for step in range(1, 131)]
    assert curve[9] == 1 and curve[109] == pytest.approx(0.1) and curve[129] == pytest.approx(0.1)
    assert curve[59] == pytest.approx(0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi / 2)))
    assert all(later <= earlier for earlier, later in pairwise(curve[9:]))


@pytest.mark.parametrize("name", ["constant", "noam", "inverse_sqrt", "cosine"])
def test_each_is_found_by_name_and_rises_through_the_warmup(name):
    factor = schedule(Schedule(name=name, warmup=20), 100)
    rise = [factor(step) for step in range(1, 21)]
    assert rise == sorted(rise) and rise[0] > 0
    assert factor(40) <= factor(20)
