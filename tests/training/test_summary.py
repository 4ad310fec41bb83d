"""Messages of a run: before the first step, during training, and at the end."""

from __future__ import annotations

import io

import pytest
from rich.console import Console as RichConsole
from toys import summing

from regard.core.progress import track
from regard.training import console, log, summary
from regard.training import recipe as recipes
from regard.training import trainer as trainers
from regard.training.config import Config, Evaluation
from regard.training.console import LineConsole, ProgressBarConsole
from regard.training.step import Diverged
from regard.training.train import resume, train


@pytest.fixture
def printed(toy, tmp_path, monkeypatch):
    """Return a function: settings -> printed lines of a run."""
    monkeypatch.setattr(summing.Summing, "data_summary", lambda self: ["40 sums; the first is 1 2 3"])

    def run(*settings):
        stream = io.StringIO()
        train(toy(*settings), tmp_path / "run", console=LineConsole(stream))
        return stream.getvalue().splitlines()

    return run


def test_data_model_machine_and_length_are_said_first(printed):
    lines = printed("training.epochs=9", "training.minutes=2.5", "training.evaluation.patience=7")
    assert lines[:6] == [
        "40 sums; the first is 1 2 3",
        "an epoch has 5 steps and 40 examples; evaluated after each epoch",
        "toys.gated with 950 parameters",
        "the training loss has dropout 0.3, the validation loss has none",
        "on cpu, 1 thread, float32",
        "training ends after 12 steps or 9 epochs or 2.5 minutes or 7 evaluations without a better one, whichever "
        "comes first",
    ]
    assert lines[-1] == "stopped after step 12: all 12 steps are done (training.steps)"


def test_in_what_the_two_losses_differ_is_said():
    def printed(dropout, smoothing):
        recipe = recipes.read("translation", settings=[f"model.dropout={dropout}", f"data.smoothing={smoothing}"])
        return list(summary._loss_differences(recipe))

    both = "the training loss has dropout 0.2 and label smoothing 0.1, the validation loss has neither"
    assert printed(0.2, 0.1) == [both]
    assert printed(0.0, 0.1) == ["the training loss has label smoothing 0.1, the validation loss has none"]
    assert printed(0.0, 0.0) == []


def test_the_rate_is_of_what_the_task_counts(printed, monkeypatch):
    monkeypatch.setattr(summing.Summing, "throughput_unit", "sums")
    rows = [line for line in printed("training.files.log_every=4") if "lr" in line]
    assert rows and all("  sums/s " in row and "tokens" not in row for row in rows)


def test_epochs_are_counted_from_one_on_every_line(printed, tmp_path):
    printed("training.files.log_every=1")
    rows = [row for row in log.read_rows(tmp_path / "run" / "log.jsonl") if "epoch" in row]
    assert [row["epoch"] for row in rows if "loss" in row] == [1] * 5 + [2] * 5 + [3] * 2
    assert [(row["step"], row["epoch"]) for row in rows if "valid" in row] == [(5, 1), (10, 2), (12, 3)]


@pytest.mark.parametrize(
    ("reason", "config", "words"),
    [
        ("steps", Config(steps=5), "all 5 steps are done (training.steps)"),
        ("epochs", Config(epochs=2), "all 2 epochs are done (training.epochs)"),
        ("minutes", Config(minutes=1.5), "the 1.5 minutes are over (training.minutes)"),
        ("patience", Config(evaluation=Evaluation(patience=3)), "no better for 3 evaluations (training.evaluation"),
        ("averaging step 3", Config(), "averaging step 3"),
    ],
)
def test_why_it_ended_in_words(reason, config, words):
    assert summary.end_reason(reason, config).startswith(words)


def test_how_long_it_will_take_is_said_once(printed, monkeypatch):
    seconds = iter(range(10**9))
    monkeypatch.setattr(trainers.time, "monotonic", lambda: float(next(seconds)))
    lines = printed()
    assert sum("remaining, estimated from 3 steps, without evaluation" in line for line in lines) == 1


