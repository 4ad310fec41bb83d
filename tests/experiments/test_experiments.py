"""Every experiment is measured with little effort, plotted and judged by its figures; experiments can be resumed."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import pytest

from regard.core.errors import DataError, FileError
from regard.core.registry import find, registered_names
from regard.data.text import labelled_sources, pair_sources
from regard.experiments._experiment import Cell, budget, exponent, scaled_count
from regard.experiments._runner import FIGURES, PAGE, PLOT, read_stored, run_experiment
from regard.experiments._verdict import ClaimResult, describe_seeds, means, seed_values
from regard.training.stop_signals import Interrupted

PACKAGE = "regard.experiments"
SMALL_EFFORT = 0.01


def check_progress(done, count, current):
    assert 0 <= done <= count


@pytest.fixture(autouse=True)
def small_validation_data(monkeypatch):
    """Use few sentences to score models that are trained for two steps."""
    for module in (pair_sources, labelled_sources):
        monkeypatch.setattr(module, "HELD_OUT_EXAMPLES", 10)


@pytest.mark.parametrize("name", registered_names(PACKAGE))
def test_an_experiment_is_measured_plotted_and_judged(name, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    if name == "relative":
        pytest.importorskip("music21", reason="the extra music is not installed")
    experiment = find(PACKAGE, name)
    if hasattr(experiment, "LEARNING_RATES"):  # two are enough to choose from
        monkeypatch.setattr(experiment, "LEARNING_RATES", experiment.LEARNING_RATES[:2])
    verdict = run_experiment(experiment, name, tmp_path, effort=SMALL_EFFORT, on_progress=check_progress)
    figures = read_stored(tmp_path / FIGURES).figures
    assert list(figures) == [cell.name for cell in experiment.cells(SMALL_EFFORT)]
    assert all(math.isfinite(value) for cell_figures in figures.values() for value in cell_figures.values())
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert experiment.CLAIM in page and verdict.text in page and verdict.rule in page and verdict.reason in page
    assert page.count("\n| ") == len(figures) + 2
    assert (tmp_path / PLOT).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", registered_names(PACKAGE))
def test_more_effort_includes_the_cells_of_a_quick_run(name):
    quick, full = (find(PACKAGE, name).cells(effort) for effort in (1, 10))
    assert len({cell.name for cell in full}) == len(full)
    assert {cell.name for cell in quick} <= {cell.name for cell in full}


def counting_experiment(measured):
    """An experiment of three cells that records what is measured."""
    cells = [Cell(f"cell {n}", lambda n=n: measured.append(n) or {"figure": float(n)}) for n in range(3)]
    return SimpleNamespace(
        CLAIM="A claim.",
        REFERENCE="nowhere",
        cells=lambda effort: cells,
        verdict=lambda figures: ClaimResult(True, f"{len(figures)} cells."),
        draw=lambda figures, axes: axes.plot([0, 1]),
    )


def test_a_stopped_experiment_is_resumed(tmp_path):
    measured = []
    experiment = counting_experiment(measured)
    run_experiment(experiment, "any", tmp_path, effort=1, on_progress=check_progress)
    stored = json.loads((tmp_path / FIGURES).read_text())
    del stored["figures"]["cell 1"]
    (tmp_path / FIGURES).write_text(json.dumps(stored))
    verdict = run_experiment(experiment, "any", tmp_path, effort=1, on_progress=check_progress)
    assert measured == [0, 1, 2, 1]
    assert verdict == ClaimResult(True, "3 cells.")
    assert set(read_stored(tmp_path / FIGURES).seconds) == {"cell 0", "cell 1", "cell 2"}


def test_figures_of_another_effort_are_not_used(tmp_path):
    measured = []
    for effort in (1, 2):
        run_experiment(counting_experiment(measured), "any", tmp_path, effort=effort, on_progress=check_progress)
    assert measured == [0, 1, 2, 0, 1, 2]
    assert read_stored(tmp_path / FIGURES).effort == 2


def test_figures_of_another_effort_are_stored_separately(tmp_path):
    measured = []
    for effort in (10, 1, 10, 1):
        run_experiment(counting_experiment(measured), "any", tmp_path, effort=effort, on_progress=check_progress)
    assert measured == [0, 1, 2, 0, 1, 2]
    assert read_stored(tmp_path / FIGURES).effort == 1
    assert read_stored(tmp_path / "figures-10.json").effort == 10


def test_an_interrupt_reports_that_measurements_are_stored(tmp_path):
    def stop():
        raise KeyboardInterrupt

    measured = []
    experiment = counting_experiment(measured)
    cells = experiment.cells(1)
    experiment.cells = lambda effort: [cells[0], Cell("cell 1", stop), cells[2]]
    with pytest.raises(
        Interrupted, match="stopped; the measurements so far are stored, and the same command resumes"
    ) as interrupted:
        run_experiment(experiment, "any", tmp_path, effort=1, on_progress=check_progress)
    assert interrupted.value.code == 130
    assert measured == [0] and list(read_stored(tmp_path / FIGURES).figures) == ["cell 0"]


def test_an_unwritable_folder_is_reported_before_anything_is_measured(tmp_path):
    measured = []
    (tmp_path / "taken").write_text("")
    with pytest.raises(FileError, match=r"taken/any/figures.json: could not be written \(Not a directory\)"):
        run_experiment(
            counting_experiment(measured), "any", tmp_path / "taken" / "any", effort=1, on_progress=check_progress
        )
    assert measured == []


def test_an_invalid_file_is_reported(tmp_path):
    (tmp_path / FIGURES).write_text("[]")
    with pytest.raises(DataError, match=r"figures.json: not the file of an experiment; delete it, or choose"):
        read_stored(tmp_path / FIGURES)


def test_the_exponent_of_a_power_law():
    assert exponent([1, 2, 4, 8], [3 * x**1.5 for x in (1, 2, 4, 8)]) == pytest.approx(1.5)


def test_seeds_are_grouped():
    figures = {"a, seed 1": {"x": 1.0}, "a, seed 2": {"x": 3.0}, "b": {"y": 1.0}}
    assert seed_values(figures, "x") == {"a": [1.0, 3.0]}
    assert means(figures, "x") == {"a": 2.0}
    assert describe_seeds(figures) == "Means of 2 seeds"
    assert describe_seeds({"b": {}}) == describe_seeds({"a, seed 101": {}}) == "One seed"
    assert describe_seeds({"a, seed 101": {}, "a, seed 102": {}, "b, seed 101": {}}) == "Means of 2 seeds"


def test_effort_determines_steps_and_seeds():
    assert budget(1, 100) == (100, 2)
    assert budget(10, 100) == (500, 4)
    assert budget(0.001, 100) == (2, 1)
    assert [scaled_count(effort, 1000, 20) for effort in (0.001, 0.5, 1, 10)] == [20, 500, 1000, 1000]
