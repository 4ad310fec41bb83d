"""Files written beside and moved into place, so that nothing is ever half-written."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from regard.core.errors import DataError


def cache_folder() -> Path:
    """Where downloads and encoded corpora are kept: $REGARD_DATA, or else ~/.cache/regard."""
    return Path(os.environ.get("REGARD_DATA") or Path.home() / ".cache" / "regard").expanduser()


def write_text(path: Path, text: str) -> None:
    """Put `text` into a file at once: all of it, or the file stays as it was."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """The same for bytes."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as wrong:
        with suppress(OSError):  # there may be no folder for it to be in
            beside.unlink()
        raise DataError(f"{path}: cannot be written: {wrong.strerror}") from None