def test_a_bar_has_words_from_the_first_step_and_shows_how_far_an_evaluation_is(toy, tmp_path, monkeypatch):
    plain = summing.Summing.evaluate

    def evaluate(self, model, split, decoding):
        for _ in track(range(4), 4):
            pass
        return plain(self, model, split, decoding)

    monkeypatch.setattr(summing.Summing, "evaluate", evaluate)
    texts = []

    class Noted(ProgressBarConsole):
        def set_status(self, text):
            texts.append(text)
            super().set_status(text)

    bar = Noted(RichConsole(file=io.StringIO(), force_terminal=True, width=100))
    train(toy("training.files.log_every=4"), tmp_path / "run", console=bar)
    assert texts[0].startswith("step 1  epoch 1  loss ")
    assert "evaluating" in texts and "evaluating  75%" in texts
    assert any(text.startswith("evaluating  50% (the last one took 0:0") for text in texts)
    assert texts[texts.index("evaluating  100%") + 1].startswith("step 6  epoch 2  loss ")


def test_a_long_evaluation_says_so_in_plain_lines(monkeypatch):
    seconds = iter([0.0, 10.0, 40.0, 50.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(seconds))
    stream = io.StringIO()
    lines = LineConsole(stream)
    for share in (0.0, 0.25, 0.5, 0.75):
        lines.show_evaluation(share, None)
    assert stream.getvalue() == "evaluating  50% after 0:40\n"


def test_a_log_that_was_lost_is_set_aside_on_request(toy, tmp_path, silent):
    train(toy(), tmp_path / "run", console=silent)
    path = tmp_path / "run" / "log.jsonl"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    with pytest.raises(
        Exception, match=r"\(its line endings were changed\); restore it from a copy, or start a new log"
    ):
        resume(tmp_path / "run", ["training.steps=14"], console=silent)
    stream = io.StringIO()
    resume(tmp_path / "run", ["training.steps=14"], console=LineConsole(stream), new_log=True)
    assert "starting a new log; the old log is log-1.jsonl" in stream.getvalue()
    assert [row["step"] for row in log.read_rows(path)] == [12, 14, 14]
    assert b"\r\n" in (tmp_path / "run" / "log-1.jsonl").read_bytes()
    resume(tmp_path / "run", ["training.steps=15"], console=silent)  # the new log is valid
    path.unlink()
    stream = io.StringIO()
    resume(tmp_path / "run", ["training.steps=16"], console=LineConsole(stream), new_log=True)
    assert "starting a new log; the old log is missing" in stream.getvalue()


def test_batches_that_are_all_bad_are_no_success(toy, tmp_path, silent):
    settings = ["data.examples=8", "data.poison=3", "training.optimizer.on_nonfinite=skip", "training.steps=12"]
    with pytest.raises(Diverged, match=r"none of the last 2 batches, a complete epoch|is not finite at step 1"):
        train(toy(*settings), tmp_path / "run", console=silent)


def test_a_short_run_of_bad_batches_is_no_success(toy, tmp_path, silent, monkeypatch):
    plain = summing.Summing.loss
    monkeypatch.setattr(summing.Summing, "loss", lambda *args: bad(plain(*args)))
    settings = ["training.optimizer.on_nonfinite=skip", "training.files.log_every=1"]
    with pytest.raises(Diverged, match="the loss of none of the 3 batches was finite, so nothing was learned; lower"):
        train(toy(*settings, "training.steps=3"), tmp_path / "short", console=silent)
    assert all(row["loss"] is None for row in log.read_rows(tmp_path / "short" / "log.jsonl") if "loss" in row)
    with pytest.raises(Diverged, match=r"none of the last 5 batches, a complete epoch, had a finite loss and"):
        train(toy(*settings, "training.steps=99"), tmp_path / "long", console=silent)


def bad(loss):
    return loss._replace(total=loss.total * float("nan"))
