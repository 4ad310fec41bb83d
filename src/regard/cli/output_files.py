"""Files that commands write: an existing file is replaced only with --force."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from regard.core.errors import FileError


def check_targets(paths: Iterable[Path | None], *, force: bool) -> None:
    """Raise an error for the first path that cannot be written: an existing file without --force, a missing folder."""
    for path in paths:
        if path is None:
            continue
        if path.is_dir():
            raise FileError(f"{path}: is a folder; give the name of a file")
        if path.exists() and not force:
            raise FileError(f"{path}: already exists; choose another name, or replace the file with --force")
        if not path.parent.is_dir():
            raise FileError(f"{path}: there is no folder {path.parent}; create it first")
