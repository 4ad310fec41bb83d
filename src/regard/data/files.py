"""Files written beside and moved into place, so that nothing is ever half-written."""

from __future__ import annotations

import os
from pathlib import Path

from regard.core.errors import DataError


def write_text(path: Path, text: str) -> None:
    """Put `text` into a file at once: all of it, or the file stays as it was."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as wrong:
        beside.unlink(missing_ok=True)
        raise DataError(f"{path}: cannot be written: {wrong.strerror}") from None
