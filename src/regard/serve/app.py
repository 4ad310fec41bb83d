"""The ASGI application and all its routes: predictions, inspections, metadata, and the explorer's pages.

`create_app` serves any number of runs: `POST /v1/<verb>` (predict_endpoint.py), `/v1/look`, `/v1/runs`, `/health`,
`/metrics`, `/openapi.json`, `/docs` and the explorer. `explorer_app` serves only the explorer of one run. Errors are
one-line messages; the computation of a request is cancelled when its client disconnects.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from regard.core.errors import ConfigError, RegardError
from regard.core.extras import require
from regard.core.version import __version__
from regard.inspection.collect import InspectionTarget
from regard.inspection.error_page import error_end, error_page
from regard.inspection.html_bundle import bundle, page_end, page_start
from regard.inspection.interventions import NO_INTERVENTIONS
from regard.inspection.report import RunLike, target_of
from regard.serve import openapi
from regard.serve.cancellation import run_until_disconnect
from regard.serve.docs_page import docs_page
from regard.serve.errors import add_error_handlers, as_unprocessable, error_message, policy_headers
from regard.serve.inspection_cache import InspectionCache
from regard.serve.inspections import CancelCheck, InFolder, Session
from regard.serve.metrics import Metrics
from regard.serve.middleware import Limits, Message, Receive, Send, ServerPolicy, is_loopback
from regard.serve.model_runtime import ServedRun
from regard.serve.predict_endpoint import PredictEndpoint, is_predict_request
from regard.serve.requests import (
    InspectionRequest,
    NotFound,
    options_schema,
    parse_indices,
    parse_inspection_id,
    parse_inspection_request,
    parse_look_request,
    read_json,
)
from regard.serve.scheduler import CONTINUOUS, EXTERNAL_ENGINE, SEQUENTIAL, Job, RequestScheduler
from regard.serve.server import SHUTDOWN_TIMEOUT_S, on_shutdown_signal

PLACEHOLDER_DELAY_S = 0.3  # seconds after which a page is sent before its data is computed
INSPECTION_THREADS = 4  # threads of inspections, which mostly wait for a model; predictions have their own
MAX_UPLOAD_BODY_BYTES = 12_000_000  # bytes of a body that may contain files
MAX_CONCURRENT_REQUESTS = 512  # active and queued requests


def create_app(
    runs: Sequence[ServedRun],
    text: str | None = None,
    *,
    host: str = "127.0.0.1",
    key: str = "",
    inspections_folder: Path | None = None,
) -> Any:
    """Return the application that serves runs.

    The page of the first run initially shows `text`. `inspections_folder` is shared by processes on one port.
    """
    if not runs:
        raise ConfigError("no run to serve; name a run folder")
    service = Service(runs, text, inspections_folder)
    max_body_bytes = MAX_UPLOAD_BODY_BYTES if service.accepts_files else None
    policy = ServerPolicy(is_loopback(host), key, max_body_bytes=max_body_bytes, max_requests=MAX_CONCURRENT_REQUESTS)
    endpoint = PredictEndpoint(service.hosted, service.scheduler_for, service.metrics)
    app = _create_base_app(service.pages, policy, on_close=service.close, predict_endpoint=endpoint)
    app.state.service = service
    _add_look_route(app, service)
    _add_metadata_routes(app, service)  # before the verbs, so that POST /v1/runs gets 405
    app.add_route("/v1/{verb}", endpoint, methods=["POST"])  # other HTTP methods get 405
    return app


def create_explorer_app(run: RunLike, text: str | None = None, *, host: str = "127.0.0.1") -> Any:
    """Return the explorer of a run. Its page initially shows `text`, or else the first example of the task."""
    return explorer_app(target_of(run), initial_text(run, text), host=host)


def explorer_app(target: InspectionTarget, text: str, *, host: str = "127.0.0.1") -> Any:
    """Return the explorer of an inspection target. On a loopback host, only requests addressed to it are served."""
    page = ExplorerPage(Session(target, trusted_texts=(text,)), text)
    return _create_base_app({"": page}, ServerPolicy(loopback=is_loopback(host)))


def initial_text(run: RunLike, text: str | None = None) -> str:
    """Return the input that a run's page initially shows."""
    if text is None and not run.task.examples:
        raise RegardError(f"{run.folder}: its task has no example to show first; give an input")
    return run.task.examples[0] if text is None else text


