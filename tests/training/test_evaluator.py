"""Validation during training: the best weights are stored, early stopping, weight averaging."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import ConfigError
from regard.core.example_statistics import record_mean
from regard.core.protocols import TargetMetric
from regard.training import log, tensor_files
from regard.training import recipe as recipes
from regard.training.load_run import load_run
from regard.training.run_folder import RunFolder
from regard.training.train import train

ACCURACY = TargetMetric("accuracy", higher_is_better=True)


def script(monkeypatch, scores, goal=ACCURACY):
    """Make evaluations return these scores in order, independent of the model."""
    from toys import summing

    remaining = iter(scores)
    monkeypatch.setattr(summing.Summing, "target_metric", goal)
    monkeypatch.setattr(summing.Summing, "evaluate", lambda *_: dict(next(remaining, {})))


def rows(path):
    return [row for row in log.read_rows(path / "log.jsonl") if "valid" in row]


def test_the_best_weights_are_kept_not_the_last(toy, tmp_path, silent, monkeypatch):
    script(monkeypatch, [{"accuracy": value} for value in (0.1, 0.7, 0.7, 0.3)])
    train(toy("training.evaluation.every=3"), tmp_path / "run", console=silent)
    assert [row["best"] for row in rows(tmp_path / "run")] == [True, True, False, False]
    facts = tensor_files.read_metadata(tmp_path / "run" / "model.safetensors")
    assert (facts["step"], facts["metrics"]) == (6, {"accuracy": 0.7})


@pytest.mark.parametrize("name", ["loss", "distance", "nothing_the_trainer_has_heard_of"])
def test_what_better_means_is_said_by_the_task_not_guessed_from_the_name(toy, tmp_path, silent, monkeypatch, name):
    scores = [{name: value} for value in (3.0, 2.0, 2.5, float("nan"))]
    for more, best in ((False, [True, True, False, False]), (True, [True, False, False, False])):
        script(monkeypatch, scores, TargetMetric(name, higher_is_better=more))
        train(toy("training.evaluation.every=3"), tmp_path / str(more), console=silent)
        assert [row["best"] for row in rows(tmp_path / str(more))] == best
        step = 6 if not more else 3
        assert tensor_files.read_metadata(tmp_path / str(more) / "model.safetensors")["step"] == step


def test_a_task_whose_score_falls_keeps_its_lowest(tmp_path, silent):
    settings = ["training.steps=40", "training.evaluation.every=4", "training.optimizer.lr=0.1"]
    run = train(recipes.read("toys.falling", settings=settings), tmp_path / "run", console=silent)
    scores = {row["step"]: row["valid"]["score"] for row in rows(run)}
    lowest = min(scores, key=scores.get)
    facts = tensor_files.read_metadata(run / "model.safetensors")
    assert (facts["step"], facts["metrics"]) == (lowest, {"score": scores[lowest]})
    assert lowest > 4 and load_run(run).recipe.decoding is None


def test_patience_counts_evaluations_without_a_new_best(toy, tmp_path, silent, monkeypatch):
    script(monkeypatch, [{"accuracy": value} for value in (0.5, 0.4, 0.6, 0.6, 0.5, 0.9)])
    train(toy("training.evaluation.every=1", "training.evaluation.patience=2"), tmp_path / "run", console=silent)
    assert log.read_rows(tmp_path / "run" / "log.jsonl")[-1] == {"step": 5, "end": "patience"}


def test_what_decides_is_the_free_running_score_not_the_loss(toy, tmp_path, silent, monkeypatch):
    """Early stopping and selection use the task's target metric, not the teacher-forced loss."""
    script(monkeypatch, [{"accuracy": a, "loss": b} for a, b in ((0.5, 1.0), (0.6, 2.0), (0.4, 0.1), (0.3, 0.01))])
    settings = ["training.evaluation.every=2", "training.evaluation.patience=2"]
    train(toy(*settings), tmp_path / "run", console=silent)
    assert tensor_files.read_metadata(tmp_path / "run" / "model.safetensors")["step"] == 4
    assert log.read_rows(tmp_path / "run" / "log.jsonl")[-1]["end"] == "patience"


def test_below_the_noise_floor_the_loss_decides_and_the_log_says_so(toy, tmp_path, silent, monkeypatch):
    from toys import summing

    script(monkeypatch, [{"accuracy": a, "loss": b} for a, b in ((0.04, 7.2), (0.01, 5.5), (0.03, 6.0), (0.7, 9.0))])
    monkeypatch.setattr(summing.Summing, "noise_floor", {"accuracy": 0.5})
    train(toy("training.evaluation.every=3"), tmp_path / "run", console=silent)
    assert [(row["best"], row["rule"]) for row in rows(tmp_path / "run")] == [
        (True, "first evaluation"),
        (True, "loss (accuracy below 0.5)"),
        (False, "loss (accuracy below 0.5)"),
        (True, "accuracy"),
    ]


