"""Uploaded files: base64 in the JSON of a request, stored in a temporary folder until the request is answered.

A request never names a file of the server. An uploaded file is read by the same code as a local file, and is deleted
with the request.
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

MAX_NAME_CHARACTERS = 80  # characters of a file name; the rest is cut
UNSAFE_CHARACTERS = re.compile(r"[^\w .()+-]")  # replaced in file names


class Uploads:
    """The files of one request."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._count = 0

    def save(self, value: Any, suffixes: Sequence[str], where: str) -> Path:
        """Store {"file": base64, "name": "a.png"} -> the path of the file, which exists until `close`."""
        remedy = f'send it as {{"file": "…base64…", "name": "a{suffixes[0]}"}}'
        if not isinstance(value, dict) or not isinstance(value.get("file"), str) or set(value) - {"file", "name"}:
            raise DataError(f"{where}: must be a file ({', '.join(suffixes)}), not a path on the server; {remedy}")
        name = value.get("name", f"upload{suffixes[0]}")
        if not isinstance(name, str):
            raise DataError(f"{where}: the name of a file must be a text; {remedy}")
        name = safe_name(name)
        if PurePosixPath(name).suffix.lower() not in suffixes:
            raise DataError(f"{where}: {name!r} does not end in {', '.join(suffixes)}; choose a file of such a type")
        try:
            content = base64.b64decode(value["file"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise DataError(f"{where}: {name} is not base64 ({error}); {remedy}") from None
        path = self._new_folder() / name
        path.write_bytes(content)
        return path

    def with_client_names(self, text: str) -> str:
        """Replace the paths of uploaded files in a text by the names that the client sent."""
        return text if self._folder is None else re.sub(re.escape(self._folder.name) + r"[\\/]+\d+[\\/]+", "", text)

    def close(self) -> None:
        """Delete all files."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _new_folder(self) -> Path:
        """Create a folder for one file: two files may have the same name."""
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="regard-")
        self._count += 1
        folder = Path(self._folder.name, str(self._count))
        folder.mkdir()
        return folder


def safe_name(name: str) -> str:
    """Return the last part of a path with safe characters only: no folder, no "..", no hidden file."""
    last = UNSAFE_CHARACTERS.sub("_", re.split(r"[\\/]", name)[-1]).lstrip(". ")
    stem, dot, suffix = last.rpartition(".")
    return f"{stem[:MAX_NAME_CHARACTERS] or 'upload'}{dot}{suffix[:10]}" if dot else last[:MAX_NAME_CHARACTERS]
