"""Inspections of one run, one at a time: they serve the explorer's page and `POST /v1/look`.

Every inspection has an id, under which the page fetches tiles and steps later. Only the request is stored, in memory or
in a folder shared by several processes; the inspection is recomputed when it is needed.
"""

from __future__ import annotations

import json
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any, Protocol

from regard.core.cancellation import cancellable
from regard.core.errors import ConfigError, DataError, RegardError
from regard.core.files import write_bytes
from regard.core.input_limits import limit_pixels
from regard.core.task import Task
from regard.inspection.collect import InspectionTarget, collect
from regard.inspection.interventions import Interventions
from regard.inspection.json_format import Inspection, step_to_json, to_json
from regard.inspection.map_tiles import Budget, pack_tile, pyramid, quantize
from regard.inspection.parameter_tables import ParameterTables
from regard.serve.inspection_cache import InspectionCache
from regard.serve.model_lock import ModelLock
from regard.serve.requests import MAX_PIXELS, NO_OPTIONS, InspectionRequest, OptionSchema, parse_options
from regard.serve.uploads import Uploads

MAX_STORED_REQUESTS = 64  # requests that can be recomputed for their tiles
MAX_STORED_UPLOADS = 4  # stored requests with an uploaded file: files are large
TILE_BUDGET_CHARACTERS = 6_000_000  # characters of tiles in one response; finer tiles are fetched on demand
ID_PATTERN = re.compile(r"[0-9a-f]{16}")
CancelCheck = Callable[[], None]


class Session:
    """Inspects one run and caches the last few inspections.

    The lock of the model is held exclusively, because hooks on a model must not serve two threads. Text from requests
    is never interpreted as a path. Only the examples of the task and `trusted_texts`, which were given on the command
    line, may name files.
    """

    def __init__(
        self,
        target: InspectionTarget,
        *,
        lock: ModelLock | None = None,
        trusted_texts: Collection[str] = (),
        base: str = "/api",
        store: RequestStore | None = None,
        cache: InspectionCache | None = None,
        option_schema: OptionSchema | None = None,
    ) -> None:
        self._target = target
        self._lock = lock or ModelLock()
        self._trusted_texts, self.base = {*trusted_texts, *target.task.examples}, base
        self._store: RequestStore = store or InMemory()
        self._cache = InspectionCache() if cache is None else cache  # shared by the sessions of a server
        self.option_schema = option_schema  # options that a request may set; None: it may set no option

    @property
    def input_suffixes(self) -> tuple[str, ...]:
        """Suffixes of the files that are inputs; () if an input may be a text."""
        task = self._target.task
        accepts_text = type(task).parse_untrusted_text is not Task.parse_untrusted_text
        return () if accepts_text else task.input_suffixes or ()

    @property
    def task_name(self) -> str:
        """The name of the task of the run."""
        return self._target.run_info.task

    def inspect(
        self,
        text: str,
        interventions: Interventions,
        cancel_check: CancelCheck = lambda: None,
        upload: Any = None,
        options: Mapping[str, Any] = NO_OPTIONS,
    ) -> dict[str, Any]:
        """Return the JSON of the page; `cancel_check` raises if the request was cancelled."""
        request = InspectionRequest(text, interventions, upload, options)
        with self._lock.exclusive(cancel_check), cancellable(cancel_check):
            inspection = self._collect(request)
            inspection_id = self._store.put(request)
            if self._target.tables is None:
                tables = ParameterTables(inspection.positions, inspection.embeddings)
                self._target = replace(self._target, tables=tables)
            self._cache.put(inspection_id, inspection)
            files = {"opens": list(self.input_suffixes), "generates": "" in self._target.task.examples}
            page = {"server": self.base, "id": inspection_id, **(files if self.input_suffixes else {})}
            return {**to_json(inspection, budget=Budget(TILE_BUDGET_CHARACTERS), max_step_numbers=0), **page}

    def get_inspection(self, inspection_id: str, cancel_check: CancelCheck = lambda: None) -> Inspection:
        """Return an earlier inspection; it is recomputed if it is not in the cache, with the same result.

        Requests with equal ids wait for the first of them, which computes it.
        """
        request = self._store.get(inspection_id)
        if request is None:  # ids of other runs are unknown here, even if their inspection is in the shared cache
            raise RegardError(f"no inspection {inspection_id[:80]!r}; send the input again")
        cached = self._cache.get(inspection_id)
        if cached is not None:
            return cached
        with self._lock.exclusive(cancel_check), cancellable(cancel_check):
            inspection = self._cache.get(inspection_id)  # another request may have computed it in the meantime
            if inspection is None:
                inspection = self._collect(request)
                self._cache.put(inspection_id, inspection)
            return inspection

    def step(
        self, inspection_id: str, *, map: str, head: int, cancel_check: CancelCheck = lambda: None
    ) -> dict[str, Any]:
        """Return all numbers of one head of an earlier inspection."""
        for step in self.get_inspection(inspection_id, cancel_check).steps:
            if (step.map, step.head) == (map, head):
                return step_to_json(step)
        raise RegardError(f"no head {head} of map {map[:200]!r} in this inspection")

    def tile(
        self,
        inspection_id: str,
        *,
        map: int,
        head: int,
        level: int,
        index: tuple[int, int],
        cancel_check: CancelCheck = lambda: None,
    ) -> str | None:
        """Return one tile of a map of an earlier inspection."""
        inspection = self.get_inspection(inspection_id, cancel_check)
        if min(map, head, level, *index) < 0 or max(index) > len(inspection.maps) * 2**32:
            raise RegardError(f"no tile {index} in this inspection")
        try:
            levels = pyramid(quantize(inspection.maps[map].weights[head]))
            return pack_tile(levels[level], *index)
        except IndexError:
            raise RegardError(f"no tile map={map} head={head} level={level} in this inspection") from None

    def _options(self, request: InspectionRequest) -> Any:
        """Return the options of a request; those of the run if the request sets none."""
        if not request.options:
            return self._target.options
        if self.option_schema is None:
            raise ConfigError("options: the page of this run has no options; leave them out")
        return parse_options(self.option_schema, request.options, "options")

    def _collect(self, request: InspectionRequest) -> Inspection:
        uploads, task = Uploads(), self._target.task

        def parse_input(text: str) -> Any:
            if request.upload is not None:
                if not task.input_suffixes:
                    raise DataError("the input of this run is a text; do not send a file")
                return task.parse_input(str(uploads.save(request.upload, task.input_suffixes, "the input")))
            return task.parse_input(text) if text in self._trusted_texts else task.parse_untrusted_text(text)

        try:
            with limit_pixels(max_pixels=MAX_PIXELS):
                target = replace(self._target, parse_input=parse_input, options=self._options(request))
                inspection = collect(target, request.text, interventions=request.interventions)
            if request.upload is None:
                return inspection
            return replace(inspection, title=uploads.with_client_names(inspection.title))
        except RegardError as error:
            raise type(error)(uploads.with_client_names(str(error))) from None
        finally:
            uploads.close()