class ExplorerPage(NamedTuple):
    """A run in the explorer, and the input that its page initially shows."""

    session: Session
    text: str


class Service:
    """The served runs with their schedulers, explorer pages and metrics."""

    def __init__(
        self, runs: Sequence[ServedRun], text: str | None = None, inspections_folder: Path | None = None
    ) -> None:
        self.hosted, self.metrics, self._inspections_folder = list(runs), Metrics(), inspections_folder
        self.schedulers: dict[str, RequestScheduler] = {}
        self.external_schedulers: dict[str, RequestScheduler] = {}  # of requests that an external engine predicts
        self.pages: dict[str, ExplorerPage] = {}
        self.inspections = InspectionCache()
        self.metrics.register_inspections(lambda: (len(self.inspections), self.inspections.size_bytes))
        for index, served in enumerate(runs):
            name, uses_batcher = served.name, served.uses_native_decoder
            served.batcher.on_step = partial(self.metrics.observe_step, name)
            self.schedulers[name] = RequestScheduler(
                served.predict,
                CONTINUOUS if uses_batcher else SEQUENTIAL,
                on_batch=partial(self.metrics.observe_batch, name, searched=uses_batcher),
            )
            self.external_schedulers[name] = RequestScheduler(
                served.predict, EXTERNAL_ENGINE, on_batch=partial(self.metrics.observe_batch, name)
            )
            self.metrics.register_queue(name, partial(self._queued_inputs, name))
            self.metrics.register_workers(name, partial(self._worker_counts, name))
            self.pages[name] = self._create_page(served, index, text if index == 0 else None)

    @property
    def accepts_files(self) -> bool:
        """True if an input of any run may be a file."""
        return any(served.input_suffixes for served in self.hosted)

    def scheduler_for(self, served: ServedRun, job: Job) -> RequestScheduler:
        """Return the scheduler of a job."""
        is_external = served.uses_external_engine(job.options, job.decoding, job.stream)
        return (self.external_schedulers if is_external else self.schedulers)[served.name]

    def close(self) -> None:
        """Predict the queued jobs, then stop the threads."""
        schedulers = [*self.schedulers.values(), *self.external_schedulers.values()]
        for scheduler in schedulers:
            scheduler.close()
        deadline = time.monotonic() + SHUTDOWN_TIMEOUT_S
        for scheduler in schedulers:
            scheduler.join(max(0.0, deadline - time.monotonic()))

    def _create_page(self, served: ServedRun, index: int, text: str | None) -> ExplorerPage:
        displayed_text = initial_text(served.run, text) if text is not None or served.run.task.examples else ""
        session = Session(
            target_of(served.run, name=served.name),
            lock=served.lock,
            trusted_texts=(displayed_text,),
            base="/api" if len(self.hosted) == 1 else f"/api/{quote(served.name, safe='')}",
            store=None if self._inspections_folder is None else InFolder(self._inspections_folder / str(index)),
            cache=self.inspections,
            option_schema=options_schema(served),
        )
        return ExplorerPage(session, displayed_text)

    def problems(self) -> list[str]:
        """Return one line for each run that may not answer, because its worker threads do not return."""
        counts = {name: self._worker_counts(name)[1] for name in self.schedulers}
        return [
            f"{name}: {count} worker threads do not return; restart the server"
            for name, count in counts.items()
            if count
        ]

    def restarts(self) -> int:
        """Return the number of worker threads that died and were replaced."""
        return sum(self._worker_counts(name)[0] for name in self.schedulers)

    def _worker_counts(self, name: str) -> tuple[int, int]:
        """Return how many worker threads of a run died, and how many do not return."""
        watches = [schedulers[name].watch for schedulers in (self.schedulers, self.external_schedulers)]
        return sum(watch.restarts for watch in watches), sum(watch.overdue for watch in watches)

    def _queued_inputs(self, name: str) -> int:
        return self.schedulers[name].queued_inputs + self.external_schedulers[name].queued_inputs


