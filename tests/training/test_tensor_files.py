"""Checksummed files: any damage is detected, failed writes leave the old file, and nothing is executed."""

from __future__ import annotations

import errno
import json
import os
import pickle
import resource
import signal
from pathlib import Path

import pytest
import safetensors.torch
import torch

from regard.core.checksummed_json import read_json, write_json
from regard.core.errors import CheckpointError, FileError
from regard.training import tensor_files

TENSORS = {"b": torch.arange(5.0), "a": torch.ones(2, 3, dtype=torch.float64), "n": torch.tensor(3)}


def write(path):
    tensor_files.write_tensors(path, TENSORS, {"step": 3, "note": "조금"})
    return path


def test_what_is_written_is_read(tmp_path):
    tensors, facts = tensor_files.read_tensors(write(tmp_path / "x.safetensors"))
    assert facts == {"step": 3, "note": "조금"}
    assert all(
        torch.equal(tensors[name], value) and tensors[name].dtype == value.dtype for name, value in TENSORS.items()
    )


def test_saved_loaded_saved_is_the_same_bytes(tmp_path):
    first = write(tmp_path / "x.safetensors")
    tensors, facts = tensor_files.read_tensors(first)
    tensor_files.write_tensors(tmp_path / "y.safetensors", tensors, facts)
    assert first.read_bytes() == (tmp_path / "y.safetensors").read_bytes()


def test_others_can_read_it_with_the_plain_library(tmp_path):
    assert set(safetensors.torch.load_file(write(tmp_path / "x.safetensors"))) == set(TENSORS)


def test_the_user_s_umask_decides_who_may_read(tmp_path):
    (tmp_path / "plain").touch()
    assert write(tmp_path / "x.safetensors").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("flip", [0x01, 0x20, 0x80, 0xFF])
def test_every_flipped_byte_is_found(tmp_path, flip):
    path = write(tmp_path / "x.safetensors")
    data = path.read_bytes()
    for offset in range(len(data)):
        path.write_bytes(data[:offset] + bytes([data[offset] ^ flip]) + data[offset + 1 :])
        with pytest.raises(CheckpointError, match=r"x\.safetensors: damaged or not written by regard"):
            tensor_files.read_tensors(path)


def test_every_truncation_and_addition_is_found(tmp_path):
    path = write(tmp_path / "x.safetensors")
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match="damaged or not written by regard"):
            tensor_files.read_tensors(path)
    path.write_bytes(data + b"\0")
    with pytest.raises(CheckpointError, match="damaged"):
        tensor_files.read_tensors(path)


def test_zeroed_ranges_are_found(tmp_path):
    path = write(tmp_path / "x.safetensors")
    data = path.read_bytes()
    for start in range(0, len(data), 16):
        changed = data[:start] + bytes(16) + data[start + 16 :]
        if changed != data:
            path.write_bytes(changed)
            with pytest.raises(CheckpointError, match="damaged"):
                tensor_files.read_tensors(path)


class Hostile:
    def __reduce__(self):
        return os.system, ("touch owned",)


def test_a_hostile_pickle_is_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(CheckpointError, match=r"model\.safetensors: damaged or not written by regard"):
        tensor_files.read_tensors(path)
    assert not (tmp_path / "owned").exists()


def test_a_file_without_checksum_is_refused(tmp_path):
    safetensors.torch.save_file(TENSORS, tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match="not written by regard"):
        tensor_files.read_tensors(tmp_path / "x.safetensors")


def test_a_missing_or_unreadable_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"gone\.safetensors: no such file"):
        tensor_files.read_tensors(tmp_path / "gone.safetensors")
    with pytest.raises(CheckpointError, match="could not be read"):
        tensor_files.read_tensors(tmp_path)


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = write(tmp_path / "x.safetensors")
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    for name, module in (("fsync", os), ("replace", os), ("open", os), ("open", Path)):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, full)
            with pytest.raises(
                FileError, match=r"could not be written \(.*No space left.*the previous content is unchanged"
            ):
                tensor_files.write_tensors(path, {"a": torch.zeros(9)}, {})
        assert path.read_bytes() == before
        assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]


def test_a_write_cut_off_by_the_system_leaves_the_old_file(tmp_path):
    """A real write failure: a limit on the size of files. Python ignores the signal SIGXFSZ, so that a write fails."""
    assert signal.getsignal(signal.SIGXFSZ) is signal.SIG_IGN
    path = write(tmp_path / "x.safetensors")
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(FileError, match="could not be written"):
            tensor_files.write_tensors(path, {"a": torch.zeros(10_000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]


def test_json_is_sealed_too(tmp_path):
    path = tmp_path / "config.json"
    write_json(path, {"seed": 1, "name": "무엇", "deep": {"a": [1, None, True]}})
    assert read_json(path) == {"seed": 1, "name": "무엇", "deep": {"a": [1, None, True]}}
    data = path.read_bytes()
    for flip in (0x01, 0x20, 0x80, 0xFF):
        for offset in range(len(data)):
            path.write_bytes(data[:offset] + bytes([data[offset] ^ flip]) + data[offset + 1 :])
            refused_or_unsealed(path)
    for length in range(len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match=r"config\.json: "):
            read_json(path)


def refused_or_unsealed(path):
    """A flipped bit in the key of the checksum leaves an unknown key, which the reader of the table refuses."""
    try:
        table = read_json(path)
    except CheckpointError:
        return
    assert len(table) == 4 and any(len(str(value)) == 64 for value in table.values())


def test_json_edited_on_purpose(tmp_path):
    path = tmp_path / "config.json"
    write_json(path, {"seed": 1})
    path.write_text(path.read_text().replace('"seed": 1', '"seed": 2'))
    with pytest.raises(CheckpointError, match=r"checksum does not match; restore it .* or delete its sha256 line"):
        read_json(path)
    path.write_text(json.dumps({"seed": 2}))
    assert read_json(path) == {"seed": 2}
    for text in ("[1]", r'{"run": "\ud800"}'):  # not a table; a lone surrogate, which cannot be written
        path.write_text(text)
        with pytest.raises(CheckpointError, match="damaged"):
            read_json(path)
    with pytest.raises(CheckpointError, match=r"gone\.json: no such file; is .* a run folder"):
        read_json(tmp_path / "gone.json")
    with pytest.raises(CheckpointError, match="could not be read"):
        read_json(tmp_path)