class RequestStore(Protocol):
    """Store of inspection requests by id."""

    def put(self, request: InspectionRequest) -> str:
        """Store a request under a new id; the oldest ones are removed."""

    def get(self, inspection_id: str) -> InspectionRequest | None:
        """Return the request with this id, or None if it is not stored."""


class InMemory:
    """Request store of one process."""

    def __init__(self) -> None:
        self._requests: OrderedDict[str, InspectionRequest] = OrderedDict()

    def put(self, request: InspectionRequest) -> str:
        inspection_id = _new_id()
        self._requests[inspection_id] = request
        stored = [(stored_id, stored.upload is not None) for stored_id, stored in self._requests.items()]
        for old_id in _surplus(stored):
            del self._requests[old_id]
        return inspection_id

    def get(self, inspection_id: str) -> InspectionRequest | None:
        return self._requests.get(inspection_id)


class InFolder:
    """Request store of several processes: one file per request."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, request: InspectionRequest) -> str:
        inspection_id = _new_id()
        suffix = ".json" if request.upload is None else ".upload"
        table = {
            "text": request.text,
            "interventions": astuple(request.interventions),
            "upload": request.upload,
            "options": dict(request.options),
        }
        write_bytes(self._folder / f"{inspection_id}{suffix}", json.dumps(table).encode())
        files = sorted(self._folder.glob("[0-9a-f]*"), key=_modified_at)
        for old_path in _surplus([(path, path.suffix == ".upload") for path in files]):
            old_path.unlink(missing_ok=True)
        return inspection_id

    def get(self, inspection_id: str) -> InspectionRequest | None:
        if not ID_PATTERN.fullmatch(inspection_id):
            return None
        for suffix in (".json", ".upload"):
            with suppress(FileNotFoundError):
                table = json.loads((self._folder / f"{inspection_id}{suffix}").read_bytes())
                *pair_lists, temperature = table["interventions"]
                heads, items = (tuple((name, index) for name, index in pairs) for pairs in pair_lists)
                interventions = Interventions(heads, items, temperature)
                return InspectionRequest(table["text"], interventions, table["upload"], table["options"])
        return None


def _new_id() -> str:
    """Return a random id, which clients cannot guess and no earlier server has used."""
    return secrets.token_hex(8)


def _modified_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:  # removed by another process
        return 0


def _surplus(stored: list[tuple[Any, bool]]) -> list[Any]:
    """(key, has an upload) from the oldest to the newest -> keys to remove."""
    uploads = [key for key, has_upload in stored if has_upload][:-MAX_STORED_UPLOADS]
    remaining = [key for key, _ in stored if key not in uploads]
    return [*uploads, *remaining[: max(0, len(remaining) - MAX_STORED_REQUESTS)]]
