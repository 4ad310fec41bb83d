"""Looks at one run, one at a time: what the explorer's page and `/v1/look` ask for.

Looks that were asked for, by name, so that their tiles can be asked for later: in this process, or in a folder where
several processes that share a port find them. Only what was asked is kept; whoever needs a look does it again.
"""

from __future__ import annotations

import json
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from regard.core.cancellation import cancellable
from regard.core.errors import DataError, RegardError
from regard.core.files import write_bytes
from regard.core.input_limits import limit_pixels
from regard.core.task import Task
from regard.inspection.collect import InspectionTarget, collect
from regard.inspection.interventions import Interventions
from regard.inspection.json_format import Inspection, step_to_json, to_json
from regard.inspection.map_tiles import Budget, pack_tile, pyramid, quantize
from regard.inspection.parameter_tables import ParameterTables
from regard.serve.model_lock import ModelLock
from regard.serve.requests import MAX_PIXELS
from regard.serve.uploads import Uploads

MAX_CACHED_INSPECTIONS = 4  # inspections whose tiles can still be asked for at once
TILE_BUDGET_CHARACTERS = 6_000_000  # characters of tiles sent at once; finer ones are fetched when they are looked at
CancelCheck = Callable[[], None]


class Session:
    """Looks at one run, one at a time (hooks on a model are not for two threads), and keeps the last few.

    A text is read as a stranger's, which never names a file; but what is in `own` was given by whoever started the
    server, and may.
    """

    def __init__(
        self,
        subject: InspectionTarget,
        *,
        gate: ModelLock | None = None,
        trusted_texts: Collection[str] = (),
        base: str = "/api",
        store: RequestStore | None = None,
    ) -> None:
        self._subject = subject
        self._gate = gate or ModelLock()
        self._own, self.base = {*trusted_texts, *subject.task.examples}, base
        self._asked: RequestStore = store or InMemory()
        self._kept: OrderedDict[str, Inspection] = OrderedDict()

    @property
    def input_suffixes(self) -> tuple[str, ...]:
        """Suffixes of the files that are its inputs; none where they are texts, or may be."""
        task = self._subject.task
        texts = type(task).parse_untrusted_text is not Task.parse_untrusted_text
        return () if texts else task.input_suffixes or ()

    def inspect(
        self, text: str, interventions: Interventions, cancel_check: CancelCheck = lambda: None, upload: Any = None
    ) -> dict[str, Any]:
        """A text and changes -> the JSON of the page; `ask` raises as soon as nobody wants it any more."""
        with self._gate.exclusive(cancel_check), cancellable(cancel_check):
            return self._look(InspectionRequest(text, interventions, upload))

    def _look(self, asked: InspectionRequest) -> dict[str, Any]:
        inspection = self._collect(asked)
        name = self._asked.put(asked)
        if self._subject.tables is None:
            tables = ParameterTables(inspection.positions, inspection.embeddings)
            self._subject = replace(self._subject, tables=tables)
        _limited(self._kept, name, inspection, MAX_CACHED_INSPECTIONS)
        page = {
            "server": self.base,
            "id": name,
            **({"opens": list(self.input_suffixes)} if self.input_suffixes else {}),
        }
        return {**to_json(inspection, budget=Budget(TILE_BUDGET_CHARACTERS)), **page}

    def _collect(self, asked: InspectionRequest) -> Inspection:
        uploads, task = Uploads(), self._subject.task

        def read(text: str) -> Any:
            if asked.upload is not None:
                if not task.input_suffixes:
                    raise DataError("the input of this run is a text; send no file")
                return task.parse_input(str(uploads.save(asked.upload, task.input_suffixes, "the input")))
            return task.parse_input(text) if text in self._own else task.parse_untrusted_text(text)

        try:
            with limit_pixels(max_pixels=MAX_PIXELS):
                found = collect(replace(self._subject, parse_input=read), asked.text, interventions=asked.interventions)
            return found if asked.upload is None else replace(found, title=uploads.with_client_names(found.title))
        except RegardError as wrong:
            raise type(wrong)(uploads.with_client_names(str(wrong))) from None
        finally:
            uploads.close()

    def get_inspection(self, inspection_id: str) -> Inspection:
        """What was looked at before; one that is no longer kept is looked at again, which gives the same."""
        with self._gate.exclusive():
            if inspection_id not in self._kept:
                asked = self._asked.get(inspection_id)
                if asked is None:
                    raise RegardError(f"there is no look {inspection_id[:80]!r}; look again")
                _limited(self._kept, inspection_id, self._collect(asked), MAX_CACHED_INSPECTIONS)
            return self._kept[inspection_id]

    def step(self, inspection_id: str, *, map: str, head: int) -> dict[str, Any]:
        """All the numbers of one head of a look."""
        for step in self.get_inspection(inspection_id).steps:
            if (step.map, step.head) == (map, head):
                return step_to_json(step)
        raise RegardError(f"there is no head {head} of map {map[:200]!r} in this look")

    def tile(self, inspection_id: str, *, map: int, head: int, level: int, index: tuple[int, int]) -> str | None:
        """One tile of a map that was looked at before."""
        inspection = self.get_inspection(inspection_id)
        if min(map, head, level, *index) < 0 or max(index) > len(inspection.maps) * 2**32:
            raise RegardError(f"there is no tile {index} of this look")
        try:
            levels = pyramid(quantize(inspection.maps[map].weights[head]))
            return pack_tile(levels[level], *index)
        except IndexError:
            raise RegardError(f"there is no tile map={map} head={head} level={level} of this look") from None


