"""The web server behind a served page: a new input, a what-if, the fine tiles of long maps. For this machine alone.

Every answer is the JSON of inspection/format.py. A mistake in a request is answered with 400 and one line. What nobody
waits for any more is not computed further.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from regard.core.errors import RegardError
from regard.core.extras import require
from regard.core.giving_up import GivenUp, asking
from regard.inspection.bundle import bundle
from regard.inspection.collect import Subject, collect
from regard.inspection.format import Inspection, step_to_json, to_json
from regard.inspection.look import RunLike, subject
from regard.inspection.pack import Budget, pack_tile, pyramid, quantise
from regard.inspection.refusal import refusal
from regard.inspection.tables import Tables
from regard.inspection.whatif import UNCHANGED, Changes
from regard.serve.limits import Limits, is_loopback
from regard.serve.request import read_json, read_request

KEPT = 4  # inspections whose tiles can still be asked for
BUDGET = 6_000_000  # characters of tiles sent at once; finer ones are fetched when they are looked at
LONGEST = 60.0  # seconds a look may take
ENDING = 2  # seconds for requests under way when the server is told to end
CONNECTIONS = 256  # open at once, idle ones included
Ask = Callable[[], None]


class Session:
    """Looks at one run, one at a time (hooks on a model are not for two threads), and keeps the last few."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._lock = threading.Lock()
        self._asked: list[tuple[str, Changes]] = []  # all looks; the number of one is its name
        self._kept: OrderedDict[str, Inspection] = OrderedDict()

    def look(self, text: str, changes: Changes, ask: Ask = lambda: None) -> dict[str, Any]:
        """A text and changes -> the JSON of the page; `ask` raises as soon as nobody wants it any more."""
        while not self._lock.acquire(timeout=0.1):
            ask()
        try:
            return self._look(text, changes, ask)
        finally:
            self._lock.release()

    def _look(self, text: str, changes: Changes, ask: Ask) -> dict[str, Any]:
        with asking(ask):
            inspection = collect(self._subject, text, changes=changes)
        self._asked.append((text, changes))
        if self._subject.tables is None:
            tables = Tables(inspection.positions, inspection.embeddings)
            self._subject = replace(self._subject, tables=tables)
        name = str(len(self._asked))
        self._keep(name, inspection)
        return {**to_json(inspection, budget=Budget(BUDGET)), "server": "/api", "id": name}

    def _keep(self, name: str, inspection: Inspection) -> None:
        self._kept[name] = inspection
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def kept(self, look: str) -> Inspection:
        """What was looked at before; one that is no longer kept is looked at again, which gives the same."""
        with self._lock:
            if look not in self._kept:
                if not look.isdecimal() or not 1 <= int(look) <= len(self._asked):
                    raise RegardError(f"there is no look {look!r}; look again")
                text, changes = self._asked[int(look) - 1]
                self._keep(look, collect(self._subject, text, changes=changes))
            return self._kept[look]

    def step(self, look: str, *, map: str, head: int) -> dict[str, Any]:
        """All the numbers of one head of a look."""
        for step in self.kept(look).steps:
            if (step.map, step.head) == (map, head):
                return step_to_json(step)
        raise RegardError(f"there is no head {head} of map {map!r} in this look")

    def tile(self, look: str, *, map: int, head: int, level: int, place: tuple[int, int]) -> str | None:
        """One tile of a map that was looked at before."""
        inspection = self.kept(look)
        if min(map, head, level, *place) < 0 or max(place) > len(inspection.maps) * 2**32:
            raise RegardError(f"there is no tile {place} of this look")
        try:
            levels = pyramid(quantise(inspection.maps[map].weights[head]))
            return pack_tile(levels[level], *place)
        except IndexError:
            raise RegardError(f"there is no tile map={map} head={head} level={level} of this look") from None


