"""Every experiment there is: measured with little effort, gone on with, and judged by its figures alone."""

from __future__ import annotations

import json
import math

import pytest

from regard.core.errors import DataError
from regard.core.registry import find, names
from regard.experiments._conduct import FIGURES, PAGE, PLOT, conduct, read
from regard.experiments._experiment import exponent, means, over_seeds

PACKAGE = "regard.experiments"
LITTLE = 0.01


def quiet(done, count, current):
    assert 0 <= done <= count


@pytest.mark.parametrize("name", names(PACKAGE))
def test_it_is_measured_and_gone_on_with(name, tmp_path):
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    experiment = find(PACKAGE, name)
    verdict = conduct(experiment, name, tmp_path, effort=LITTLE, tell=quiet)
    figures = read(tmp_path / FIGURES, LITTLE)
    assert list(figures) == [cell.name for cell in experiment.cells(LITTLE)]
    assert all(math.isfinite(value) for numbers in figures.values() for value in numbers.values())
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert experiment.CLAIM in page and verdict.text in page
    assert page.count("\n| ") == len(figures) + 2
    assert (tmp_path / PLOT).read_bytes().startswith(b"\x89PNG")
    kept = dict(list(figures.items())[:-1])  # stopped before its last cell
    (tmp_path / FIGURES).write_text(json.dumps({"effort": LITTLE, "figures": kept}))
    begun = []
    monitored = [cell._replace(measure=lambda cell=cell: begun.append(cell.name) or cell.measure()) for cell in
                 experiment.cells(LITTLE)]  # fmt: skip

    class Watched:
        CLAIM, WHERE = experiment.CLAIM, experiment.WHERE
        cells = staticmethod(lambda effort: monitored)
        verdict, draw = staticmethod(experiment.verdict), staticmethod(experiment.draw)

    conduct(Watched, name, tmp_path, effort=LITTLE, tell=quiet)
    assert begun == [list(figures)[-1]]


def test_figures_of_another_effort_are_not_mixed_in(tmp_path):
    (tmp_path / FIGURES).write_text(json.dumps({"effort": 2, "figures": {"a": {"b": 1.0}}}))
    assert read(tmp_path / FIGURES, 1) == {}
    assert read(tmp_path / FIGURES, 2) == {"a": {"b": 1.0}}


def test_another_file_in_its_place_is_named(tmp_path):
    (tmp_path / FIGURES).write_text("[]")
    with pytest.raises(DataError, match=r"figures.json: it is not the file of an experiment; delete it, or choose"):
        read(tmp_path / FIGURES, 1)


def test_an_exponent_is_that_of_a_power():
    assert exponent([1, 2, 4, 8], [3 * x**1.5 for x in (1, 2, 4, 8)]) == pytest.approx(1.5)


def test_seeds_are_put_together():
    figures = {"a, seed 1": {"x": 1.0}, "a, seed 2": {"x": 3.0}, "b": {"y": 1.0}}
    assert over_seeds(figures, "x") == {"a": [1.0, 3.0]}
    assert means(figures, "x") == {"a": 2.0}
