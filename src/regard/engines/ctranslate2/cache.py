"""Cache of CTranslate2 exports: their folders, their checksums, and the comparisons with the native engine. No torch.

An export is stored in the cache folder under a key of everything that decides it: weights, configuration, files of the
task and versions. It is never in the run folder, which may be untrusted or read-only. Next to the model,
equivalence.json says for every kind of request that was compared whether the export gives the native results.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from regard.core import checksummed_json
from regard.core import trust as trusts
from regard.core.errors import CheckpointError, FileError, RegardError
from regard.core.files import atomic_folder, cache_folder, file_sha256
from regard.core.version import __version__

SEAL, EQUIVALENCE = "seal.json", "equivalence.json"
Table = Mapping[str, Any]


def cache_path(run: Path, *, trusted: bool | None = None) -> tuple[Path, str]:
    """Run folder -> the folder of its export, and the key of the export.

    The export of an untrusted run is never used for a run in another folder. `trusted` None: as recorded by core/trust.
    """
    key = export_key(run, trusted=trusts.is_trusted(run) if trusted is None else trusted)
    return cache_folder() / "ctranslate2" / key[:32], key


def export_key(run: Path, *, trusted: bool) -> str:
    """Return a checksum of everything that decides an export and its comparisons with the native engine."""
    content = {
        "weights": file_sha256(run / trusts.WEIGHTS_FILE),
        "config": file_sha256(run / trusts.CONFIG_FILE),
        "files": {name: file_sha256(run / name) for name in _task_files(run)},
        "versions": [__version__, _ctranslate2_version()],
        "folder": "" if trusted else str(run.resolve()),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _task_files(run: Path) -> list[str]:
    """Return the names of the task's files in a run folder; all files if its config.json does not list them."""
    files = checksummed_json.read_json(run / trusts.CONFIG_FILE).get("files")
    if files is None:
        return sorted(path.name for path in run.iterdir() if path.is_file())
    if not isinstance(files, dict) or not all(trusts.is_inside(run, name) for name in files):
        raise CheckpointError(f"{run / trusts.CONFIG_FILE}: not written by regard (files must be names with checksums)")
    return sorted(files)


def _ctranslate2_version() -> str:
    try:
        return metadata.version("ctranslate2")
    except metadata.PackageNotFoundError:
        return ""


def is_complete(folder: Path, key: str) -> bool:
    """Return True if a folder contains the export with this key and no file of it has changed."""
    try:
        seal = checksummed_json.read_json(folder / SEAL)
        files = {path.name: file_sha256(path) for path in folder.iterdir() if path.name not in (SEAL, EQUIVALENCE)}
    except (RegardError, OSError):
        return False
    return bool(seal.get("key") == key and seal.get("files") == files)


def create_export(folder: Path, key: str, write: Callable[[Path], None]) -> None:
    """Write an export with `write`, seal it with its checksums, and replace the previous one atomically."""
    try:
        with atomic_folder(folder, replace=True) as draft:
            write(draft)
            files = {path.name: file_sha256(path) for path in draft.iterdir()}
            checksummed_json.write_json(draft / SEAL, {"key": key, "files": files})
    except FileError:
        if not is_complete(folder, key):  # else another process has created the same export in the meantime
            raise


def request_key(data: Table, options: Table, decoding: Table) -> str:
    """Return the cache key of a kind of request."""
    return hashlib.sha256(json.dumps([data, options, decoding], sort_keys=True).encode()).hexdigest()[:16]


def command_key(config: Path, settings: Sequence[str]) -> str:
    """Return the cache key of the unparsed arguments of a command; their meaning depends on config.json."""
    return hashlib.sha256(f"{file_sha256(config)} {json.dumps(list(settings))}".encode()).hexdigest()[:16]


class EquivalenceCache:
    """equivalence.json of an export: the compared requests, and the command arguments that stand for them."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / EQUIVALENCE

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the entry of a request; None if it was not compared."""
        entry = self._read()["requests"].get(key)
        return entry if isinstance(entry, dict) and isinstance(entry.get("why"), str) else None

    def get_by_command(self, key: str) -> dict[str, Any] | None:
        """Return the entry of the request that command arguments stand for."""
        return self.get(str(self._read()["words"].get(key)))

    def put(self, key: str, entry: Table) -> None:
        """Store the entry of a request. If the file cannot be written, the request is compared again later."""
        self._write("requests", key, entry)

    def put_command(self, key: str, request: str) -> None:
        """Store which request command arguments stand for."""
        if self._read()["words"].get(key) != request:
            self._write("words", key, request)

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            table = checksummed_json.read_json(self._path)
            return {name: dict(table[name]) for name in ("requests", "words")}
        except (RegardError, LookupError, TypeError, ValueError):
            return {"requests": {}, "words": {}}

    def _write(self, part: str, key: str, value: Any) -> None:
        table = self._read()
        table[part][key] = value
        with suppress(FileError):
            checksummed_json.write_json(self._path, table)
