"""Looks that were asked for, by name, so that their tiles can be asked for later: in this process, or in a folder where
several processes that share a port find them. Only what was asked is kept; whoever needs a look does it again."""

from __future__ import annotations

import json
import re
import secrets
from collections import OrderedDict
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from regard.core.files import write_bytes
from regard.inspection.whatif import Changes

MOST = 64  # looks that can be done again for their tiles
FILES = 4  # of them with a file that was sent: files are large
NAME = re.compile(r"[0-9a-f]{16}")


class Asked(NamedTuple):
    """What was looked at."""

    text: str
    changes: Changes
    upload: Any = None  # the JSON of a file that was sent, whose name the text is


class Remembered(Protocol):
    """Where looks are kept."""

    def put(self, asked: Asked) -> str:
        """Keep one, under a new name; the oldest goes."""

    def get(self, name: str) -> Asked | None:
        """What was asked under this name, if it is still known."""


class InMemory:
    """Looks of one process."""

    def __init__(self) -> None:
        self._asked: OrderedDict[str, Asked] = OrderedDict()

    def put(self, asked: Asked) -> str:
        name = secrets.token_hex(8)  # which no page of an earlier server, nor a stranger who counts, can have
        self._asked[name] = asked
        for old in _surplus([(each, one.upload is not None) for each, one in self._asked.items()]):
            del self._asked[old]
        return name

    def get(self, name: str) -> Asked | None:
        return self._asked.get(name)


class InFolder:
    """Looks of several processes, a file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, asked: Asked) -> str:
        name = secrets.token_hex(8)
        suffix = ".json" if asked.upload is None else ".upload"
        table = {"text": asked.text, "changes": asdict(asked.changes), "upload": asked.upload}
        write_bytes(self._folder / f"{name}{suffix}", json.dumps(table).encode())
        files = sorted(self._folder.glob("[0-9a-f]*"), key=_age)
        for old in _surplus([(path, path.suffix == ".upload") for path in files]):
            old.unlink(missing_ok=True)
        return name

    def get(self, name: str) -> Asked | None:
        if not NAME.fullmatch(name):
            return None
        for suffix in (".json", ".upload"):
            with suppress(FileNotFoundError):
                table = json.loads((self._folder / f"{name}{suffix}").read_bytes())
                off, forbid = (tuple((first, number) for first, number in table["changes"][key]) for key in PAIRS)
                return Asked(table["text"], Changes(off, forbid, table["changes"]["temperature"]), table["upload"])
        return None


PAIRS = ("off", "forbid")


def _age(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:  # another process has removed it
        return 0


def _surplus(kept: list[tuple[Any, bool]]) -> list[Any]:
    """Names from the oldest to the newest, and whether each has a file -> those that go."""
    files = [name for name, sent in kept if sent][:-FILES]
    rest = [name for name, _ in kept if name not in files]
    return [*files, *rest[: max(0, len(rest) - MOST)]]
