"""The run folder: paths, the lock, and partial files of a killed process."""

from __future__ import annotations

import os

import pytest

from regard.core.errors import CheckpointError
from regard.training import run_folder as folders
from regard.training.run_folder import RunFolder, lock_folder


def test_checkpoints_are_listed_oldest_first(tmp_path):
    folder = RunFolder(tmp_path / "deep" / "run")
    folder.mkdir()
    for step in (100, 9, 20):
        folder.checkpoint(step).touch()
        folder.snapshot(step).touch()
    assert [path.stem for path in folder.checkpoints()] == ["step-000000009", "step-000000020", "step-000000100"]
    assert folder.snapshots()[0] == folder.snapshot(9)


def test_what_was_half_written_is_removed_and_nothing_else(tmp_path):
    folder = RunFolder(tmp_path)
    folder.mkdir()
    expected = [folder.config, folder.checkpoint(1), tmp_path / ".hidden"]
    for path in [*expected, tmp_path / ".model.safetensors.part", folder.state / ".step-1.safetensors.part"]:
        path.touch()
    folder.remove_partial_files()
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(expected)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"run: cannot be created .* choose another folder"):
        RunFolder(tmp_path / "file" / "run").mkdir()


def test_two_processes_do_not_train_in_one_folder(tmp_path):
    folder = RunFolder(tmp_path)
    folder.mkdir()
    busy = pytest.raises(CheckpointError, match="another process is training in this folder; wait")
    with lock_folder(folder), busy, lock_folder(folder):
        pass
    with lock_folder(folder):
        pass


def test_a_read_only_folder_is_named(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    folder.mkdir()

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(CheckpointError, match=r"cannot be written to \(Permission denied\)"), lock_folder(folder):
        pass


def test_windows_has_no_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(folders.sys, "platform", "win32")
    with lock_folder(RunFolder(tmp_path / "nowhere")):
        pass
