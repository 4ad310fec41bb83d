"""New run folders: never in existing folders, complete or not at all, and only after all checks."""

from __future__ import annotations

import errno
import os
import shutil
import sys

import pytest
from toys import summing

from regard.core import files
from regard.core.errors import CheckpointError, ConfigError, DataError, FileError, MissingExtra
from regard.training import recipe as recipes
from regard.training import run_folder
from regard.training.console import SilentConsole
from regard.training.load_run import load_run
from regard.training.run_folder import RunFolder, check_available, create_export_folder, create_run_folder, lock_folder
from regard.training.train import train


def test_a_folder_with_something_in_it_is_left_alone(toy, tmp_path, silent):
    home = tmp_path / "home"
    home.mkdir()
    for name in ("README.md", "log.jsonl", "model.safetensors", "thesis.tex"):
        (home / name).write_text("mine", encoding="utf-8")
    with pytest.raises(
        CheckpointError, match=r"home is not empty and not a run \(it contains README\.md, log\.jsonl, model"
    ):
        train(toy(), home, console=silent)
    assert {path.read_text(encoding="utf-8") for path in home.iterdir()} == {"mine"} and len(list(home.iterdir())) == 4


def test_the_current_folder_is_not_a_place_for_a_run(toy, tmp_path, silent, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for out in (".", tmp_path):
        with pytest.raises(CheckpointError, match=r"is the current folder; choose another, such as .*run$"):
            train(toy(), out, console=silent)
    assert list(tmp_path.iterdir()) == []


def test_a_file_and_old_checkpoints_are_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="file: a file of this name exists; choose another name"):
        check_available(tmp_path / "file")
    old = RunFolder(tmp_path / "old")
    old.mkdir()
    old.checkpoint(7).touch()
    with pytest.raises(CheckpointError, match=r"old contains checkpoints \(step-000000007.* but no config\.json"):
        check_available(old.path)


def test_an_empty_folder_and_a_new_one_will_do(toy, tmp_path, silent):
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "empty", tmp_path / "deep" / "new"):
        assert load_run(train(toy(), out, console=silent))
    assert {path.name for path in tmp_path.iterdir()} == {"empty", "deep"}


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        (["model=toys.gatted"], ConfigError, "no module 'toys.gatted'"),
        (["training.evaluation.metric=colour"], ConfigError, "does not define its direction; set"),
        (["data.examples=0"], DataError, "the training data has no batches"),
        (["training.files.tensorboard=true"], MissingExtra, "tensorboard is not installed"),
        (["pretrained.run=nowhere"], ConfigError, "nowhere: no such run folder"),
    ],
)
def test_what_is_wrong_is_said_before_there_is_a_folder(tmp_path, monkeypatch, settings, error, words):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(error, match=words):
        train(recipes.read("toys.summing", settings=settings), tmp_path / "run", console=SilentConsole())
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_score_leaves_nothing_behind(tmp_path, silent):
    settings = ["data.pairs=50", "data.vocab_size=200", "model.layers=1", "model.dim=16", "model.score=additivee"]
    with pytest.raises(ConfigError, match="unknown score 'additivee'; did you mean 'additive'"):
        train(recipes.read("translation", settings=settings), tmp_path / "run", console=silent)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", ["save", "loss", "fingerprint", "epoch_batches"])
def test_a_faulty_plug_in_leaves_nothing_behind(toy, tmp_path, silent, monkeypatch, method):
    def broken(*_):
        raise ZeroDivisionError("an error in the task")

    with monkeypatch.context() as patch:
        patch.setattr(summing.Summing, method, broken)
        with pytest.raises(ZeroDivisionError):
            train(toy(), tmp_path / "run", console=silent)
    assert list(tmp_path.iterdir()) == []
    assert load_run(train(toy(), tmp_path / "run", console=silent))


