"""Checksummed files that change while they are read, have wrong headers, or are not regular files: one-line errors."""

from __future__ import annotations

import hashlib
import json
import os
import threading

import pytest
import torch

from regard.core.checksummed_json import read_json
from regard.core.errors import CheckpointError
from regard.training import tensor_files

TENSORS = {"b": torch.arange(5.0), "a": torch.ones(2, 3, dtype=torch.float64), "n": torch.tensor(3)}


def write(path):
    tensor_files.write_tensors(path, TENSORS, {"step": 3, "note": "조금"})
    return path


def test_a_reader_never_sees_a_file_half_replaced(tmp_path):
    """Two writers and a reader: every read returns one complete file."""
    path = write(tmp_path / "x.safetensors")
    stop = threading.Event()

    def replace(index):
        while not stop.is_set():
            tensor_files.write_tensors(path, {"a": torch.full((50_000,), float(index))}, {"number": index})

    threads = [threading.Thread(target=replace, args=(index,)) for index in (1, 2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(200):
            tensors, facts = tensor_files.read_tensors(path)
            index = facts.get("number")
            assert "b" in tensors if index is None else (tensors["a"] == index).all()
            assert tensor_files.read_metadata(path) and tensor_files.read_shapes(path)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_file_that_is_being_copied_is_waited_for_and_never_called_damaged(tmp_path, monkeypatch):
    path = write(tmp_path / "x.safetensors")
    data = path.read_bytes()
    path.write_bytes(data[:100])
    pauses = []

    def arrive(seconds):
        pauses.append(seconds)
        path.write_bytes(data[: 100 + 100 * len(pauses)] if len(pauses) < 3 else data)

    plain = tensor_files._header

    def grow(file):
        with path.open("ab") as more:  # it grows while it is read
            more.write(b"?")
        return plain(file)

    monkeypatch.setattr(tensor_files.time, "sleep", arrive)
    with monkeypatch.context() as patch:
        patch.setattr(tensor_files, "_header", lambda file: plain(file) if len(pauses) >= 3 else grow(file))
        assert tensor_files.read_metadata(path)["step"] == 3 and len(pauses) == 3
        patch.setattr(tensor_files, "_header", grow)
        with pytest.raises(
            CheckpointError, match="the file changes while it is read; try again when the other process has"
        ):
            tensor_files.read_metadata(path)


def test_shapes_are_read_from_the_header_alone(tmp_path):
    path = write(tmp_path / "x.safetensors")
    assert tensor_files.read_shapes(path) == {"b": (5,), "a": (2, 3), "n": ()}


def forge(path, entries, facts='{"sha256": "%s"}'):
    """Write a file with any header and a correct checksum."""
    note = facts % ("0" * 64) if "%s" in facts else facts
    text = json.dumps({"__metadata__": {"regard": note}, **entries}).encode()
    data = len(text).to_bytes(8, "little") + text + bytes(16)
    if b"0" * 64 in data:
        data = data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode(), 1)
    path.write_bytes(data)


@pytest.mark.parametrize(
    "entry",
    [
        [], 3, None, "x", {}, {"dtype": "F32", "shape": 4, "data_offsets": [0, 16]},
        {"dtype": "F99", "shape": [4], "data_offsets": [0, 16]}, {"dtype": [], "shape": [4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [10**9, 10**9], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [4], "data_offsets": [-16, 0]}, {"dtype": "F32", "shape": [4], "data_offsets": 3},
        {"dtype": "F32", "shape": [4], "data_offsets": [8, 24]}, {"dtype": "F32", "shape": [4], "data_offsets": [0, 9]},
    ],
)  # fmt: skip
def test_a_sealed_file_whose_header_lies_is_refused(tmp_path, entry):
    path = tmp_path / "x.safetensors"
    forge(path, {"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}})
    assert tensor_files.read_tensors(path)[0]["a"].tolist() == [0.0] * 4
    forge(path, {"a": entry})
    with pytest.raises(CheckpointError, match=r"x\.safetensors: damaged or not written by regard"):
        tensor_files.read_tensors(path)


@pytest.mark.parametrize("facts", ["[]", "3", "null", '{"sha256": 3}', "{", '{"sha256": ""}', "[" * 100_000])
def test_facts_that_are_no_table_are_refused(tmp_path, facts):
    path = tmp_path / "x.safetensors"
    forge(path, {}, facts)
    for read in (tensor_files.read_tensors, tensor_files.read_metadata, tensor_files.read_shapes):
        with pytest.raises(CheckpointError, match="damaged or not written by regard"):
            read(path)


def test_a_file_larger_than_the_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    path = write(tmp_path / "x.safetensors")
    monkeypatch.setattr(tensor_files, "_machine_memory", lambda: 100)
    with pytest.raises(CheckpointError, match=r"bytes, but this machine has only 100 bytes of memory\)"):
        tensor_files.read_tensors(path)


def test_a_file_with_more_than_its_tensors_is_refused_before_it_is_read(tmp_path):
    path = write(tmp_path / "x.safetensors")
    os.truncate(path, 2**40)  # a sparse file
    with pytest.raises(CheckpointError, match=r"\(it is longer than its header says\); restore it from a copy$"):
        tensor_files.read_tensors(path)


def test_errors_do_not_suggest_to_delete_a_file(tmp_path):
    path = write(tmp_path / "x.safetensors")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(CheckpointError, match=r"\(its checksum does not match\); restore it from a copy$"):
        tensor_files.read_tensors(path)


def test_what_is_no_plain_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(CheckpointError, match=r"config\.json: could not be read \(not a plain file\)"):
        read_json(tmp_path / "config.json")
    with pytest.raises(CheckpointError, match=r"config\.json: could not be read \(not a plain file\)"):
        tensor_files.read_metadata(tmp_path / "config.json")
