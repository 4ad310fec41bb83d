"""Checksums of training data and of the files in a run folder.

A resumed run compares the checksums of its data and reports changes. `hash_batches` and `hash_rows` read everything;
`hash_file` caches the checksum of a large file by its path, size, inode and times.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core import trust
from regard.core.errors import CheckpointError, FileError
from regard.core.files import cache_folder, file_sha256, file_state, write_text

if TYPE_CHECKING:
    from torch import Tensor

CHECKSUM_FOLDER = "checksums"
MAX_UNCACHED_BYTES = 64 * 2**20  # a file up to this size is hashed every time
MAX_TASK_FILE_BYTES = 2**28  # of a task's file in a run folder; vocabularies have a hundredth of it


def hash_batches(batches: Iterable[Any]) -> str:
    """Batches of tensors -> a checksum of their types, shapes and values."""
    import torch  # engines without torch only need checksums of files

    from regard.core.state_tree import map_tensors

    sha = hashlib.sha256()

    def update(tensor: Tensor) -> Tensor:
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        sha.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        sha.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
        return tensor

    for batch in batches:
        map_tensors(batch, update)
    return sha.hexdigest()


def hash_rows(rows: Iterable[Any]) -> str:
    """Examples of plain values (strings, numbers, tuples of them) -> a checksum of all of them in order."""
    sha = hashlib.sha256()
    for row in rows:
        text = repr(row).encode(errors="surrogatepass")
        sha.update(len(text).to_bytes(8, "little") + text)
    return sha.hexdigest()


def hash_files(paths: Iterable[Path]) -> str:
    """Files -> a checksum of their contents in order, independent of their paths."""
    return hashlib.sha256(" ".join(hash_file(path) for path in paths).encode()).hexdigest()


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file; that of a large unchanged file comes from the cache folder."""
    status = os.stat(path)
    if status.st_size <= MAX_UNCACHED_BYTES:
        return file_sha256(path)
    key = hashlib.sha256(f"{path.resolve()} {file_state(path)}".encode()).hexdigest()
    cache_file = cache_folder() / CHECKSUM_FOLDER / key
    with suppress(OSError, ValueError):
        return str(json.loads(cache_file.read_text(encoding="utf-8"))["sha256"])
    checksum = file_sha256(path)
    with suppress(FileError):
        write_text(cache_file, json.dumps({"sha256": checksum, "path": str(path.resolve())}))
    return checksum


def describe_changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Compare two tables name -> checksum; return one line per difference, empty if there is none."""
    removed = [f"{name} is no longer there" for name in before if name not in now]
    added = [f"{name} is new" for name in now if name not in before]
    changed = [f"{name} has other content" for name in before if now.get(name, before[name]) != before[name]]
    return [*changed, *removed, *added]


def require_run_folder(folder: Path) -> None:
    """Raise a CheckpointError if the run folder does not exist."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such run folder")


def check_links(folder: Path, names: Iterable[str]) -> None:
    """Raise a CheckpointError if a file of a run folder is a link to a file outside of the folder."""
    for name in (trust.CONFIG_FILE, trust.WEIGHTS_FILE, *names):
        if not trust.is_inside(folder, name):
            raise CheckpointError(
                f"{folder / name}: is a link out of the run folder; replace it by the file it points to"
            )


def verify_files(folder: Path, files: Mapping[str, str]) -> None:
    """Check files of a run folder against their checksums (name -> SHA-256); raise an error for the first mismatch."""
    check_links(folder, files)
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            raise CheckpointError(f"{path}: missing; restore it from a copy of the run")
        if path.stat().st_size > MAX_TASK_FILE_BYTES:
            raise CheckpointError(
                f"{path}: {path.stat().st_size:,} bytes, more than a task writes; regard never wrote it"
            )
        if file_sha256(path) != expected:
            raise CheckpointError(f"{path}: its checksum does not match config.json; restore it from a copy of the run")