def test_a_full_disk_leaves_nothing_behind(tmp_path):
    def full(draft):
        (draft.path / "half").write_text("half", encoding="utf-8")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(
        FileError, match=r"run: could not be created \(No space left on device\); no files were left there"
    ):
        create_run_folder(tmp_path / "run", full)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_start_left_is_removed_unless_it_is_still_at_work(tmp_path):
    stale, busy, bare, empty, odd = (
        RunFolder(tmp_path / f".run.{name}.part") for name in "left busy bare empty odd".split()
    )
    for folder in (stale, busy):
        folder.mkdir()
        (folder.state / "lock").touch()
    bare.mkdir()  # killed before the lock was created
    empty.path.mkdir()
    odd.path.mkdir()
    odd.config.touch()  # not a draft: a draft with files has a lock
    with lock_folder(busy):
        create_run_folder(tmp_path / "run", lambda draft: draft.config.write_text("{}", encoding="utf-8"))
    assert {path.name for path in tmp_path.iterdir()} == {"run", ".run.busy.part", ".run.odd.part"}
    create_run_folder(tmp_path / "deep" / "run", lambda draft: draft.config.touch())
    assert busy.path.exists()  # it belongs to another run
    run_folder._remove_stale_drafts(tmp_path / "run")
    assert not busy.path.exists()


def test_an_export_is_moved_into_place_and_drafts_of_killed_exports_are_removed(tmp_path):
    killed, running = tmp_path / ".out.killed.part", tmp_path / ".out.running.part"
    for folder in (killed, running, tmp_path / "out"):
        folder.mkdir()
    (killed / "model.bin").touch()
    for folder in (killed, running):
        os.utime(folder, (0, 0))

    def write(draft):
        (draft / "model.bin").write_text("weights", encoding="utf-8")
        assert not killed.exists() and not (tmp_path / "out" / "model.bin").exists()

    with files.lock_draft(running):
        create_export_folder(tmp_path / "out", write)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model.bin"]
    assert {path.name for path in tmp_path.iterdir()} == {"out", running.name}
    with pytest.raises(CheckpointError, match=r"out is not empty and not a run \(it contains model\.bin\)"):
        create_export_folder(tmp_path / "out", write)


def test_the_draft_of_a_run_is_not_taken_for_that_of_a_killed_export(tmp_path):
    def write(draft):
        os.utime(draft.path, (0, 0))
        with files.atomic_folder(tmp_path / "run"):
            assert draft.path.exists()
        shutil.rmtree(tmp_path / "run")

    create_run_folder(tmp_path / "run", write)
    assert (tmp_path / "run").exists()


def test_the_lock_of_a_draft_is_on_the_disk_before_any_file(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(run_folder, "fsync", lambda path: flushed.append((path.name, (path / "lock").exists())))
    with pytest.raises(ZeroDivisionError):
        create_run_folder(tmp_path / "run", lambda draft: 1 / 0)
    assert flushed[0] == ("state", True)


def test_the_second_of_two_starts_is_refused(tmp_path):
    def slow(draft):
        create_run_folder(tmp_path / "run", lambda second: second.config.touch())
        draft.config.touch()

    with pytest.raises(CheckpointError, match="run already contains a run; choose another folder, or continue it"):
        create_run_folder(tmp_path / "run", slow)


def test_the_root_of_a_disk_is_filled_with_config_json_last(tmp_path, monkeypatch):
    (tmp_path / "disk").mkdir()
    rename, moved = os.rename, []

    def busy(source, target):
        if str(target) == str(tmp_path / "disk"):
            raise OSError(errno.EBUSY, "Device or resource busy")
        moved.append(os.path.basename(target))
        rename(source, target)

    monkeypatch.setattr(os, "rename", busy)

    def fill(draft):
        draft.config.touch()
        draft.model.touch()

    create_run_folder(tmp_path / "disk", fill)
    assert moved == ["model.safetensors", "state", "config.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["disk"]