def create(run: RunLike, text: str | None = None, *, host: str = "127.0.0.1") -> Any:
    """A run -> the application. Its first page shows a text, or else the task's first example."""
    if text is None and not run.task.examples:
        raise RegardError(f"{run.folder}: its task has no example to show first; give an input")
    return serve_subject(subject(run), run.task.examples[0] if text is None else text, host=host)


def serve_subject(looked: Subject, text: str, *, host: str = "127.0.0.1") -> Any:
    """What is looked into and a first input -> the application. On a host that is this machine alone, only requests
    that are addressed to it are answered."""
    fastapi = require("fastapi", extra="serve")
    responses = require("fastapi.responses", extra="serve")
    session = Session(looked)
    app = fastapi.FastAPI(title="regard", docs_url=None, redoc_url=None, openapi_url=None)

    async def page(request: Any) -> Any:
        asked = request.query_params.get("text", text)
        seen = await _attended(request, lambda ask: session.look(asked, UNCHANGED, ask))
        return responses.HTMLResponse(bundle(seen))

    async def look(request: Any) -> Any:
        asked = read_request(read_json(await request.body()))
        return responses.JSONResponse(await _attended(request, lambda ask: session.look(*asked, ask)))

    def tile(look: str, *, map: int, head: int, level: int, i: int, j: int) -> dict[str, str | None]:
        return {"data": session.tile(look, map=map, head=head, level=level, place=(i, j))}

    def step(look: str, *, map: str, head: int) -> dict[str, Any]:
        return session.step(look, map=map, head=head)

    def refused(request: Any, wrong: Exception) -> Any:
        status = 503 if isinstance(wrong, GivenUp) else 400
        if not request.url.path.startswith("/api/"):  # somebody reads it
            return responses.HTMLResponse(refusal(str(wrong), request.query_params.get("text", text)), status)
        return responses.JSONResponse({"error": str(wrong)}, status)

    def missing(request: Any, _: Any) -> Any:
        line = f"there is no page {request.url.path[:80]!r} here"
        if request.url.path.startswith("/api/"):
            return responses.JSONResponse({"error": line}, 404)
        return responses.HTMLResponse(refusal(line, text), 404)

    def unread(_: Any, wrong: Any) -> Any:
        names = ", ".join(sorted({str(part["loc"][-1]) for part in wrong.errors()}))
        return responses.JSONResponse(
            {"error": f"a tile or a head is asked for by whole numbers; look at: {names}"}, 400
        )

    app.add_exception_handler(RegardError, refused)
    app.add_exception_handler(404, missing)
    app.add_exception_handler(fastapi.exceptions.RequestValidationError, unread)
    app.add_route("/", page, methods=["GET"])
    app.add_route("/api/look", look, methods=["POST"])
    app.get("/api/tile")(tile)
    app.get("/api/step")(step)
    app.add_middleware(Limits, loopback=is_loopback(host))
    return app


async def _attended(request: Any, work: Callable[[Ask], dict[str, Any]]) -> dict[str, Any]:
    """Work in a thread of its own, for as long as the client waits for it and time allows."""
    gone, ends = threading.Event(), time.monotonic() + LONGEST

    def ask() -> None:
        if gone.is_set():
            raise GivenUp("the client has gone; nothing was computed further")
        if time.monotonic() > ends:
            raise GivenUp(f"it took longer than {LONGEST:g} seconds; give a shorter input")

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()

    watching = asyncio.ensure_future(watch())
    try:
        return await asyncio.get_running_loop().run_in_executor(None, work, ask)
    except asyncio.CancelledError:
        raise GivenUp("the server has been told to end") from None
    finally:
        gone.set()
        watching.cancel()


def serve(app: Any, taken: socket.socket) -> None:
    """Run on a socket until interrupted; what is half sent or half answered then does not keep it."""
    uvicorn = require("uvicorn", extra="serve")
    settings = uvicorn.Config(
        app, log_level="warning", timeout_graceful_shutdown=ENDING, limit_concurrency=CONNECTIONS, timeout_keep_alive=5
    )
    uvicorn.Server(settings).run(sockets=[taken])
