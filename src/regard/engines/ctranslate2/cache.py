"""Exports that are kept for runs: where one lies, whether it is whole, and what was found out about it. No torch.

An export belongs to the weights it was made of and lies in the cache folder under their checksum: never in the run
folder, which may be a stranger's or on a disk that cannot be written to. Beside the model lies equivalence.json, which says
for every kind of request that was compared whether the export answers it as our own engine does.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.core import checksummed_json
from regard.core.errors import FileError, RegardError
from regard.core.files import cache_folder, file_sha256

SEAL, AGREED = "seal.json", "equivalence.json"
Table = Mapping[str, Any]


def cache_path(run: Path) -> tuple[Path, str]:
    """A run folder -> the folder of the export of its weights, and the checksum of their file."""
    weights = file_sha256(run / "model.safetensors")
    return cache_folder() / "ctranslate2" / weights[:16], weights


def is_complete(folder: Path, weights: str) -> bool:
    """Whether a folder holds the export of these weights and every file of it is as it was written."""
    try:
        seal = checksummed_json.read_json(folder / SEAL)
        files = {path.name: file_sha256(path) for path in folder.iterdir() if path.name not in (SEAL, AGREED)}
    except (RegardError, OSError):
        return False
    return bool(seal.get("weights") == weights and seal.get("files") == files)


def create_export(folder: Path, weights: str, write: Callable[[Path], None]) -> None:
    """Let `write` fill a folder beside this one, seal it, and move it here; what was here before gives way."""
    draft = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.part")
    try:
        draft.mkdir(parents=True)
        write(draft)
        files = {path.name: file_sha256(path) for path in draft.iterdir()}
        checksummed_json.write_json(draft / SEAL, {"weights": weights, "files": files})
        with suppress(OSError):  # another process was quicker, and what it made is as good
            shutil.rmtree(folder, ignore_errors=True)
            draft.rename(folder)
    except OSError as wrong:
        raise FileError(f"{folder}: the export could not be written ({wrong.strerror or wrong})") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def request_key(data: Table, options: Table, decoding: Table) -> str:
    """What a request asks for, whole -> a short name for it."""
    return hashlib.sha256(json.dumps([data, options, decoding], sort_keys=True).encode()).hexdigest()[:16]


def command_key(config: Path, settings: Sequence[str]) -> str:
    """The same for the words of a command, before anybody has read them: they mean what config.json makes of them."""
    return hashlib.sha256(f"{file_sha256(config)} {json.dumps(list(settings))}".encode()).hexdigest()[:16]


class EquivalenceCache:
    """equivalence.json of an export: requests that were compared, and words that ask for them."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / AGREED

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            table = checksummed_json.read_json(self._path)
            return {name: dict(table[name]) for name in ("requests", "words")}
        except (RegardError, LookupError, TypeError, ValueError):
            return {"requests": {}, "words": {}}

    def get(self, key: str) -> dict[str, Any] | None:
        """What was found out about a request; None: nothing yet."""
        entry = self._read()["requests"].get(key)
        return entry if isinstance(entry, dict) and isinstance(entry.get("why"), str) else None

    def get_by_command(self, key: str) -> dict[str, Any] | None:
        """The same by the words of a command."""
        return self.get(str(self._read()["words"].get(key)))

    def put(self, key: str, entry: Table) -> None:
        """Remember what was found out about a request; where nothing can be written it is found out anew."""
        self._write("requests", key, entry)

    def put_command(self, key: str, request: str) -> None:
        """Remember which request some words ask for."""
        if self._read()["words"].get(key) != request:
            self._write("words", key, request)

    def _write(self, part: str, key: str, value: Any) -> None:
        table = self._read()
        table[part][key] = value
        with suppress(FileError):
            checksummed_json.write_json(self._path, table)
