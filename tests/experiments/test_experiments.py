"""Every experiment there is: measured with little effort, drawn, and judged by its figures alone; gone on with."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import pytest

from regard.core.errors import DataError, FileError
from regard.core.registry import find, registered_names
from regard.data.text import labelled_sources, pair_sources
from regard.experiments._experiment import (
    Cell,
    ClaimResult,
    budget,
    describe_seeds,
    exponent,
    means,
    scaled_count,
    seed_values,
)
from regard.experiments._runner import FIGURES, PAGE, PLOT, read_stored, run_experiment
from regard.training.signals import Interrupted

PACKAGE = "regard.experiments"
LITTLE = 0.01


def quiet(done, count, current):
    assert 0 <= done <= count


@pytest.fixture(autouse=True)
def few_held_out(monkeypatch):
    """Few sentences are translated, labelled and tagged to score a model that has learnt for two steps."""
    for module in (pair_sources, labelled_sources):
        monkeypatch.setattr(module, "HELD_OUT", 10)


@pytest.mark.parametrize("name", registered_names(PACKAGE))
def test_it_is_measured_drawn_and_judged(name, tmp_path):
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    if name == "relative":
        pytest.importorskip("music21", reason="the extra music is not installed")
    experiment = find(PACKAGE, name)
    verdict = run_experiment(experiment, name, tmp_path, effort=LITTLE, on_progress=quiet)
    figures = read_stored(tmp_path / FIGURES).figures
    assert list(figures) == [cell.name for cell in experiment.cells(LITTLE)]
    assert all(math.isfinite(value) for numbers in figures.values() for value in numbers.values())
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert experiment.CLAIM in page and verdict.text in page
    assert page.count("\n| ") == len(figures) + 2
    assert (tmp_path / PLOT).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", registered_names(PACKAGE))
def test_more_effort_repeats_the_quick_look_and_does_more(name):
    quick, full = (find(PACKAGE, name).cells(effort) for effort in (1, 10))
    assert len({cell.name for cell in full}) == len(full)
    assert {cell.name for cell in quick} <= {cell.name for cell in full}


def counting(begun):
    """An experiment of three cells that notes what is measured."""
    cells = [Cell(f"cell {n}", lambda n=n: begun.append(n) or {"figure": float(n)}) for n in range(3)]
    return SimpleNamespace(
        CLAIM="A claim.",
        WHERE="nowhere",
        cells=lambda effort: cells,
        verdict=lambda figures: ClaimResult(True, f"{len(figures)} cells."),
        draw=lambda figures, axes: axes.plot([0, 1]),
    )


def test_it_goes_on_where_it_was_stopped(tmp_path):
    begun = []
    experiment = counting(begun)
    run_experiment(experiment, "any", tmp_path, effort=1, on_progress=quiet)
    stored = json.loads((tmp_path / FIGURES).read_text())
    del stored["figures"]["cell 1"]
    (tmp_path / FIGURES).write_text(json.dumps(stored))
    verdict = run_experiment(experiment, "any", tmp_path, effort=1, on_progress=quiet)
    assert begun == [0, 1, 2, 1]
    assert verdict == ClaimResult(True, "3 cells.")
    assert set(read_stored(tmp_path / FIGURES).seconds) == {"cell 0", "cell 1", "cell 2"}


def test_figures_of_another_effort_are_not_mixed_in(tmp_path):
    begun = []
    for effort in (1, 2):
        run_experiment(counting(begun), "any", tmp_path, effort=effort, on_progress=quiet)
    assert begun == [0, 1, 2, 0, 1, 2]
    assert read_stored(tmp_path / FIGURES).effort == 2


def test_figures_of_another_effort_are_laid_aside_and_taken_up_again(tmp_path):
    begun = []
    for effort in (10, 1, 10, 1):
        run_experiment(counting(begun), "any", tmp_path, effort=effort, on_progress=quiet)
    assert begun == [0, 1, 2, 0, 1, 2]
    assert read_stored(tmp_path / FIGURES).effort == 1
    assert read_stored(tmp_path / "figures-10.json").effort == 10


def test_a_stop_by_hand_says_that_what_was_measured_is_kept(tmp_path):
    def stop():
        raise KeyboardInterrupt

    begun = []
    experiment = counting(begun)
    cells = experiment.cells(1)
    experiment.cells = lambda effort: [cells[0], Cell("cell 1", stop), cells[2]]
    with pytest.raises(
        Interrupted, match="stopped; what was measured is kept, and the same command goes on"
    ) as stopped:
        run_experiment(experiment, "any", tmp_path, effort=1, on_progress=quiet)
    assert stopped.value.code == 130
    assert begun == [0] and list(read_stored(tmp_path / FIGURES).figures) == ["cell 0"]


def test_a_place_that_cannot_be_written_to_is_named_before_anything_is_measured(tmp_path):
    begun = []
    (tmp_path / "taken").write_text("")
    with pytest.raises(FileError, match=r"taken/any/figures.json: could not be written \(Not a directory\)"):
        run_experiment(counting(begun), "any", tmp_path / "taken" / "any", effort=1, on_progress=quiet)
    assert begun == []


def test_another_file_in_its_place_is_named(tmp_path):
    (tmp_path / FIGURES).write_text("[]")
    with pytest.raises(DataError, match=r"figures.json: it is not the file of an experiment; delete it, or choose"):
        read_stored(tmp_path / FIGURES)


def test_an_exponent_is_that_of_a_power():
    assert exponent([1, 2, 4, 8], [3 * x**1.5 for x in (1, 2, 4, 8)]) == pytest.approx(1.5)


def test_seeds_are_put_together():
    figures = {"a, seed 1": {"x": 1.0}, "a, seed 2": {"x": 3.0}, "b": {"y": 1.0}}
    assert seed_values(figures, "x") == {"a": [1.0, 3.0]}
    assert means(figures, "x") == {"a": 2.0}
    assert describe_seeds(figures) == "Means of 2 seeds"
    assert describe_seeds({"b": {}}) == "One seed"


def test_effort_buys_steps_and_seeds():
    assert budget(1, 100) == (100, 2)
    assert budget(10, 100) == (500, 4)
    assert budget(0.001, 100) == (2, 1)
    assert [scaled_count(effort, 1000, 20) for effort in (0.001, 0.5, 1, 10)] == [20, 500, 1000, 1000]
