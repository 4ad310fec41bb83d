"""Files that are whole or not there: written beside, flushed to disk, moved into place."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.core.errors import FileError


def cache_folder() -> Path:
    """Where downloads and encoded corpora are kept: $REGARD_DATA, or else ~/.cache/regard."""
    return Path(os.environ.get("REGARD_DATA") or Path.home() / ".cache" / "regard").expanduser()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; afterwards it is flushed and moved there, or removed if anything failed."""
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        _flush(part)
        os.replace(part, path)
        _flush(path.parent)
    except OSError as wrong:
        reason = wrong.strerror or wrong
        raise FileError(f"{path}: could not be written ({reason}); what was there before is untouched") from wrong
    finally:
        with suppress(OSError):  # in a folder that became read-only it stays; it is never read, and replaced next time
            part.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(path: Path, content: bytes) -> None:
    """Put bytes into a file at once: all of them, or the file stays as it was."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as wrong:
        raise FileError(f"{path}: could not be written ({wrong.strerror})") from None
    with replacing(path) as part:
        part.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """The same for text, as UTF-8."""
    write_bytes(path, text.encode())


def append(path: Path, data: bytes) -> None:
    """More bytes at the end of a log; the file is made if it is not there."""
    try:
        with path.open("ab") as file:
            file.write(data)
    except OSError as wrong:
        raise FileError(
            f"{path}: could not be written ({wrong.strerror}); what was there before is untouched"
        ) from wrong


def digest(path: Path) -> str:
    """SHA-256 of a file as it stands."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