def test_within_its_standard_error_the_metric_does_not_decide(toy, tmp_path, silent, monkeypatch):
    """60 of 100 against 57 of 100 is noise: the standard error is 5 of 100."""
    from toys import summing

    remaining = iter([(57, 2.0), (60, 3.0), (59, 1.0), (90, 4.0)])

    def evaluate(*_):
        correct, loss = next(remaining)
        record_mean("accuracy", [1.0] * correct + [0.0] * (100 - correct))
        return {"accuracy": correct / 100, "loss": loss}

    monkeypatch.setattr(summing.Summing, "target_metric", ACCURACY)
    monkeypatch.setattr(summing.Summing, "evaluate", evaluate)
    train(toy("training.evaluation.every=3"), tmp_path / "run", console=silent)
    assert [row["best"] for row in rows(tmp_path / "run")] == [True, False, True, True]
    assert "within its standard error" in rows(tmp_path / "run")[1]["rule"]


def test_evaluation_sees_the_model_as_it_will_be_used(toy, tmp_path, silent, monkeypatch):
    from toys import summing

    calls = []

    def evaluate(self, model, split, decoding):
        calls.append((model.training, torch.is_grad_enabled(), split, decoding))
        return {"accuracy": 0.0}

    monkeypatch.setattr(summing.Summing, "evaluate", evaluate)
    recipe = toy("decoding=greedy")
    train(recipe, tmp_path / "run", console=silent)
    assert set(calls) == {(False, False, "valid", recipe.decoding)}


def test_without_anything_to_evaluate_the_last_weights_are_the_model(toy, tmp_path, silent, monkeypatch):
    script(monkeypatch, [])
    train(toy("training.evaluation.every=5"), tmp_path / "run", console=silent)
    assert tensor_files.read_metadata(tmp_path / "run" / "model.safetensors")["step"] == 12
    assert load_run(tmp_path / "run")


def test_a_score_the_evaluation_does_not_have_is_named(toy, tmp_path, silent, monkeypatch):
    script(monkeypatch, [{"loss": 1.0}])
    with pytest.raises(ConfigError, match="metric=accuracy: not computed by the task; choose one of loss"):
        train(toy(), tmp_path / "run", console=silent)


@pytest.mark.parametrize("score", [0.9, 0.1])
def test_the_mean_of_the_last_weights_is_kept_if_it_is_better(toy, tmp_path, silent, monkeypatch, score):
    script(monkeypatch, [{"accuracy": value} for value in (0.2, 0.3, 0.4, 0.5, score)])
    recipe = toy("training.evaluation.every=3", "training.evaluation.average_last=2")
    train(recipe, tmp_path / "run", console=silent)
    last = rows(tmp_path / "run")[-1]
    assert last["average"] == 2 and last["best"] == (score > 0.5)
    folder = RunFolder(tmp_path / "run")
    stored = tensor_files.read_tensors(folder.model)[0]["embedding.weight"]
    snapshots = [tensor_files.read_tensors(folder.snapshot(step))[0]["embedding.weight"] for step in (9, 12)]
    expected = sum(tensor.double() for tensor in snapshots) / 2 if score > 0.5 else snapshots[-1]
    torch.testing.assert_close(stored, expected.float())
    state = tensor_files.read_tensors(folder.checkpoints()[-1])[0]
    assert torch.equal(state["model.embedding.weight"], snapshots[-1])  # training continues from the last weights


def test_equal_scores_are_decided_by_the_loss(toy, tmp_path, silent, monkeypatch):
    """While the score is still 0 the loss already decreases: the last of these is the best, not the first."""
    losses = (3.0, 2.5, float("nan"), 2.0)
    script(monkeypatch, [{"accuracy": 0.0, "loss": loss} for loss in losses])
    train(toy("training.evaluation.every=3", "training.evaluation.patience=9"), tmp_path / "run", console=silent)
    assert [row["best"] for row in rows(tmp_path / "run")] == [True, True, False, True]
    assert tensor_files.read_metadata(tmp_path / "run" / "model.safetensors")["step"] == 12


def test_another_score_may_choose(toy, tmp_path, silent, monkeypatch):
    scores = [{"accuracy": a, "loss": b} for a, b in ((0.5, 3.0), (0.9, 4.0), (0.1, 1.0), (0.2, 2.0))]
    for settings, step in (
        ((), 6),
        (("training.evaluation.metric=loss", "training.evaluation.higher_is_better=false"), 9),
        (("training.evaluation.metric=loss", "training.evaluation.higher_is_better=true"), 6),
    ):
        script(monkeypatch, scores)
        run = train(toy("training.evaluation.every=3", *settings), tmp_path / f"{len(settings)}{step}", console=silent)
        assert tensor_files.read_metadata(run / "model.safetensors")["step"] == step
    script(monkeypatch, scores)
    monkeypatch.setattr("toys.summing.Summing.higher_is_better", {"loss": False})
    run = train(
        toy("training.evaluation.every=3", "training.evaluation.metric=loss"), tmp_path / "said", console=silent
    )
    assert tensor_files.read_metadata(run / "model.safetensors")["step"] == 9
    assert "selected by `loss`: lower is better" in (run / "README.md").read_text(encoding="utf-8")
    with pytest.raises(ConfigError, match=r"metric=colour: the task does not define its direction; set"):
        train(toy("training.evaluation.metric=colour"), tmp_path / "run", console=silent)
