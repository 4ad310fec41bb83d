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
from regard.inspection.report import subject
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
from regard.serve.requests import read_json, read_request
from regard.serve.scheduler import JOINED, ONE, WHOLE, Job, RequestScheduler
from regard.serve.server import ENDING

LARGEST_FILES = 12_000_000  # bytes of a body with files in it
LOOKED = ("run", "input", "off", "forbid", "temperature")  # what a look may say
AT_ONCE = 512  # requests, those that wait included


class Service:
    """What stands behind the routes: the runs, a line for each, and what is counted."""

    def __init__(self, hosted: Sequence[ServedRun], text: str | None = None, looks: Path | None = None) -> None:
        self.hosted, self.metrics, self._looks = list(hosted), Metrics(), looks
        self.lines: dict[str, RequestScheduler] = {}
        self.others: dict[str, RequestScheduler] = {}  # of requests that another engine answers
        self.sessions: dict[str, ExplorerPage] = {}
        for number, each in enumerate(hosted):
            told = partial(self.metrics.batched, each.name, searched=each.uses_own_decoder)
            each.pool.told = partial(self.metrics.stepped, each.name)
            self.lines[each.name] = RequestScheduler(each.answer, JOINED if each.uses_own_decoder else ONE, told=told)
            self.others[each.name] = RequestScheduler(each.answer, WHOLE, told=partial(self.metrics.batched, each.name))
            self.metrics.watch(each.name, partial(self._waiting, each.name))
            self.sessions[each.name] = self._explored(each, number, text if number == 0 else None)

    def _explored(self, each: ServedRun, number: int, text: str | None) -> ExplorerPage:
        first = first_text(each.run, text) if text is not None or each.run.task.examples else ""
        base = base_of(each.name, len(self.hosted))
        asked = None if self._looks is None else InFolder(self._looks / str(number))
        looked = subject(each.run, name=each.name)
        return ExplorerPage(Session(looked, gate=each.gate, own=(first,), base=base, asked=asked), first)

    def _waiting(self, name: str) -> int:
        return self.lines[name].waiting + self.others[name].waiting

    def scheduler_for(self, hosted: ServedRun, job: Job) -> RequestScheduler:
        """Where a request waits."""
        other = hosted.by_other(job.options, job.decoding, job.hearing)
        return (self.others if other else self.lines)[hosted.name]

    @property
    def opens_files(self) -> bool:
        """Whether any of the runs takes files."""
        return any(each.opens for each in self.hosted)

    def close(self) -> None:
        """Answer what waits, then end."""
        lines = [*self.lines.values(), *self.others.values()]
        for line in lines:
            line.close()
        ends = time.monotonic() + ENDING
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
    largest = LARGEST_FILES if service.opens_files else None
    allowed = ServerPolicy(is_loopback(host), key, largest=largest, most=AT_ONCE)
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
            if key not in LOOKED:
                raise ConfigError(f"a look has no {key[:80]!r}; {did_you_mean(key[:80], LOOKED)}")
        given = body["input"]
        body = {**body, "text": given if isinstance(given, str) else _name(given)}
        text, changes = read_request(body)
        upload = None if isinstance(body["input"], str) else body["input"]
        run = asking.select_run(body.get("run"), None, service.hosted)
        session = service.sessions[run.name].session
        return responses.JSONResponse(
            await run_until_disconnect(request, lambda ask: session.look(text, changes, ask, upload))
        )

    app.add_route("/v1/look", look, methods=["POST"])


def _name(given: Any) -> str:
    return str(given.get("name", "file")) if isinstance(given, dict) else ""


def _add_facts(app: Any, service: Service) -> None:
    responses = require("fastapi.responses", extra="serve")
    described = openapi.document(service.hosted)

    async def runs(_: Any) -> Any:
        return responses.JSONResponse({"runs": [openapi.about(each) for each in service.hosted]})

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
