"""The web server behind a served page: a new input, a what-if, the fine tiles of long maps. For this machine alone.

Every answer is the JSON of inspection/format.py. A mistake in a request is answered with 400 and one line.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace
from typing import Any

from regard.core.errors import RegardError
from regard.core.extras import require
from regard.inspection.bundle import bundle
from regard.inspection.collect import Subject, collect
from regard.inspection.format import Inspection, to_json
from regard.inspection.look import RunLike, subject
from regard.inspection.pack import Budget, pack_tile, pyramid, quantise
from regard.inspection.tables import Tables
from regard.inspection.whatif import UNCHANGED, Changes

KEPT = 4  # inspections whose tiles can still be asked for
BUDGET = 6_000_000  # characters of tiles sent at once; finer ones are fetched when they are looked at


class Session:
    """Looks at one run, one at a time (hooks on a model are not for two threads), and keeps the last few."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Inspection] = OrderedDict()
        self._count = 0

    def look(self, text: str, changes: Changes) -> dict[str, Any]:
        """A text and changes -> the JSON of the page."""
        with self._lock:
            inspection = collect(self._subject, text, changes=changes)
            if self._subject.tables is None:
                tables = Tables(inspection.positions, inspection.embeddings)
                self._subject = replace(self._subject, tables=tables)
            self._count += 1
            name = str(self._count)
            self._kept[name] = inspection
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return {**to_json(inspection, budget=Budget(BUDGET)), "server": "/api", "id": name}

    def tile(self, look: str, *, map: int, head: int, level: int, place: tuple[int, int]) -> str | None:
        """One tile of a map that was looked at before."""
        inspection = self._kept.get(look)
        if inspection is None:
            raise RegardError(f"look {look!r} is no longer kept; look again")
        try:
            levels = pyramid(quantise(inspection.maps[map].weights[head]))
            return pack_tile(levels[level], *place)
        except IndexError:
            raise RegardError(f"there is no tile map={map} head={head} level={level} of this look") from None


def read_request(body: Any) -> tuple[str, Changes]:
    """The JSON of a request -> its text and changes; anything else is one clear line."""
    if not isinstance(body, dict) or not isinstance(body.get("text"), str):
        raise RegardError(
            'a request is an object with a text: {"text": "…", "off": [], "forbid": [], "temperature": 1}'
        )
    off, forbid = _pairs(body, "off", "[attention module, head]"), _pairs(body, "forbid", "[axis, item]")
    temperature = body.get("temperature", 1)
    if isinstance(temperature, bool) or not isinstance(temperature, int | float):
        raise RegardError(f"temperature={temperature!r} must be a number")
    return body["text"], Changes(off, forbid, float(temperature))


def _pairs(body: dict[str, Any], name: str, kind: str) -> tuple[tuple[str, int], ...]:
    """A list of [name, number] in a request."""
    pairs = body.get(name, [])
    if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
        raise RegardError(f"{name}={pairs!r} must be a list of {kind}")
    return tuple((first, number) for first, number in pairs)


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and type(pair[1]) is int


def create(run: RunLike, text: str | None = None) -> Any:
    """A run -> the FastAPI application. Its first page shows a text, or else the task's first example."""
    if text is None and not run.task.examples:
        raise RegardError(f"{run.folder}: its task has no example to show first; give an input")
    return serve_subject(subject(run), run.task.examples[0] if text is None else text)


def serve_subject(looked: Subject, text: str) -> Any:
    """What is looked into and a first input -> the FastAPI application."""
    fastapi = require("fastapi", extra="serve")
    responses = require("fastapi.responses", extra="serve")
    session = Session(looked)
    app = fastapi.FastAPI(title="regard", docs_url=None, redoc_url=None)
    app.add_exception_handler(RegardError, lambda _, wrong: responses.JSONResponse({"error": str(wrong)}, 400))

    def page() -> Any:
        return responses.HTMLResponse(bundle(session.look(text, UNCHANGED)))

    def tile(look: str, *, map: int, head: int, level: int, i: int, j: int) -> dict[str, str | None]:
        return {"data": session.tile(look, map=map, head=head, level=level, place=(i, j))}

    def look(body: dict[str, Any]) -> dict[str, Any]:
        return session.look(*read_request(body))

    app.get("/")(page)
    app.get("/api/tile")(tile)
    app.post("/api/look")(look)
    return app


def serve(app: Any, *, host: str = "127.0.0.1", port: int = 8765) -> None:
    """Run until interrupted."""
    uvicorn = require("uvicorn", extra="serve")
    uvicorn.run(app, host=host, port=port, log_level="warning")
