"""The web server behind a served page: a new sentence, a what-if, the fine tiles of long maps. For this machine alone.

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
from regard.inspection.pack import Budget, pack_tile, pyramid, quantise
from regard.inspection.tables import Tables
from regard.inspection.whatif import Changes

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
            found = collect(self._subject, text, changes=changes)
            if self._subject.tables is None:
                self._subject = replace(self._subject, tables=Tables(found.positions, found.embeddings))
            self._count += 1
            name = str(self._count)
            self._kept[name] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        data = to_json(found, budget=Budget(BUDGET))
        return {**data, "server": "/api", "id": name, "forbid_axis": "source" if "source" in found.axes else None}

    def tile(self, look: str, *, map: int, head: int, level: int, place: tuple[int, int]) -> str | None:
        """One tile of a map that was looked at before."""
        found = self._kept.get(look)
        if found is None:
            raise RegardError(f"look {look!r} is no longer kept; look again")
        try:
            levels = pyramid(quantise(found.maps[map].weights[head]))
            return pack_tile(levels[level], *place)
        except IndexError:
            raise RegardError(f"there is no tile map={map} head={head} level={level} of this look") from None


def read_request(body: Any) -> tuple[str, Changes]:
    """The JSON of a request -> its text and changes; anything else is one clear line."""
    if not isinstance(body, dict) or not isinstance(body.get("text"), str):
        raise RegardError(
            'a request is an object with a text: {"text": "…", "off": [], "forbid": [], "temperature": 1}'
        )
    off, forbid, temperature = body.get("off", []), body.get("forbid", []), body.get("temperature", 1)
    if not isinstance(off, list) or not all(_is_head(one) for one in off):
        raise RegardError(f"off={off!r} must be a list of [attention module, head]")
    if not isinstance(forbid, list) or not all(type(one) is int for one in forbid):
        raise RegardError(f"forbid={forbid!r} must be a list of token numbers")
    if isinstance(temperature, bool) or not isinstance(temperature, int | float):
        raise RegardError(f"temperature={temperature!r} must be a number")
    heads = tuple((name, head) for name, head in off)
    return body["text"], Changes(heads, tuple(forbid), float(temperature))


def _is_head(one: Any) -> bool:
    return isinstance(one, list) and len(one) == 2 and isinstance(one[0], str) and type(one[1]) is int


def create(subject: Subject, text: str) -> Any:
    """A run and a first input -> the FastAPI application."""
    fastapi = require("fastapi", extra="serve")
    responses = require("fastapi.responses", extra="serve")
    session = Session(subject)
    app = fastapi.FastAPI(title="regard", docs_url=None, redoc_url=None)
    app.add_exception_handler(RegardError, lambda _, wrong: responses.JSONResponse({"error": str(wrong)}, 400))

    def page() -> Any:
        return responses.HTMLResponse(bundle(session.look(text, Changes())))

    def tile(look: str, *, map: int, head: int, level: int, i: int, j: int) -> dict[str, str | None]:
        return {"data": session.tile(look, map=map, head=head, level=level, place=(i, j))}

    def look(body: dict[str, Any]) -> dict[str, Any]:
        asked, changes = read_request(body)
        return session.look(asked, changes)

    app.get("/")(page)
    app.get("/api/tile")(tile)
    app.post("/api/look")(look)
    return app


def serve(app: Any, *, host: str = "127.0.0.1", port: int = 8765) -> None:
    """Run until interrupted."""
    uvicorn = require("uvicorn", extra="serve")
    uvicorn.run(app, host=host, port=port, log_level="warning")
