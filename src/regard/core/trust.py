"""Trust: only trusted runs may import code from other packages or access the network.

A run is trusted if this user trained it on this machine, or passes --trust. The id of a run trained here and the
checksum of its config.json are recorded in the file `trusted_runs` of the cache folder. A run that was modified or
trained elsewhere is therefore not trusted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from regard.core.errors import FileError, TrustError
from regard.core.files import append_bytes, cache_folder, open_regular
from regard.core.pretrained_runs import is_pretrained

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
TRUSTED_FILE = "trusted_runs"
OLD_FILE = "trusted"  # the name before version 0.3; read, never written
_MAX_CONFIG_BYTES = 16 * 2**20
_DOTTED_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_untrusted_run: ContextVar[Path | None] = ContextVar("untrusted_run", default=None)  # the untrusted run in use


def mark_trusted(run: Path) -> None:
    """Record that a run was trained here. If the record cannot be written, the run needs --trust later."""
    line = _trust_line(run)
    if line is not None and not is_trusted(run):
        with suppress(FileError, OSError):
            cache_folder().mkdir(parents=True, exist_ok=True)
            append_bytes(cache_folder() / TRUSTED_FILE, f"{line}\n".encode())


def is_trusted(run: Path) -> bool:
    """Return True if a run was trained here and its configuration has not changed since."""
    if is_pretrained(run):  # part of the package
        return True
    line = _trust_line(run)
    return line is not None and any(line in _trusted_lines(cache_folder() / name) for name in (TRUSTED_FILE, OLD_FILE))


def _trusted_lines(path: Path) -> list[str]:
    try:
        with open_regular(path) as file:
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        return []


def _trust_line(run: Path) -> str | None:
    """Return the run's id and the checksum of its configuration; None if it cannot be read."""
    try:
        with open_regular(run / CONFIG_FILE) as file:
            content = file.read(_MAX_CONFIG_BYTES)
        table = json.loads(content)
        return f"{table.get('run')} {hashlib.sha256(content).hexdigest()}"
    except (OSError, ValueError, AttributeError, RecursionError):
        return None


def trust_scope(run: Path, *, trusted: bool) -> Any:
    """Return a context for using a run; inside that of an untrusted run, imports and network access are refused."""
    return nullcontext() if trusted else _without_trust(run)


@contextmanager
def _without_trust(run: Path) -> Iterator[None]:
    token = _untrusted_run.set(run)
    try:
        yield
    finally:
        _untrusted_run.reset(token)


def untrusted_run() -> Path | None:
    """Return the untrusted run in whose context this is called; None if there is none."""
    return _untrusted_run.get()


def is_inside(run: Path, name: str) -> bool:
    """Return True if a name is a relative path that stays inside the run folder, links included."""
    parts = name.split("/")
    if not all(part not in ("", ".", "..") and not set(part) & set("\\:\0") for part in parts):
        return False
    return (run / name).resolve().is_relative_to(run.resolve())


def check_import(name: str) -> None:
    """Raise a TrustError that lists the modules an untrusted run would import from other packages."""
    run = _untrusted_run.get()
    if run is not None:
        names = ", ".join(dict.fromkeys([name, *external_modules(run)]))
        raise TrustError(
            f"{run}: this run would import code from outside regard: {names}; it was not trained here, or its "
            f"{CONFIG_FILE} has changed since; if you trust it, use --trust, or trust=True in Python"
        )


def check_network(address: str) -> None:
    """Raise a TrustError if an untrusted run would access the network."""
    run = _untrusted_run.get()
    if run is not None:
        raise TrustError(
            f"{run}: this run would fetch {address} over the network; it was not trained here, or its {CONFIG_FILE} "
            "has changed since; if you trust it, use --trust, or trust=True in Python"
        )


def external_modules(run: Path) -> list[str]:
    """Return the dotted module names in the task, model and decoding settings of a run's configuration."""
    try:
        table = json.loads((run / CONFIG_FILE).read_bytes())
        names = [table.get("task"), *(text for name in ("model", "decoding") for text in _strings(table.get(name)))]
    except (OSError, ValueError, AttributeError, RecursionError):
        return []
    return [name for name in names if isinstance(name, str) and _DOTTED_NAME.fullmatch(name)]


def _strings(value: Any) -> Iterator[str]:
    """Yield all strings in nested tables and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)