def _create_base_app(
    pages: Mapping[str, ExplorerPage],
    policy: ServerPolicy,
    *,
    on_close: Callable[[], None] = lambda: None,
    predict_endpoint: PredictEndpoint | None = None,
) -> Any:
    """Return the application with the explorer's pages, the limits and the error handlers.

    `on_close` is called after the last request. Requests to `predict_endpoint` bypass the layers of FastAPI, which
    would cost as much as the rest of the request.
    """
    fastapi_app: Any = require("fastapi", extra="serve").FastAPI
    inspection_threads = ThreadPoolExecutor(INSPECTION_THREADS)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        with on_shutdown_signal(policy.end):
            yield
        on_close()
        inspection_threads.shutdown(wait=False, cancel_futures=True)

    limited_endpoint = None if predict_endpoint is None else Limits(predict_endpoint, policy=policy)

    class Application(fastapi_app):  # type: ignore[misc]  # FastAPI is an optional dependency
        async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
            if limited_endpoint is None or not is_predict_request(scope):
                await super().__call__(scope, receive, send)
            else:
                scope["app"] = self
                await limited_endpoint(scope, receive, send)

    app = Application(title="regard", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    add_error_handlers(app, partial(_error_page, pages))
    _add_explorer_routes(app, pages)
    app.add_middleware(Limits, policy=policy)
    app.state.policy, app.state.inspection_threads = policy, inspection_threads
    return app


def _add_explorer_routes(app: Any, pages: Mapping[str, ExplorerPage]) -> None:
    """Add `/` and the requests of its page below `/api`."""
    responses = require("fastapi.responses", extra="serve")

    async def show_page(request: Any) -> Any:
        name, page = _find_page(pages, request.query_params.get("run"))
        text = request.query_params.get("text", page.text)
        further = _page_choices(pages, name) | _page_options(page.session)
        data = asyncio.ensure_future(_inspect(request, page.session, InspectionRequest(text, NO_INTERVENTIONS)))
        await asyncio.wait({data}, timeout=PLACEHOLDER_DELAY_S)
        if data.done():
            return _html_response(bundle(data.result() | further))
        return _response_in_parts(data, further, _error_context(pages, request))

    async def look(request: Any) -> Any:
        _, page = _find_page(pages, request.path_params.get("run"))
        inspection = parse_inspection_request(read_json(await request.body()))
        return responses.JSONResponse(await _inspect(request, page.session, inspection))

    async def tile(request: Any) -> Any:
        _, page = _find_page(pages, request.path_params.get("run") or request.query_params.get("run"))
        map, head, level, i, j = parse_indices(request.query_params, ("map", "head", "level", "i", "j"))
        inspection_id = parse_inspection_id(request.query_params)

        def work(check: CancelCheck) -> str | None:
            return page.session.tile(inspection_id, map=map, head=head, level=level, index=(i, j), cancel_check=check)

        return responses.JSONResponse({"data": await run_until_disconnect(request, work)})

    async def step(request: Any) -> Any:
        _, page = _find_page(pages, request.path_params.get("run") or request.query_params.get("run"))
        (head,) = parse_indices(request.query_params, ("head",))
        inspection_id, map = parse_inspection_id(request.query_params), request.query_params.get("map", "")

        def work(check: CancelCheck) -> dict[str, Any]:
            return page.session.step(inspection_id, map=map, head=head, cancel_check=check)

        return responses.JSONResponse(await run_until_disconnect(request, work))

    app.add_route("/", show_page, methods=["GET"])
    for base in ("/api", "/api/{run}"):
        app.add_route(f"{base}/look", look, methods=["POST"])
        app.add_route(f"{base}/tile", tile, methods=["GET"])
        app.add_route(f"{base}/step", step, methods=["GET"])


def _response_in_parts(
    data: asyncio.Future[dict[str, Any]], further: dict[str, Any], error_context: dict[str, Any]
) -> Any:
    """Return the response of a page that takes long: a placeholder first, then the data or the error.

    The status of a failed inspection is 200, because the header has been sent.
    """
    nonce = secrets.token_urlsafe(16)
    start = page_start(nonce)

    async def parts() -> AsyncIterator[str]:
        yield start
        try:
            rest = page_end(await data | further, nonce)
        except Exception as error:  # as the error handlers of the application
            rest = error_end(error_message(error), nonce=nonce, **error_context)
        yield rest

    responses = require("fastapi.responses", extra="serve")
    return responses.StreamingResponse(parts(), media_type="text/html", headers=policy_headers(start))


def _page_choices(pages: Mapping[str, ExplorerPage], displayed: str) -> dict[str, Any]:
    """Return the runs among which a page chooses; those of the same task can be compared."""
    task = pages[displayed].session.task_name
    choices = [
        {
            "name": name,
            "shown": name == displayed,
            "comparable": page.session.task_name == task,
            "base": page.session.base,
        }
        for name, page in pages.items()
    ]
    return {"choices": choices} if len(pages) > 1 else {}


def _page_options(session: Session) -> dict[str, Any]:
    """Return the JSON schema of the options that the form of a page sets."""
    return {} if session.option_schema is None else {"options": openapi.to_json_schema(session.option_schema)}


def _add_look_route(app: Any, service: Service) -> None:
    responses = require("fastapi.responses", extra="serve")

    async def look(request: Any) -> Any:
        served, inspection = parse_look_request(read_json(await request.body()), service.hosted)
        try:
            data = await _inspect(request, service.pages[served.name].session, inspection)
        except RegardError as error:
            raise as_unprocessable(error) from None
        return responses.JSONResponse(data)

    app.add_route("/v1/look", look, methods=["POST"])


def _add_metadata_routes(app: Any, service: Service) -> None:
    responses = require("fastapi.responses", extra="serve")
    document = openapi.document(service.hosted)

    async def runs(_: Any) -> Any:
        return responses.JSONResponse({"runs": [openapi.describe_run(served) for served in service.hosted]})

    async def health(_: Any) -> Any:
        names, problems = [served.name for served in service.hosted], service.problems()
        state = {"status": "failing", "problems": problems} if problems else {"status": "ok"}
        body = {**state, "version": __version__, "runs": names, "worker_restarts": service.restarts()}
        return responses.JSONResponse(body, 503 if problems else 200)

    async def metrics(_: Any) -> Any:
        page, media_type = service.metrics.page()
        return responses.Response(page, media_type=media_type)

    async def openapi_json(_: Any) -> Any:
        return responses.JSONResponse(document)

    async def docs(request: Any) -> Any:
        return _html_response(docs_page(document, str(request.base_url).rstrip("/")))

    for path, endpoint in {
        "/v1/runs": runs,
        "/health": health,
        "/metrics": metrics,
        "/openapi.json": openapi_json,
        "/docs": docs,
    }.items():
        app.add_route(path, endpoint, methods=["GET"])
    app.add_route("/v1/runs", _refuse_method, methods=["POST"])  # else it would be a verb


async def _refuse_method(_: Any) -> Any:
    raise require("starlette.exceptions", extra="serve").HTTPException(405, headers={"Allow": "GET, HEAD"})


async def _inspect(request: Any, session: Session, inspection: InspectionRequest) -> dict[str, Any]:
    """Run an inspection in a thread until the client disconnects."""
    text, interventions, upload, options = inspection
    return await run_until_disconnect(
        request, lambda check: session.inspect(text, interventions, check, upload, options)
    )


def _html_response(page: str) -> Any:
    """Return the response of a page, with its content security policy as a header."""
    return require("fastapi.responses", extra="serve").HTMLResponse(page, headers=policy_headers(page))


def _find_page(pages: Mapping[str, ExplorerPage], name: str | None) -> tuple[str, ExplorerPage]:
    """Return the page of a run, of the first run if `name` is None."""
    if name is None:
        return next(iter(pages.items()))
    if name not in pages:
        raise NotFound(f"no run {name[:80]!r}; use one of: {', '.join(pages)}")
    return name, pages[name]


def _error_page(pages: Mapping[str, ExplorerPage], request: Any, message: str) -> str:
    """Return the HTML page of an error, with the input and the links to the other runs."""
    return error_page(message, **_error_context(pages, request))


def _error_context(pages: Mapping[str, ExplorerPage], request: Any) -> dict[str, Any]:
    """Return what the page of an error shows: the input, its run, and the other runs."""
    name = request.query_params.get("run")
    name, page = _find_page(pages, name if name in pages else None)
    text = request.query_params.get("text", page.text)
    return {"text": text, "run": name, "others": list(pages) if len(pages) > 1 else []}
