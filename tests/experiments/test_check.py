"""`regard experiment NAME --check`: the experiment is repeated with twice the budget and other seeds."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from run_cli import call

from regard.core.registry import find, registered_names
from regard.experiments._check import ADDED_TO_SEEDS, BUDGET_FACTOR, check_cells
from regard.experiments._experiment import Cell, budget, cells_per_seed
from regard.experiments._runner import CHECK, PAGE, read_check, read_stored, run_check, run_experiment
from regard.experiments._verdict import decide, difference, seed_values


def ignore_progress(done, count, current):
    pass


def experiment_of(measured, gains):
    """An experiment whose model a leads by `gains` of the step budget."""

    def measure(kind, steps, seed):
        measured.append((kind, steps, seed))
        return {"F1": gains[steps] if kind == "a" else 0.0}

    def cells(effort):
        steps, seeds = budget(effort, 100)
        trained = [
            cell
            for kind in "ab"
            for cell in cells_per_seed(kind, seeds, lambda seed, kind=kind: measure(kind, steps, seed))
        ]
        return [*trained, Cell("oracle", lambda: {"F1": 1.0})]

    def verdict(figures):
        f1 = seed_values(figures, "F1")
        return decide("Text.", {"a is above b": min(f1["a"]) > max(f1["b"])}, [difference("F1", f1["a"], f1["b"])])

    return SimpleNamespace(
        CLAIM="A claim.",
        REFERENCE="nowhere",
        cells=cells,
        verdict=verdict,
        draw=lambda figures, axes: axes.plot([0, 1]),
    )


def run_both(experiment, out):
    run_experiment(experiment, "any", out, effort=1, on_progress=ignore_progress)
    return run_check(experiment, "any", out, effort=1, on_progress=ignore_progress)


def test_a_check_has_twice_the_budget_and_other_seeds(tmp_path):
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    measured = []
    check = run_both(experiment_of(measured, {100: 0.5, 200: 0.6}), tmp_path)
    assert measured[:4] == [("a", 100, 1), ("a", 100, 2), ("b", 100, 1), ("b", 100, 2)]
    assert measured[4:] == [("a", 200, 101), ("a", 200, 102), ("b", 200, 101), ("b", 200, 102)]
    assert check.stays and check.label == "stays"
    assert list(read_stored(tmp_path / CHECK).figures) == [
        "a, seed 101",
        "a, seed 102",
        "b, seed 101",
        "b, seed 102",
        "oracle",
    ]
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert "**Check.** With 2 times the budget and other seeds the verdict stays." in page
    assert "F1: +0.60" in page and "F1: +0.50" in page


def test_a_verdict_that_changes_is_reported(tmp_path):
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    check = run_both(experiment_of([], {100: 0.5, 200: -0.5}), tmp_path)
    assert not check.stays
    assert check.text.startswith(
        "With 2 times the budget and other seeds the verdict changes to does not hold. Not met: a is above b."
    )


def test_a_check_of_other_figures_is_not_shown(tmp_path):
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    experiment = experiment_of([], {100: 0.5, 200: 0.6, 300: 0.7})
    run_both(experiment, tmp_path)
    run_experiment(experiment, "any", tmp_path, effort=3, on_progress=ignore_progress)
    assert read_check(experiment, tmp_path) is None
    assert "**Check.**" not in (tmp_path / PAGE).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", registered_names("regard.experiments"))
def test_every_seed_of_a_check_is_another_one(name):
    experiment = find("regard.experiments", name)
    names = [cell.name for cell in check_cells(experiment, 1)]
    seeds = {int(cell.rpartition(", seed ")[2]) for cell in names if ", seed " in cell}
    assert all(seed > ADDED_TO_SEEDS for seed in seeds)
    assert len(names) == len(experiment.cells(BUDGET_FACTOR))


def test_the_command_prints_the_check(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    call("experiment", "position-requirements", "--check", "--out", tmp_path)
    printed = " ".join(capsys.readouterr().out.split())
    assert "Check: With 2 times the budget and other seeds the verdict stays." in printed and "check.json" in printed
    call("experiment", "--out", tmp_path, "--page", tmp_path / "claims.md")
    assert "| holds | stays |" in (tmp_path / "claims.md").read_text(encoding="utf-8")
