"""`POST /v1/<verb>`: parse the request, submit it to the scheduler, return the predictions as JSON or as a stream.

The endpoint is a plain ASGI application next to FastAPI, whose layers would cost as much as the rest of a request.
Every error is a one-line JSON message.
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
from regard.serve.errors import as_unprocessable, error_message, headers_of, status_of
from regard.serve.metrics import Metrics
from regard.serve.middleware import Message, Receive, Send
from regard.serve.model_runtime import ServedRun
from regard.serve.requests import PredictRequest, read_json
from regard.serve.scheduler import Job, RequestScheduler
from regard.serve.streams import LoopMailbox, PartialOutputStream, PendingResponse
from regard.serve.uploads import Uploads

BASE = "/v1/"
NON_VERB_PATHS = ("look", "runs")  # paths below BASE that are not verbs
SchedulerFor = Callable[[ServedRun, Job], RequestScheduler]
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def is_predict_request(scope: Message) -> bool:
    """Return True for `POST /v1/<verb>`, even if no run has the verb."""
    if scope["type"] != "http" or scope["method"] != "POST" or scope.get("root_path"):
        return False
    path = scope["path"]
    verb = path[len(BASE) :] if path.startswith(BASE) else ""
    return bool(verb) and "/" not in verb and verb not in NON_VERB_PATHS


class PredictEndpoint:
    """ASGI application of the verbs of all runs."""

    def __init__(self, runs: Sequence[ServedRun], scheduler_for: SchedulerFor, metrics: Metrics) -> None:
        self.runs, self.scheduler_for, self.metrics = runs, scheduler_for, metrics
        self._responses = require("fastapi.responses", extra="serve")
        self._mailbox: LoopMailbox | None = None
        self._monitor: DisconnectMonitor | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request whose body arrives in one message."""
        verb, client = scope["path"][len(BASE) :], scope.get("client")
        body = (await receive()).get("body", b"")
        request = RawRequest(verb, body, client[0] if client else "", receive, scope["app"].state.inspection_threads)
        handler = PredictHandler(request, self.runs, self.scheduler_for, self.metrics)
        try:
            response = await handler.respond(*self._loop_objects())
        except Exception as error:
            content = {"error": error_message(error)}
            await self._responses.JSONResponse(content, status_of(error), headers_of(error))(scope, receive, send)
            return
        if isinstance(response, bytes):
            await _send(send, response)
        else:
            await response(scope, receive, send)

    def _loop_objects(self) -> tuple[LoopMailbox, DisconnectMonitor]:
        """Return the mailbox and the monitor of the running event loop; a server has one loop."""
        loop = asyncio.get_running_loop()
        if self._mailbox is None or self._monitor is None or self._mailbox.loop is not loop:
            self._mailbox, self._monitor = LoopMailbox(loop), DisconnectMonitor(loop)
        return self._mailbox, self._monitor


class RawRequest(NamedTuple):
    """A request before it is parsed."""

    verb: str
    body: bytes
    client: str  # address of the client, by which the queue is fair
    receive: Receive  # the messages after the body: the disconnect of the client
    file_threads: Executor  # threads in which the files of predictions are rendered


