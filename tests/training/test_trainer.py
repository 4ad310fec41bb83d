"""The training loop: signals, full disks, damaged checkpoints, callbacks, budgets and batches."""

from __future__ import annotations

import errno
import signal

import pytest
from toys import summing

from regard.core.errors import CheckpointError, DataError, FileError
from regard.training import log, tensor_files
from regard.training import trainer as trainers
from regard.training.console import SilentConsole
from regard.training.run_folder import RunFolder
from regard.training.stop_signals import Interrupted
from regard.training.train import resume, train
from regard.training.trainer import no_callback

SETTINGS = ["training.evaluation.every=4", "training.files.save_every=3"]


class Signals(SilentConsole):
    """Sends this process a signal after `steps` steps."""

    def __init__(self, signum, steps):
        self.number, self.steps = signum, steps

    def set_progress(self, done):
        self.steps -= 1
        if self.steps == 0:
            signal.raise_signal(self.number)


def outcome(path):
    return (path / "model.safetensors").read_bytes(), (path / "log.jsonl").read_bytes()


@pytest.fixture(autouse=True)
def default_sighup():
    """Do not ignore SIGHUP, even if the tests run under nohup; restore its handler afterwards."""
    before = signal.getsignal(signal.SIGHUP)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("signum", "steps"), [(signal.SIGINT, 1), (signal.SIGTERM, 4), (signal.SIGHUP, 7), (signal.SIGINT, 10)]
)
def test_a_signal_saves_the_run_and_prints_how_to_continue(toy, tmp_path, silent, signum, steps):
    before = signal.getsignal(signum)
    with pytest.raises(Interrupted) as stopped:
        train(toy(*SETTINGS), tmp_path / "run", console=Signals(signum, steps))
    assert signal.getsignal(signum) is before
    assert f"stopped by {signum.name} at step {steps + 1}, everything is saved" in str(stopped.value)
    assert f"continue with: regard train --resume {tmp_path / 'run'}" in stopped.value.for_command_line()
    assert f"continue with: regard.resume({str(tmp_path / 'run')!r})" in str(stopped.value)
    assert RunFolder(tmp_path / "run").checkpoint(steps + 1).exists()
    resume(tmp_path / "run", console=silent)
    train(toy(*SETTINGS), tmp_path / "whole", console=silent)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_a_full_disk_ends_in_words_with_the_last_checkpoint_intact(toy, tmp_path, silent, monkeypatch):
    write, clock = tensor_files._bytes, iter(range(60))

    def until_full(tensor):
        if next(clock, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(tensor)

    with monkeypatch.context() as patch:
        patch.setattr(tensor_files, "_bytes", until_full)
        with pytest.raises(
            FileError, match=r"could not be written .*No space left on device.* the previous content is unchanged"
        ):
            train(toy(*SETTINGS), tmp_path / "run", console=silent)
    folder = RunFolder(tmp_path / "run")
    assert not list(folder.state.glob(".*.part"))
    for path in folder.checkpoints():
        tensor_files.read_tensors(path)
    resume(tmp_path / "run", console=silent)
    train(toy(*SETTINGS), tmp_path / "whole", console=silent)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_serves(toy, tmp_path, silent, death):
    with pytest.raises(death.Killed):
        train(toy(*SETTINGS), tmp_path / "run", console=death.Killer(10))
    *_, older, newest = RunFolder(tmp_path / "run").checkpoints()
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.raises(
        CheckpointError, match=f"{newest.name}: damaged .* or move it away to continue from the previous checkpoint"
    ):
        resume(tmp_path / "run", console=silent)
    newest.unlink()
    resume(tmp_path / "run", console=silent)
    train(toy(*SETTINGS), tmp_path / "whole", console=silent)
    assert older.name != newest.name and outcome(tmp_path / "run") == outcome(tmp_path / "whole")


@pytest.mark.parametrize(
    ("settings", "end"),
    [
        (["training.steps=3", "training.epochs=9"], {"step": 3, "end": "steps"}),
        (["training.steps=99", "training.epochs=2"], {"step": 10, "end": "epochs"}),
    ],
)
def test_the_first_budget_that_is_used_up_ends_the_run(toy, tmp_path, silent, settings, end):
    train(toy(*settings), tmp_path / "run", console=silent)
    assert log.read_rows(tmp_path / "run" / "log.jsonl")[-1] == end


def test_minutes_are_counted_over_resumes(toy, tmp_path, silent, monkeypatch):
    """Use a clock that advances by a second at every call."""
    seconds = iter(range(10**9))
    monkeypatch.setattr(trainers.time, "monotonic", lambda: float(next(seconds)))
    settings = ["training.steps=100000", "training.minutes=3", "training.evaluation.every=100000"]
    train(toy(*settings), tmp_path / "whole", console=silent)
    complete = log.read_rows(tmp_path / "whole" / "log.jsonl")[-1]
    assert complete["end"] == "minutes" and 10 < complete["step"] < 180
    with pytest.raises(Interrupted):
        train(toy(*settings), tmp_path / "run", console=Signals(signal.SIGINT, 10))
    resume(tmp_path / "run", console=silent)
    resumed = log.read_rows(tmp_path / "run" / "log.jsonl")[-1]
    assert resumed["end"] == "minutes" and abs(resumed["step"] - complete["step"]) <= 3


def test_every_step_takes_the_batch_of_the_plan(toy, tmp_path, silent, monkeypatch):
    calls = []
    loss = summing.Summing.loss
    monkeypatch.setattr(
        summing.Summing, "loss", lambda *args: (calls.append(sorted(args[2].numbers.tolist())), loss(*args))[1]
    )
    train(toy("training.evaluation.every=100"), tmp_path / "run", console=silent)
    task = summing.build(summing.Config())
    planned = [sorted(batch.tolist()) for epoch in range(3) for batch in task.epoch_batches(epoch, 1)]
    assert len(calls[0]) == 1 and calls[1:13] == planned[:12]  # one example is computed before the run starts


def test_the_loss_falls(toy, tmp_path, silent):
    train(
        toy("training.steps=150", "training.files.log_every=15", "model.preset=wide"), tmp_path / "run", console=silent
    )
    losses = [row["loss"] for row in log.read_rows(tmp_path / "run" / "log.jsonl") if "loss" in row]
    assert losses[-1] < 0.6 * losses[0]


def test_the_parts_of_the_loss_are_in_every_row_and_add_up(toy, tmp_path, silent):
    train(toy("training.evaluation.every=100"), tmp_path / "run", console=silent)
    rows = [row for row in log.read_rows(tmp_path / "run" / "log.jsonl") if "loss" in row]
    assert [list(row) for row in rows] == [["step", "epoch", "loss", "first", "later", "lr", "norm"]] * 4
    assert all(row["first"] + row["later"] == pytest.approx(row["loss"], rel=1e-6) for row in rows)


def test_without_batches_there_is_nothing_to_train_on(toy, tmp_path, silent):
    with pytest.raises(DataError, match="the training data has no batches; provide more data or a larger batch size"):
        train(toy("data.examples=0"), tmp_path / "run", console=silent)


def test_cosine_ends_with_the_run(toy, tmp_path, silent):
    settings = [
        "training.steps=none",
        "training.epochs=2",
        "training.schedule.name=cosine",
        "training.files.log_every=1",
    ]
    train(toy(*settings), tmp_path / "run", console=silent)
    rates = [row["lr"] for row in log.read_rows(tmp_path / "run" / "log.jsonl") if "lr" in row]
    assert rates[-1] == pytest.approx(0) and max(rates) == pytest.approx(0.01)


@pytest.mark.parametrize(
    "settings", [["training.hardware.compile=true"], ["training.hardware.checkpoint_activations=true"]]
)
def test_options_of_the_hardware_do_not_change_the_run(toy, tmp_path, silent, settings, monkeypatch):
    monkeypatch.setattr("torch.compile", lambda work, dynamic: work)  # compilation is tested in test_device.py
    train(toy(*SETTINGS), tmp_path / "plain", console=silent)
    train(toy(*SETTINGS, *settings), tmp_path / "other", console=silent)
    plain, second = (log.read_rows(tmp_path / name / "log.jsonl") for name in ("plain", "other"))
    assert plain[1:] == second[1:] and plain[0].keys() == {"step", "run"}


def test_a_callback_is_called_after_every_step_and_does_not_change_the_run(toy, silent, tmp_path):
    calls = []

    def watch(recipe, task, *, model, run, step, last):
        model.eval()
        calls.append((step, run, last))
        model.train()

    train(toy(), tmp_path / "watched", console=silent, step_callback=watch)
    train(toy(), tmp_path / "alone", console=silent)
    assert calls == [(step, tmp_path / "watched", step == 12) for step in range(1, 13)]
    assert RunFolder(tmp_path / "watched").model.read_bytes() == RunFolder(tmp_path / "alone").model.read_bytes()


def test_a_resumed_run_calls_the_callback_from_its_step(toy, silent, tmp_path):
    steps = []
    train(toy("training.steps=5"), tmp_path / "run", console=silent)

    def watch(recipe, task, *, model, run, step, last):
        steps.append(step)

    resume(tmp_path / "run", ["training.steps=8"], console=silent, step_callback=watch)
    assert steps == [6, 7, 8]


def test_the_default_callback_does_nothing(tmp_path):
    assert no_callback(None, None, model=None, run=tmp_path, step=1, last=True) is None
