"""The web application: the explorer's pages of one run or several, and what every answer of the server has in common.

Every answer is the JSON of inspection/json_format.py. A mistake in a request is answered with 400 and one line. What nobody
waits for any more is not computed further. The verbs of runs are added by service.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

from regard.core.errors import RegardError
from regard.core.extras import require
from regard.inspection.collect import InspectionTarget
from regard.inspection.error_page import error_page
from regard.inspection.html_bundle import bundle
from regard.inspection.interventions import NO_INTERVENTIONS
from regard.inspection.report import RunLike, target_of
from regard.serve.cancellation import run_until_disconnect
from regard.serve.errors import add_error_handlers
from regard.serve.inspections import Session
from regard.serve.middleware import Limits, Message, Receive, Send, ServerPolicy, is_loopback
from regard.serve.predict_endpoint import PredictEndpoint, is_predict_request
from regard.serve.requests import NotFound, parse_inspection_request, read_json
from regard.serve.server import on_shutdown_signal

INSPECTION_THREADS = 4  # threads for looks, most of which wait for a model; answers have others


class ExplorerPage(NamedTuple):
    """A run whose page is shown, and what it shows first."""

    session: Session
    text: str


def create(run: RunLike, text: str | None = None, *, host: str = "127.0.0.1") -> Any:
    """A run -> the application that is its explorer. Its first page shows a text, or else the task's first example."""
    return explorer_app(target_of(run), first_text(run, text), host=host)


def first_text(run: RunLike, text: str | None = None) -> str:
    """What a run's page shows first."""
    if text is None and not run.task.examples:
        raise RegardError(f"{run.folder}: its task has no example to show first; give an input")
    return run.task.examples[0] if text is None else text


def explorer_app(looked: InspectionTarget, text: str, *, host: str = "127.0.0.1") -> Any:
    """What is looked into and a first input -> the application. On a host that is this machine alone, only requests
    that are addressed to it are answered."""
    return application(
        {"": ExplorerPage(Session(looked, trusted_texts=(text,)), text)}, ServerPolicy(loopback=is_loopback(host))
    )


def base_of(name: str, count: int) -> str:
    """Where the page of a run asks the server: by its name where there are several."""
    return "/api" if count == 1 else f"/api/{quote(name, safe='')}"


def application(
    explored: Mapping[str, ExplorerPage],
    allowed: ServerPolicy,
    *,
    closing: Callable[[], None] = lambda: None,
    direct: PredictEndpoint | None = None,
) -> Any:
    """Runs by name -> the application with their pages; `closing` is called when the last request is answered, and what
    `direct` answers does not go through the layers of FastAPI, which are as much work as all the rest."""
    base: Any = require("fastapi", extra="serve").FastAPI
    looks = ThreadPoolExecutor(INSPECTION_THREADS)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        with on_shutdown_signal(allowed.end):
            yield
        closing()
        looks.shutdown(wait=False, cancel_futures=True)

    limited = None if direct is None else Limits(direct, allowed=allowed)

    class Application(base):  # type: ignore[misc]  # known when fastapi is there
        async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
            if limited is None or not is_predict_request(scope):
                await super().__call__(scope, receive, send)
            else:
                scope["app"] = self
                await limited(scope, receive, send)

    app = Application(title="regard", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    add_error_handlers(app, partial(_refusal, explored))
    add_pages(app, explored)
    app.add_middleware(Limits, allowed=allowed)
    app.state.allowed, app.state.looks = allowed, looks
    return app


def add_pages(app: Any, explored: Mapping[str, ExplorerPage]) -> None:
    """The explorer: `/`, and what its page asks for under `/api`."""
    responses = require("fastapi.responses", extra="serve")

    async def page(request: Any) -> Any:
        name, one = _named(explored, request.query_params.get("run"))
        asked = request.query_params.get("text", one.text)
        seen = await run_until_disconnect(request, lambda ask: one.session.inspect(asked, NO_INTERVENTIONS, ask))
        choices = {"choices": [{"name": each, "shown": each == name} for each in explored]} if len(explored) > 1 else {}
        return responses.HTMLResponse(bundle(seen | choices))

    async def look(request: Any) -> Any:
        _, one = _named(explored, request.path_params.get("run"))
        body = read_json(await request.body())
        text, changes = parse_inspection_request(body)
        upload = body.get("upload")
        found = await run_until_disconnect(request, lambda ask: one.session.inspect(text, changes, ask, upload))
        return responses.JSONResponse(found)

    def tile(look: str, *, run: str | None = None, map: int, head: int, level: int, i: int, j: int) -> dict[str, Any]:
        session = _named(explored, run)[1].session
        return {"data": session.tile(look, map=map, head=head, level=level, index=(i, j))}

    def step(look: str, *, run: str | None = None, map: str, head: int) -> dict[str, Any]:
        return _named(explored, run)[1].session.step(look, map=map, head=head)

    app.add_route("/", page, methods=["GET"])
    for base in ("/api", "/api/{run}"):
        app.add_route(f"{base}/look", look, methods=["POST"])
        app.get(f"{base}/tile")(tile)
        app.get(f"{base}/step")(step)


def _named(explored: Mapping[str, ExplorerPage], name: str | None) -> tuple[str, ExplorerPage]:
    """The run of a name, or the first."""
    if name is None:
        return next(iter(explored.items()))
    if name not in explored:
        raise NotFound(f"there is no run {name[:80]!r} here; there are: {', '.join(explored)}")
    return name, explored[name]


def _refusal(explored: Mapping[str, ExplorerPage], request: Any, line: str) -> str:
    """The page that somebody reads where there is nothing to show."""
    name = request.query_params.get("run")
    name, one = _named(explored, name if name in explored else None)
    others = list(explored) if len(explored) > 1 else []
    return error_page(line, request.query_params.get("text", one.text), run=name, others=others)
