"""Runs are trained, killed, resumed and loaded. A resumed run equals an uninterrupted one, byte for byte."""

from __future__ import annotations

import json
import os
from functools import partial

import pytest
import torch

from regard.core.checksummed_json import read_json, write_json
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.training import tensor_files
from regard.training.load_run import load_run
from regard.training.run_folder import RunFolder
from regard.training.train import resume, train

RICH = ["training.evaluation.every=4", "training.evaluation.average_last=2", "training.files.save_every=3"]


def outcome(path):
    """Return everything that must not depend on interruptions: weights, log and final state, except for the time."""
    folder = RunFolder(path)
    tensors, facts = tensor_files.read_tensors(folder.checkpoints()[-1])
    facts["progress"].pop("seconds")
    return folder.model.read_bytes(), folder.log.read_bytes(), facts, {k: t.tolist() for k, t in tensors.items()}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    from regard.training import recipe as recipes
    from regard.training.console import SilentConsole

    settings = [
        "training.files.log_every=5",
        "training.optimizer.lr=0.01",
        "training.schedule.warmup=4",
        "training.steps=12",
    ]
    recipe = recipes.read("toys.summing", settings=[*settings, *RICH])
    path = tmp_path_factory.mktemp("whole") / "run"
    train(recipe, path, console=SilentConsole())
    return recipe, outcome(path)


@pytest.mark.parametrize("steps", range(12))
def test_killed_after_any_step_and_resumed_is_never_killed(uninterrupted, tmp_path, death, silent, steps):
    recipe, expected = uninterrupted
    with pytest.raises(death.Killed):
        train(recipe, tmp_path / "run", console=death.Killer(steps))
    resume(tmp_path / "run", console=silent)
    assert outcome(tmp_path / "run") == expected


@pytest.mark.parametrize("kills", [(3, 1), (4, 0, 0, 2), (1, 1, 1), (5, 5)])
def test_killed_several_times_in_one_epoch(uninterrupted, tmp_path, death, silent, kills):
    recipe, expected = uninterrupted
    for count, steps in enumerate(kills):
        go = partial(resume, tmp_path / "run") if count else partial(train, recipe, tmp_path / "run")
        with pytest.raises(death.Killed):
            go(console=death.Killer(steps))
    resume(tmp_path / "run", console=silent)
    assert outcome(tmp_path / "run") == expected


def test_resuming_a_finished_run_changes_nothing(uninterrupted, tmp_path, silent):
    recipe, expected = uninterrupted
    train(recipe, tmp_path / "run", console=silent)
    resume(tmp_path / "run", console=silent)
    assert outcome(tmp_path / "run") == expected


def test_a_longer_budget_lets_a_finished_run_go_on(toy, tmp_path, silent):
    train(toy("training.steps=5", "training.evaluation.every=5"), tmp_path / "short", console=silent)
    resume(tmp_path / "short", ["training.steps=12"], console=silent)
    train(toy("training.evaluation.every=5"), tmp_path / "long", console=silent)
    short, long = (
        tensor_files.read_tensors(RunFolder(tmp_path / name).checkpoints()[-1])[0] for name in ("short", "long")
    )
    assert all(torch.equal(short[name], long[name]) for name in long)
    assert json.loads((tmp_path / "short" / "config.json").read_text())["training"]["steps"] == 12


def test_a_resumed_run_keeps_model_and_data(toy, tmp_path, silent):
    train(toy(), tmp_path / "run", console=silent)
    with pytest.raises(ConfigError, match=r"model\.dim=9: a trained run keeps its model; only training"):
        resume(tmp_path / "run", ["model.dim=9"])


def test_a_folder_holds_one_run(toy, tmp_path, silent):
    train(toy(), tmp_path / "run", console=silent)
    with pytest.raises(CheckpointError, match="already contains a run; choose another folder, or continue it"):
        train(toy(), tmp_path / "run", console=silent)


def test_other_data_is_not_mixed_into_a_run(toy, tmp_path, death, silent, monkeypatch):
    from toys import summing

    with pytest.raises(death.Killed):
        train(toy("training.files.save_every=1"), tmp_path / "run", console=death.Killer(3))
    plain = summing.Summing.collate
    monkeypatch.setattr(summing.Summing, "collate", lambda self, examples: plain(self, (examples + 1) % 40))
    with pytest.raises(DataError, match=r"has changed since .*run was started: train has other content; restore"):
        resume(tmp_path / "run", console=silent)


def test_loading_gives_the_best_weights_ready_to_use(toy, tmp_path, silent):
    path = train(toy("training.evaluation.every=3"), tmp_path / "run", console=silent)
    loaded = load_run(path)
    facts = tensor_files.read_metadata(path / "model.safetensors")
    with torch.no_grad():
        assert loaded.task.evaluate(loaded.model, "valid", None) == pytest.approx(facts["metrics"])
    assert (path, loaded.folder, loaded.recipe.decoding) == (tmp_path / "run", tmp_path / "run", None)
    assert not loaded.model.training
    assert loaded.model.readout.weight is loaded.model.embedding.weight


def test_a_missing_run_and_one_without_weights_are_named(toy, tmp_path, death):
    with pytest.raises(CheckpointError, match="nowhere: no such run folder"):
        load_run(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match=r"config\.json: no such file; is .*empty a run folder"):
        load_run(tmp_path / "empty")
    with pytest.raises(death.Killed):
        train(toy(), tmp_path / "run", console=death.Killer(1))
    with pytest.raises(CheckpointError, match=r"no weights yet; continue training: regard\.resume\("):
        load_run(tmp_path / "run")


def test_damage_to_the_task_s_files_is_named(toy, tmp_path, silent):
    train(toy(), tmp_path / "run", console=silent)
    words = tmp_path / "run" / "words.json"
    words.write_text(words.read_text().replace("6", "7"))
    with pytest.raises(CheckpointError, match=r"words\.json: its checksum does not match config\.json; restore it"):
        load_run(tmp_path / "run")
    os.truncate(words, 2**40)  # a sparse file, which would be read for hours
    with pytest.raises(CheckpointError, match=r"words\.json: 1,099,511,627,776 bytes, more than a task writes; regard"):
        load_run(tmp_path / "run")
    words.unlink()
    with pytest.raises(CheckpointError, match=r"words\.json: missing; restore it"):
        resume(tmp_path / "run")


def test_settings_a_newer_or_older_regard_does_not_know_are_refused(toy, tmp_path, silent):
    train(toy(), tmp_path / "run", console=silent)
    path = tmp_path / "run" / "config.json"
    table = read_json(path)
    table["model"]["colour"] = "red"
    write_json(path, table)
    with pytest.raises(CheckpointError, match=r"config\.json: model: no setting 'colour'"):
        load_run(tmp_path / "run", trust=True)


def test_a_start_that_was_killed_can_be_started_again(toy, tmp_path, silent, monkeypatch):
    from toys import summing

    def cut_short(self, folder):
        (folder / "words.json").write_text("{")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(summing.Summing, "save", cut_short)
        with pytest.raises(KeyboardInterrupt):
            train(toy(), tmp_path / "run", console=silent)
    with pytest.raises(CheckpointError, match="run: no such run folder"):
        resume(tmp_path / "run", console=silent)
    train(toy(), tmp_path / "run", console=silent)
    assert load_run(tmp_path / "run")
