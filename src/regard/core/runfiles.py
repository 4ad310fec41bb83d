"""The files that a task keeps in a run folder, checked against the checksums in config.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from regard.core.errors import CheckpointError
from regard.core.files import digest

_LARGEST = 2**28  # bytes of a task's file; vocabularies have a hundredth of it


def require(folder: Path) -> None:
    """A run folder that is not there is named."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such run folder")


def check(folder: Path, files: Mapping[str, str]) -> None:
    """Every file, by its name in the folder, is as it was written, or the one that is not is named."""
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            raise CheckpointError(f"{path}: missing; restore it from a copy of the run")
        if path.stat().st_size > _LARGEST:
            raise CheckpointError(
                f"{path}: {path.stat().st_size:,} bytes, more than a task writes; regard never wrote it"
            )
        if digest(path) != expected:
            raise CheckpointError(f"{path}: its checksum does not match config.json; restore it from a copy of the run")
