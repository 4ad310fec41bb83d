"""Runs as a service: every verb of every run as `POST /v1/<verb>`, `/v1/look`, `/v1/runs`, `/health`, `/metrics`, their
description as OpenAPI, and the explorer. One process; requests of a run that ask for the same are computed together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from regard.core.errors import ConfigError, did_you_mean
from regard.core.extras import require
from regard.core.version import __version__
from regard.inspection.report import target_of
from regard.serve import openapi
from regard.serve import requests as asking
from regard.serve.app import ExplorerPage, application, base_of, first_text
from regard.serve.cancellation import run_until_disconnect
from regard.serve.docs_page import docs_page
from regard.serve.inspections import InFolder, Session
from regard.serve.metrics import Metrics
from regard.serve.middleware import ServerPolicy, is_loopback
from regard.serve.model_runtime import ServedRun
from regard.serve.predict_endpoint import PredictEndpoint
from regard.serve.requests import parse_inspection_request, read_json
from regard.serve.scheduler import CONTINUOUS, EXTERNAL_ENGINE, SEQUENTIAL, Job, RequestScheduler
from regard.serve.server import SHUTDOWN_TIMEOUT_S

MAX_UPLOAD_BODY_BYTES = 12_000_000  # bytes of a body with files in it
INSPECTION_KEYS = ("run", "input", "off", "forbid", "temperature")  # what a look may say
MAX_CONCURRENT_REQUESTS = 512  # requests, those that wait included


class Service:
    """What stands behind the routes: the runs, a line for each, and what is counted."""

    def __init__(self, hosted: Sequence[ServedRun], text: str | None = None, looks: Path | None = None) -> None:
        self.hosted, self.metrics, self._looks = list(hosted), Metrics(), looks
        self.lines: dict[str, RequestScheduler] = {}
        self.others: dict[str, RequestScheduler] = {}  # of requests that another engine answers
        self.sessions: dict[str, ExplorerPage] = {}
        for number, each in enumerate(hosted):
            told = partial(self.metrics.observe_batch, each.name, searched=each.uses_own_decoder)
            each.pool.told = partial(self.metrics.observe_step, each.name)
            self.lines[each.name] = RequestScheduler(
                each.predict, CONTINUOUS if each.uses_own_decoder else SEQUENTIAL, on_batch=told
            )
            self.others[each.name] = RequestScheduler(
                each.predict, EXTERNAL_ENGINE, on_batch=partial(self.metrics.observe_batch, each.name)
            )
            self.metrics.register_queue(each.name, partial(self._waiting, each.name))
            self.sessions[each.name] = self._explored(each, number, text if number == 0 else None)

    def _explored(self, each: ServedRun, number: int, text: str | None) -> ExplorerPage:
        first = first_text(each.run, text) if text is not None or each.run.task.examples else ""
        base = base_of(each.name, len(self.hosted))
        asked = None if self._looks is None else InFolder(self._looks / str(number))
        looked = target_of(each.run, name=each.name)
        return ExplorerPage(Session(looked, gate=each.gate, trusted_texts=(first,), base=base, store=asked), first)

    def _waiting(self, name: str) -> int:
        return self.lines[name].queued_inputs + self.others[name].queued_inputs

    def scheduler_for(self, hosted: ServedRun, job: Job) -> RequestScheduler:
        """Where a request waits."""
        other = hosted.uses_external_engine(job.options, job.decoding, job.stream)
        return (self.others if other else self.lines)[hosted.name]

    @property
    def opens_files(self) -> bool:
        """Whether any of the runs takes files."""
        return any(each.input_suffixes for each in self.hosted)

    def close(self) -> None:
        """Answer what waits, then end."""
        lines = [*self.lines.values(), *self.others.values()]
        for line in lines:
            line.close()
        ends = time.monotonic() + SHUTDOWN_TIMEOUT_S
        for line in lines:
            line.join(max(0.0, ends - time.monotonic()))


def create(
    hosted: Sequence[ServedRun],
    text: str | None = None,
    *,
    host: str = "127.0.0.1",
    key: str = "",
    looks: Path | None = None,
) -> Any:
    """Runs -> the application. `text` is what the first one's page shows first; `looks` is a folder where processes
    that share a port find each other's looks."""
    if not hosted:
        raise ConfigError("there is no run to serve; name the folder of one")
    service = Service(hosted, text, looks)
    largest = MAX_UPLOAD_BODY_BYTES if service.opens_files else None
    allowed = ServerPolicy(is_loopback(host), key, max_body_bytes=largest, max_requests=MAX_CONCURRENT_REQUESTS)
    verbs = PredictEndpoint(service.hosted, service.scheduler_for, service.metrics)
    app = application(service.sessions, allowed, closing=service.close, direct=verbs)
    app.state.service = service
    _add_looks(app, service)
    app.add_route("/v1/{verb}", verbs, methods=["POST"])  # whoever comes by another method is told so
    _add_facts(app, service)
    return app


def _add_looks(app: Any, service: Service) -> None:
    responses = require("fastapi.responses", extra="serve")

    async def look(request: Any) -> Any:
        body = read_json(await request.body())
        if not isinstance(body, dict) or "input" not in body:
            raise ConfigError('a look has an input: {"input": "…", "off": [], "forbid": [], "temperature": 1}')
        for key in body:
            if key not in INSPECTION_KEYS:
                raise ConfigError(f"a look has no {key[:80]!r}; {did_you_mean(key[:80], INSPECTION_KEYS)}")
        given = body["input"]
        body = {**body, "text": given if isinstance(given, str) else _name(given)}
        text, changes = parse_inspection_request(body)
        upload = None if isinstance(body["input"], str) else body["input"]
        run = asking.select_run(body.get("run"), None, service.hosted)
        session = service.sessions[run.name].session
        return responses.JSONResponse(
            await run_until_disconnect(request, lambda ask: session.inspect(text, changes, ask, upload))
        )

    app.add_route("/v1/look", look, methods=["POST"])


def _name(given: Any) -> str:
    return str(given.get("name", "file")) if isinstance(given, dict) else ""


def _add_facts(app: Any, service: Service) -> None:
    responses = require("fastapi.responses", extra="serve")
    described = openapi.document(service.hosted)

    async def runs(_: Any) -> Any:
        return responses.JSONResponse({"runs": [openapi.describe_run(each) for each in service.hosted]})

    async def health(_: Any) -> Any:
        told = {"status": "ok", "version": __version__, "runs": [each.name for each in service.hosted]}
        return responses.JSONResponse(told)

    async def metrics(_: Any) -> Any:
        page, kind = service.metrics.page()
        return responses.Response(page, media_type=kind)

    async def description(_: Any) -> Any:
        return responses.JSONResponse(described)

    async def docs(request: Any) -> Any:
        return responses.HTMLResponse(docs_page(described, str(request.base_url).rstrip("/")))

    for path, answer in {
        "/v1/runs": runs,
        "/health": health,
        "/metrics": metrics,
        "/openapi.json": description,
        "/docs": docs,
    }.items():
        app.add_route(path, answer, methods=["GET"])
