"""Checksums of data: every change is detected and reported, and a large file is read once."""

from __future__ import annotations

import os
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from regard.core import checksums
from regard.core.errors import CheckpointError


class Batch(NamedTuple):
    tokens: Tensor
    lengths: Tensor


def batches():
    return [Batch(torch.arange(6).view(2, 3) + i, torch.tensor([3, 2])) for i in range(3)]


def test_every_value_of_every_batch_counts():
    plain = checksums.hash_batches(batches())
    assert plain == checksums.hash_batches(batches())
    for batch in range(3):
        for index in range(6):
            changed = batches()
            changed[batch].tokens.view(-1)[index] += 1
            assert checksums.hash_batches(changed) != plain
    assert checksums.hash_batches(batches()[:2]) != plain
    assert checksums.hash_batches([Batch(b.tokens.view(3, 2), b.lengths) for b in batches()]) != plain
    assert checksums.hash_batches([Batch(b.tokens.int(), b.lengths) for b in batches()]) != plain
    assert checksums.hash_batches([]) != plain


def test_order_and_boundaries_of_rows_count():
    plain = checksums.hash_rows([("a", "b"), ("c", "d")])
    assert plain == checksums.hash_rows(iter([("a", "b"), ("c", "d")]))
    for rows in ([("b", "a"), ("c", "d")], [("c", "d"), ("a", "b")], [("a", "b")], [("a", "bc"), ("", "d")]):
        assert checksums.hash_rows(rows) != plain
    assert checksums.hash_rows(["\ud800"])


def test_files_are_compared_by_content_not_by_path(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"text" * 100)
    assert checksums.hash_files([tmp_path / "a"]) == checksums.hash_files([tmp_path / "b"])
    (tmp_path / "b").write_bytes(b"texT" * 100)
    assert checksums.hash_files([tmp_path / "a"]) != checksums.hash_files([tmp_path / "b"])


def test_a_large_file_is_read_once_and_again_when_it_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(checksums, "MAX_UNCACHED_BYTES", 10)
    reads = []
    plain = checksums.file_sha256
    monkeypatch.setattr(checksums, "file_sha256", lambda path: reads.append(path) or plain(path))
    path = tmp_path / "a"
    path.write_bytes(b"text" * 100)
    first = checksums.hash_files([path])
    assert first == checksums.hash_files([path]) and len(reads) == 1
    path.write_bytes(b"texT" * 100)
    os.utime(path, ns=(1, 1))
    assert checksums.hash_files([path]) != first and len(reads) == 2


def test_a_cache_that_cannot_be_written_is_ignored(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(checksums, "MAX_UNCACHED_BYTES", 0)
    (tmp_path / "a").write_bytes(b"text")
    assert checksums.hash_files([tmp_path / "a"])


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ({"train": "1", "test": "2"}, []),
        ({"train": "1"}, ["test is no longer there"]),
        ({"train": "3", "test": "2", "more": "4"}, ["train has other content", "more is new"]),
    ],
)
def test_changes_are_described(now, expected):
    assert checksums.describe_changes({"train": "1", "test": "2"}, now) == expected


def test_links_out_of_a_run_folder_are_refused(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "outside").write_text("secret", encoding="utf-8")
    (run / "tokenizer.json").symlink_to("../outside")
    with pytest.raises(
        CheckpointError, match=r"tokenizer\.json: is a link out of the run folder; replace it by the file"
    ):
        checksums.check_links(run, ["tokenizer.json"])
    checksums.check_links(run, ["missing.json"])