class PredictHandler:
    """Handles one request."""

    def __init__(
        self, request: RawRequest, runs: Sequence[ServedRun], scheduler_for: SchedulerFor, metrics: Metrics
    ) -> None:
        self.request, self.runs, self.scheduler_for, self.metrics = request, runs, scheduler_for, metrics
        self.verb = request.verb
        self.started_at = time.monotonic()
        self.deadline = self.started_at + cancellation.REQUEST_TIMEOUT_S
        self.uploads = Uploads()
        self.run_name = ""  # set once the request is parsed

    async def respond(self, mailbox: LoopMailbox, monitor: DisconnectMonitor) -> Any:
        """Return the JSON of the predictions, or a streaming response; raise if the request fails."""
        streaming = is_well_formed = False
        try:
            request = requests.parse_predict_request(read_json(self.request.body), self.verb, self.runs)
            self.run_name, is_well_formed = request.served.name, True
            pending = PendingResponse(mailbox)
            job = await self._submit(request, pending)
            if request.stream:
                streaming = True
                return self._stream(request, job, pending)
            try:
                predictions = await monitor.wait_for_result(pending.future, self.request.receive, self.deadline)
            finally:
                self.scheduler_for(request.served, job).cancel(job)
            content = await self._encode(request, predictions)
            self._count(200)
            return content
        except RegardError as error:
            reported = as_unprocessable(error) if is_well_formed else error
            reported.args = (self.uploads.with_client_names(str(error)),)
            self._count(status_of(reported))
            raise reported from None
        except Exception as error:
            self._count(status_of(error))
            raise
        finally:
            if not streaming:
                self.uploads.close()

    def _count(self, status: int) -> None:
        is_verb = any(self.verb in served.verbs for served in self.runs)
        verb = self.verb if is_verb else ""  # unknown verbs share one label: clients could create any number of them
        self.metrics.observe_request(self.run_name, verb, status, time.monotonic() - self.started_at)

    async def _submit(self, request: PredictRequest, pending: PendingResponse) -> Job:
        if request.is_small:
            parsed = requests.read_inputs(request, self.uploads)
        else:
            loop = asyncio.get_running_loop()
            parsed = await loop.run_in_executor(None, requests.read_inputs, request, self.uploads)
        job = Job(
            parsed.inputs,
            parsed.options,
            parsed.decoding,
            self.request.client,
            deadline=self.deadline,
            done=pending,
            samples_by_index=request.served.run.task.samples_by_index,
        )
        if request.stream:
            job.stream = stream = PartialOutputStream(asyncio.get_running_loop())
            pending.future.add_done_callback(lambda _: stream.end())
        self.scheduler_for(request.served, job).submit(job)
        return job

    async def _encode(self, request: PredictRequest, predictions: Any) -> bytes:
        """Encode predictions as JSON. Files are rendered in a thread, since they may wait for the model."""
        if not request.files:
            return self._encode_now(request, predictions)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.request.file_threads, self._encode_now, request, predictions)

    def _encode_now(self, request: PredictRequest, predictions: Any) -> bytes:
        with request.served.lock.exclusive() if request.files else nullcontext():  # an image may run the model again
            rows = response_bodies.to_json(predictions, request.files)
        content = {"run": request.served.name, "verb": self.verb, "predictions": rows}
        return self.uploads.with_client_names(_encode(content)).encode()

    def _stream(self, request: PredictRequest, job: Job, pending: PendingResponse) -> Any:
        responses = require("fastapi.responses", extra="serve")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        events = self._events(request, job, pending)
        return responses.StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def _events(self, request: PredictRequest, job: Job, pending: PendingResponse) -> AsyncIterator[bytes]:
        """Yield the partial output repeatedly, then the predictions. The iterator is closed when the client
        disconnects, which cancels the job."""
        status = 499  # the client disconnected
        try:
            assert job.stream is not None
            async with asyncio.timeout(self.deadline - time.monotonic()):
                async for text, tokens in job.stream.updates():
                    yield _event("partial", json.dumps({"text": text, "tokens": tokens}, ensure_ascii=False))
                predictions = await pending.future
            yield _event("predictions", (await self._encode(request, predictions)).decode())
            status = 200
        except Exception as error:
            timeout = Cancelled(cancellation.TIMEOUT_MESSAGE.format(cancellation.REQUEST_TIMEOUT_S))
            reported = timeout if isinstance(error, TimeoutError) else error
            reported = as_unprocessable(reported) if isinstance(reported, RegardError) else reported
            status = status_of(reported)
            message = self.uploads.with_client_names(error_message(reported))
            yield _event("error", json.dumps({"error": message, "status": status}))
        finally:
            self.scheduler_for(request.served, job).cancel(job)
            pending.future.cancel()  # a later result is discarded
            self._count(status)
            self.uploads.close()


def _event(name: str, data: str) -> bytes:
    """Encode a server-sent event; JSON contains no line break."""
    return f"event: {name}\ndata: {data}\n\n".encode()


async def _send(send: Send, body: bytes) -> None:
    headers = [(b"content-length", str(len(body)).encode()), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
