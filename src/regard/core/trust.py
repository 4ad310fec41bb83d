"""Which runs may import code of other packages, and fetch data over a network: those that were trained on this machine
by this user, and those the user says to trust. Of all others the configuration is read, and neither is done.

A run that is trained here is remembered by its id and the checksum of its config.json, in the file `trusted` of the
cache folder. So a run that was changed, or made elsewhere, is not.
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

CONFIG_FILE = "config.json"
TRUSTED_FILE = "trusted_runs"
OLD_FILE = "trusted"  # its name before version 0.3; read, never written
_LONGEST = 16 * 2**20  # bytes of a config.json
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_stranger: ContextVar[Path | None] = ContextVar("stranger", default=None)  # the run that is being used without trust


def mark_trusted(run: Path) -> None:
    """Note that a run was trained here. Where that cannot be written, it must be trusted by hand later on."""
    line = _line(run)
    if line is not None and not is_trusted(run):
        with suppress(FileError, OSError):
            cache_folder().mkdir(parents=True, exist_ok=True)
            append_bytes(cache_folder() / TRUSTED_FILE, f"{line}\n".encode())


def is_trusted(run: Path) -> bool:
    """Whether a run was trained here and its configuration is what it was then."""
    line = _line(run)
    return line is not None and any(line in _trusted_lines(cache_folder() / name) for name in (TRUSTED_FILE, OLD_FILE))


def _trusted_lines(path: Path) -> list[str]:
    try:
        with open_regular(path) as file:
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        return []


def _line(run: Path) -> str | None:
    """The run's id and the checksum of its configuration; None where there is no such file."""
    try:
        with open_regular(run / CONFIG_FILE) as file:
            content = file.read(_LONGEST)
        table = json.loads(content)
        return f"{table.get('run')} {hashlib.sha256(content).hexdigest()}"
    except (OSError, ValueError, AttributeError, RecursionError):
        return None


def trust_scope(run: Path, *, trusted: bool) -> Any:
    """A context in which a run is used: without trust nothing is imported or fetched for it."""
    return nullcontext() if trusted else _without_trust(run)


@contextmanager
def _without_trust(run: Path) -> Iterator[None]:
    token = _stranger.set(run)
    try:
        yield
    finally:
        _stranger.reset(token)


def check_import(name: str) -> None:
    """Refuse to import a module of another package for a run that is not trusted; say what else it would import."""
    run = _stranger.get()
    if run is not None:
        names = ", ".join(dict.fromkeys([name, *external_modules(run)]))
        raise TrustError(
            f"{run}: this run would import code from outside regard: {names}; it was not trained here, or its "
            f"{CONFIG_FILE} has changed since; if you trust it, use --trust, or trust=True in Python"
        )


def check_network(address: str) -> None:
    """Refuse to fetch anything for a run that is not trusted."""
    run = _stranger.get()
    if run is not None:
        raise TrustError(
            f"{run}: this run would fetch {address} over the network; it was not trained here, or its {CONFIG_FILE} has "
            "changed since; if you trust it, use --trust, or trust=True in Python"
        )


def external_modules(run: Path) -> list[str]:
    """The dotted names in a run's configuration, in the places where modules are chosen."""
    try:
        table = json.loads((run / CONFIG_FILE).read_bytes())
        chosen = [table.get("task"), *(value for name in ("model", "decoding") for value in _texts(table.get(name)))]
    except (OSError, ValueError, AttributeError, RecursionError):
        return []
    return [name for name in chosen if isinstance(name, str) and _DOTTED.fullmatch(name)]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
