"""One request to a verb, from its bytes to its response: read, put into the line, awaited, written as JSON or sent bit
by bit as server-sent events.

`POST /v1/<verb>` by the shortest way: from what the web server hands over to what it sends, without the layers that
pages need. Whatever is wrong is answered here, as one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from typing import Any, NamedTuple

from regard.core.cancellation import Cancelled
from regard.core.errors import RegardError
from regard.core.extras import require
from regard.serve import cancellation, requests
from regard.serve import responses as response_bodies
from regard.serve.cancellation import DisconnectMonitor
from regard.serve.errors import error_message, headers_of, status_of
from regard.serve.metrics import Metrics
from regard.serve.middleware import Message, Receive, Send
from regard.serve.model_runtime import ServedRun
from regard.serve.requests import PredictRequest, read_json
from regard.serve.scheduler import Job, RequestScheduler
from regard.serve.streams import LoopMailbox, PartialOutputStream, PendingResponse
from regard.serve.uploads import Uploads

SchedulerFor = Callable[[ServedRun, Job], RequestScheduler]  # where a request waits
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class RawRequest(NamedTuple):
    """A request as it came."""

    verb: str
    body: bytes
    client: str  # who sent it: each client's requests wait behind each other
    receive: Receive  # what comes after the body: that the client has gone
    looks: Executor  # where files of answers are made


class PredictHandler:
    """A request that is being answered."""

    def __init__(
        self, incoming: RawRequest, hosted: Sequence[ServedRun], line_of: SchedulerFor, metrics: Metrics
    ) -> None:
        self.incoming, self.hosted, self.line_of, self.metrics = incoming, hosted, line_of, metrics
        self.verb = incoming.verb
        self.begun = time.monotonic()
        self.ends = self.begun + cancellation.REQUEST_TIMEOUT_S
        self.uploads = Uploads()
        self.run = ""  # which one it is for, once that is known

    async def respond(self, post: LoopMailbox, watch: DisconnectMonitor) -> Any:
        """The JSON of the answers, or a response that streams them, or an error that says why there are none."""
        streamed = False
        try:
            wanted = requests.parse_predict_request(read_json(self.incoming.body), self.verb, self.hosted)
            self.run = wanted.hosted.name
            reply = PendingResponse(post)
            job = await self._submitted(wanted, reply)
            if wanted.stream:
                streamed = True
                return self._stream(wanted, job, reply)
            try:
                found = await watch.wait_for_result(reply.coming, self.incoming.receive, self.ends)
            finally:
                self.line_of(wanted.hosted, job).cancel(job)
            table = await self._write(wanted, found)
            self._count(200)
            return table
        except Exception as wrong:
            self._count(status_of(wrong))
            if isinstance(wrong, RegardError):
                wrong.args = (self.uploads.with_client_names(str(wrong)),)
            raise
        finally:
            if not streamed:
                self.uploads.close()

    def _count(self, status: int) -> None:
        known = any(self.verb in each.verbs for each in self.hosted)
        verb = self.verb if known else ""  # what is no verb here is no label either: there could be any number
        self.metrics.observe_request(self.run, verb, status, time.monotonic() - self.begun)

    async def _submitted(self, wanted: PredictRequest, reply: PendingResponse) -> Job:
        if wanted.is_small:
            read = requests.read_inputs(wanted, self.uploads)
        else:
            read = await asyncio.get_running_loop().run_in_executor(None, requests.read_inputs, wanted, self.uploads)
        job = Job(
            read.inputs,
            read.options,
            read.decoding,
            self.incoming.client,
            deadline=self.ends,
            done=reply,
            samples_by_index=wanted.hosted.run.task.samples_by_index,
        )
        if wanted.stream:
            job.stream = hearing = PartialOutputStream(asyncio.get_running_loop())
            reply.coming.add_done_callback(lambda _: hearing.end())
        self.line_of(wanted.hosted, job).submit(job)
        return job

    async def _write(self, wanted: PredictRequest, found: Any) -> bytes:
        """As JSON; files are made where looks are, since they wait for the model."""
        if not wanted.files:
            return self._written(wanted, found)
        return await asyncio.get_running_loop().run_in_executor(self.incoming.looks, self._written, wanted, found)

    def _written(self, wanted: PredictRequest, found: Any) -> bytes:
        with wanted.hosted.gate.exclusive() if wanted.files else nullcontext():  # a picture may run the model again
            rows = response_bodies.to_json(found, wanted.files)
        table = {"run": wanted.hosted.name, "verb": self.verb, "predictions": rows}
        return self.uploads.with_client_names(_encode(table)).encode()

    def _stream(self, wanted: PredictRequest, job: Job, reply: PendingResponse) -> Any:
        responses = require("fastapi.responses", extra="serve")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        events = self._events(wanted, job, reply)
        return responses.StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def _events(self, wanted: PredictRequest, job: Job, reply: PendingResponse) -> AsyncIterator[bytes]:
        """What is decoded so far, again and again, and the answers at the end. A client that goes is noticed: this is
        then closed, and the job leaves its line."""
        status = 499  # the client went
        try:
            assert job.stream is not None
            async with asyncio.timeout(self.ends - time.monotonic()):
                async for text, tokens in job.stream.updates():
                    yield _event("partial", json.dumps({"text": text, "tokens": tokens}, ensure_ascii=False))
                found = await reply.coming
            yield _event("predictions", (await self._write(wanted, found)).decode())
            status = 200
        except Exception as wrong:
            late = Cancelled(cancellation.TIMEOUT_MESSAGE.format(cancellation.REQUEST_TIMEOUT_S))
            wrong = late if isinstance(wrong, TimeoutError) else wrong
            status = status_of(wrong)
            yield _event(
                "error", json.dumps({"error": self.uploads.with_client_names(error_message(wrong)), "status": status})
            )
        finally:
            self.line_of(wanted.hosted, job).cancel(job)
            reply.coming.cancel()  # what comes now, nobody reads
            self._count(status)
            self.uploads.close()


def _event(name: str, data: str) -> bytes:
    """One server-sent event; JSON has no line break in it."""
    return f"event: {name}\ndata: {data}\n\n".encode()


BASE = "/v1/"
NON_VERB_PATHS = ("look",)  # paths there that are no verb


class PredictEndpoint:
    """Answers requests to the verbs of runs."""

    def __init__(self, hosted: Sequence[ServedRun], line_of: SchedulerFor, metrics: Metrics) -> None:
        self.hosted, self.line_of, self.metrics = hosted, line_of, metrics
        self._responses = require("fastapi.responses", extra="serve")
        self._post: LoopMailbox | None = None
        self._watch: DisconnectMonitor | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """A request whose body comes in one message."""
        verb, client = scope["path"][len(BASE) :], scope.get("client")
        body = (await receive()).get("body", b"")
        incoming = RawRequest(verb, body, client[0] if client else "", receive, scope["app"].state.looks)
        try:
            found = await PredictHandler(incoming, self.hosted, self.line_of, self.metrics).respond(*self._waiting())
        except Exception as wrong:
            table = {"error": error_message(wrong)}
            await self._responses.JSONResponse(table, status_of(wrong), headers_of(wrong))(scope, receive, send)
            return
        if isinstance(found, bytes):
            await _send(send, found)
        else:
            await found(scope, receive, send)

    def _waiting(self) -> tuple[LoopMailbox, DisconnectMonitor]:
        """Those of the loop that runs; a server has one."""
        loop = asyncio.get_running_loop()
        if self._post is None or self._watch is None or self._post.loop is not loop:
            self._post, self._watch = LoopMailbox(loop), DisconnectMonitor(loop)
        return self._post, self._watch


async def _send(send: Send, body: bytes) -> None:
    headers = [(b"content-length", str(len(body)).encode()), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def is_predict_request(scope: Message) -> bool:
    """Whether a request is one to a verb, there or not."""
    if scope["type"] != "http" or scope["method"] != "POST" or scope.get("root_path"):
        return False
    path = scope["path"]
    verb = path[len(BASE) :] if path.startswith(BASE) else ""
    return bool(verb) and "/" not in verb and verb not in NON_VERB_PATHS
