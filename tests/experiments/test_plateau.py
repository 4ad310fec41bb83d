"""The plateau rule: models are compared only after their validation curves have flattened."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from regard.core.registry import find, registered_names
from regard.experiments._experiment import Cell
from regard.experiments._plateau import LATE_GAIN, MAX_LATE_GAIN, late_gain, why_unfinished
from regard.experiments._runner import FIGURES, read_stored, run_experiment
from regard.experiments._train_small import read_evaluations
from regard.experiments._verdict import ClaimResult, decide, judge

RISING = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
FLAT_AT_THE_END = [10.0, 40.0, 55.0, 59.5, 60.0, 60.0]


def ignore_progress(done, count, current):
    pass


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        (RISING, 0.4),
        (FLAT_AT_THE_END, 0.01),
        ([5.0, 5.0, 5.0], 0.0),  # it never improves
        ([60.0, 50.0, 40.0], 0.0),  # it only becomes worse
        ([10.0, 60.0, 40.0, 59.0, 58.0, 60.0], 0.0),  # no better than before
        ([10.0, 20.0], 1.0),  # too short to know
        ([10.0, float("nan"), 20.0], 1.0),
    ],
)
def test_the_late_gain_of_a_curve(curve, expected):
    assert late_gain(curve, higher_is_better=True) == pytest.approx(expected)
    assert late_gain([-value for value in curve], higher_is_better=False) == pytest.approx(expected)


def test_a_gain_that_does_not_matter_is_no_gain():
    curve = [0.90, 0.92, 0.925, 0.93, 0.935, 0.94]
    assert late_gain(curve, higher_is_better=True) > MAX_LATE_GAIN
    assert late_gain(curve, higher_is_better=True, resolution=0.02) == 0


def trained_experiment():
    return SimpleNamespace(
        CURVE="validation BLEU",
        verdict=lambda figures: decide("Text.", {"a is above b": True}, []),
    )


def trained_figures(late):
    gains = {"a, seed 1": 0.0, "b, seed 1": late}
    return {name: {"BLEU": 50.0, LATE_GAIN: gain} for name, gain in gains.items()}


def test_a_model_that_is_still_improving_is_not_judged():
    result = judge(trained_experiment(), trained_figures(0.4))
    assert result.label == "not decided"
    assert result.reason.startswith("Still improving in the last third of the training: b (40%); --minutes 15")
    assert judge(trained_experiment(), trained_figures(MAX_LATE_GAIN)).label == "holds"


def test_the_rule_is_printed_with_the_verdict():
    assert judge(trained_experiment(), trained_figures(0.0)).rule == (
        "The claim holds if a is above b. Models are compared only if the last third of each training adds at most 10%"
        " of the improvement of the validation BLEU."
    )


def test_figures_without_curves_are_not_judged():
    result = judge(trained_experiment(), {"a, seed 1": {"BLEU": 50.0}})
    assert result.holds is None and "without validation curves" in result.reason and "measures again" in result.reason


def test_an_undecided_verdict_keeps_its_reason():
    experiment = trained_experiment()
    experiment.verdict = lambda figures: decide("Text.", {"a is above b": True}, [], undecided="Seeds differ.")
    assert judge(experiment, trained_figures(0.4)).reason.startswith("Seeds differ. Still improving")
    assert judge(experiment, trained_figures(0.0)).reason == "Seeds differ."


def test_an_experiment_without_training_needs_no_curve():
    experiment = SimpleNamespace(verdict=lambda figures: ClaimResult(True, "Text."))
    assert judge(experiment, {"a": {"x": 1.0}}).holds
    assert why_unfinished({"a": 0.0}, longer="") == ""


def test_the_curves_are_read_from_the_log_with_the_scores_of_the_best_weights(tmp_path):
    rows = [
        {"step": 1, "loss": 3.0},
        {"step": 2, "valid": {"bleu": 10.0, "loss": 2.0, "chrf": None}, "best": True},
        {"step": 4, "valid": {"bleu": 30.0, "loss": 1.0}, "best": True},
        {"step": 6, "valid": {"bleu": 20.0, "loss": 1.5}, "best": False},
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    evaluations = read_evaluations(tmp_path / "log.jsonl")
    assert evaluations.scores == {"bleu": 30.0, "loss": 1.0}
    assert evaluations.curves == {"bleu": [10.0, 30.0, 20.0], "loss": [2.0, 1.0, 1.5]}


def test_every_experiment_with_a_training_budget_has_a_curve():
    for name in registered_names("regard.experiments"):
        experiment = find("regard.experiments", name)
        assert hasattr(experiment, "CURVE") == (hasattr(experiment, "STEPS") and name != "complexity"), name


def test_figures_without_curves_are_measured_again(tmp_path):
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    measured = []
    experiment = SimpleNamespace(
        CLAIM="A claim.",
        REFERENCE="nowhere",
        CURVE="validation loss",
        cells=lambda effort: [Cell("a", lambda: measured.append("a") or {"loss": 1.0, LATE_GAIN: 0.0})],
        verdict=lambda figures: decide("Text.", {"a is low": True}, []),
        draw=lambda figures, axes: axes.plot([0, 1]),
    )
    stored = '{"effort": 1, "figures": {"a": {"loss": 2.0}}, "seconds": {}, "machine": ""}'
    (tmp_path / FIGURES).write_text(stored)
    for _ in range(2):
        assert run_experiment(experiment, "any", tmp_path, effort=1, on_progress=ignore_progress).holds
    assert measured == ["a"]
    assert read_stored(tmp_path / FIGURES).figures == {"a": {"loss": 1.0, LATE_GAIN: 0.0}}
    assert read_stored(tmp_path / "figures-without-curves.json").figures == {"a": {"loss": 2.0}}
