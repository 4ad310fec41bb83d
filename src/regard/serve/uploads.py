"""Files that come inside a request, as base64 in its JSON: kept in a folder of their own while it is answered.

A request never names a file of the server. What it sends is written to a new folder, is read from there by the same
code that reads a user's own files, and goes when the request has been answered.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from regard.core.errors import DataError

MAX_NAME_CHARACTERS = 80  # letters of a file's name that are kept
UNSAFE_CHARACTERS = re.compile(r"[^\w .()+-]")  # what is not taken into a name


class Uploads:
    """The files of one request."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._count = 0

    def save(self, value: Any, opens: Sequence[str], where: str) -> Path:
        """{"file": base64, "name": "a.png"} -> a file that is there until `close`; anything else is one clear line."""
        shape = f'send it as {{"file": "…base64…", "name": "a{opens[0]}"}}'
        if not isinstance(value, dict) or not isinstance(value.get("file"), str) or set(value) - {"file", "name"}:
            raise DataError(f"{where} is a file ({', '.join(opens)}), never where one lies on the server; {shape}")
        name = value.get("name", f"upload{opens[0]}")
        if not isinstance(name, str):
            raise DataError(f"{where}: the name of a file is a text; {shape}")
        name = safe_name(name)
        if PurePosixPath(name).suffix.lower() not in opens:
            raise DataError(f"{where}: {name!r} ends in none of {', '.join(opens)}; {shape}")
        try:
            content = base64.b64decode(value["file"], validate=True)
        except (binascii.Error, ValueError) as wrong:
            raise DataError(f"{where}: {name} is not base64 ({wrong}); {shape}") from None
        path = self._place() / name
        path.write_bytes(content)
        return path

    def _place(self) -> Path:
        """A folder for each file: two may have one name."""
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="regard-")
        self._count += 1
        place = Path(self._folder.name, str(self._count))
        place.mkdir()
        return place

    def with_client_names(self, text: str) -> str:
        """A text in which the files have the names that the client gave, not where they lie here."""
        return text if self._folder is None else re.sub(re.escape(self._folder.name) + r"[\\/]+\d+[\\/]+", "", text)

    def close(self) -> None:
        """Nothing of it is left."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def safe_name(name: str) -> str:
    """The last part of a name, of plain letters only: no folder, no way up, nothing hidden."""
    last = UNSAFE_CHARACTERS.sub("_", re.split(r"[\\/]", name)[-1]).lstrip(". ")
    stem, dot, suffix = last.rpartition(".")
    return f"{stem[:MAX_NAME_CHARACTERS] or 'upload'}{dot}{suffix[:10]}" if dot else last[:MAX_NAME_CHARACTERS]