def _limited(kept: OrderedDict[str, Any], name: str, value: Any, most: int) -> None:
    """Into the table, from which the oldest goes."""
    kept[name] = value
    while len(kept) > most:
        kept.popitem(last=False)


MAX_STORED_REQUESTS = 64  # looks that can be done again for their tiles
MAX_STORED_UPLOADS = 4  # of them with a file that was sent: files are large
NAME = re.compile(r"[0-9a-f]{16}")


class InspectionRequest(NamedTuple):
    """What was looked at."""

    text: str
    interventions: Interventions
    upload: Any = None  # the JSON of a file that was sent, whose name the text is


class RequestStore(Protocol):
    """Where looks are kept."""

    def put(self, asked: InspectionRequest) -> str:
        """Keep one, under a new name; the oldest goes."""

    def get(self, name: str) -> InspectionRequest | None:
        """What was asked under this name, if it is still known."""


class InMemory:
    """Looks of one process."""

    def __init__(self) -> None:
        self._asked: OrderedDict[str, InspectionRequest] = OrderedDict()

    def put(self, asked: InspectionRequest) -> str:
        name = secrets.token_hex(8)  # which no page of an earlier server, nor a stranger who counts, can have
        self._asked[name] = asked
        for old in _surplus([(each, one.upload is not None) for each, one in self._asked.items()]):
            del self._asked[old]
        return name

    def get(self, name: str) -> InspectionRequest | None:
        return self._asked.get(name)


class InFolder:
    """Looks of several processes, a file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, asked: InspectionRequest) -> str:
        name = secrets.token_hex(8)
        suffix = ".json" if asked.upload is None else ".upload"
        table = {"text": asked.text, "changes": asdict(asked.interventions), "upload": asked.upload}
        write_bytes(self._folder / f"{name}{suffix}", json.dumps(table).encode())
        files = sorted(self._folder.glob("[0-9a-f]*"), key=_age)
        for old in _surplus([(path, path.suffix == ".upload") for path in files]):
            old.unlink(missing_ok=True)
        return name

    def get(self, name: str) -> InspectionRequest | None:
        if not NAME.fullmatch(name):
            return None
        for suffix in (".json", ".upload"):
            with suppress(FileNotFoundError):
                table = json.loads((self._folder / f"{name}{suffix}").read_bytes())
                off, forbid = (tuple((first, number) for first, number in table["changes"][key]) for key in PAIRS)
                return InspectionRequest(
                    table["text"], Interventions(off, forbid, table["changes"]["temperature"]), table["upload"]
                )
        return None


PAIRS = ("off", "forbid")


def _age(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:  # another process has removed it
        return 0


def _surplus(kept: list[tuple[Any, bool]]) -> list[Any]:
    """Names from the oldest to the newest, and whether each has a file -> those that go."""
    files = [name for name, sent in kept if sent][:-MAX_STORED_UPLOADS]
    rest = [name for name, _ in kept if name not in files]
    return [*files, *rest[: max(0, len(rest) - MAX_STORED_REQUESTS)]]
