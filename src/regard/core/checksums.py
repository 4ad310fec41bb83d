"""Checksums of data, so that a run goes on with the data it was begun with or says what has changed.

`of_batches` and `of_rows` go through all there is; `of_files` reads a file once and remembers its checksum, by its
place, size and time, in the cache folder.

The files that a task keeps in a run folder, checked against the checksums in config.json.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core.errors import CheckpointError, FileError
from regard.core.files import cache_folder, file_sha256, write_text

if TYPE_CHECKING:
    from torch import Tensor

CHECKSUM_FOLDER = "checksums"
_SMALL = 64 * 2**20  # bytes of a file that is read again rather than remembered


def hash_batches(batches: Iterable[Any]) -> str:
    """Batches of tensors -> a checksum of everything in them."""
    import torch  # reading a text needs checksums of files only, and no torch

    from regard.core.state_tree import map_tensors

    sha = hashlib.sha256()

    def note(tensor: Tensor) -> Tensor:
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        sha.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        sha.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
        return tensor

    for batch in batches:
        map_tensors(batch, note)
    return sha.hexdigest()


def hash_rows(rows: Iterable[Any]) -> str:
    """Examples of plain values (texts, numbers, tuples of them) -> a checksum of all of them in their order."""
    sha = hashlib.sha256()
    for row in rows:
        text = repr(row).encode(errors="surrogatepass")
        sha.update(len(text).to_bytes(8, "little") + text)
    return sha.hexdigest()


def hash_files(paths: Iterable[Path]) -> str:
    """Files -> a checksum of their content, wherever they lie."""
    return hashlib.sha256(" ".join(hash_file(path) for path in paths).encode()).hexdigest()


def hash_file(path: Path) -> str:
    """SHA-256 of a file; of a large one that has not changed it is remembered."""
    facts = os.stat(path)
    if facts.st_size <= _SMALL:
        return file_sha256(path)
    key = hashlib.sha256(f"{path.resolve()} {facts.st_size} {facts.st_mtime_ns} {facts.st_ino}".encode()).hexdigest()
    note = cache_folder() / CHECKSUM_FOLDER / key
    with suppress(OSError, ValueError):
        return str(json.loads(note.read_text(encoding="utf-8"))["sha256"])
    found = file_sha256(path)
    with suppress(FileError):
        write_text(note, json.dumps({"sha256": found, "path": str(path.resolve())}))
    return found


def describe_changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What is other than it was, in words; nothing where all is the same."""
    gone = [f"{name} is no longer there" for name in before if name not in now]
    new = [f"{name} is new" for name in now if name not in before]
    other = [f"{name} has other content" for name in before if now.get(name, before[name]) != before[name]]
    return [*other, *gone, *new]


_LARGEST = 2**28  # bytes of a task's file; vocabularies have a hundredth of it


def require_run_folder(folder: Path) -> None:
    """A run folder that is not there is named."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such run folder")


def verify_files(folder: Path, files: Mapping[str, str]) -> None:
    """Every file, by its name in the folder, is as it was written, or the one that is not is named."""
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            raise CheckpointError(f"{path}: missing; restore it from a copy of the run")
        if path.stat().st_size > _LARGEST:
            raise CheckpointError(
                f"{path}: {path.stat().st_size:,} bytes, more than a task writes; regard never wrote it"
            )
        if file_sha256(path) != expected:
            raise CheckpointError(f"{path}: its checksum does not match config.json; restore it from a copy of the run")
