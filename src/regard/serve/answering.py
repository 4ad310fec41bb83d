"""One request to a verb, from its bytes to its response: read, put into the line, awaited, written as JSON or sent bit
by bit as server-sent events."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from regard.core.errors import RegardError
from regard.core.extras import require
from regard.core.giving_up import GivenUp
from regard.serve import answers, asked, attended
from regard.serve.asked import Asked
from regard.serve.hearing import Hearing
from regard.serve.hosted import Hosted
from regard.serve.line import Job, Line
from regard.serve.metrics import Metrics
from regard.serve.refused import line_of, status_of
from regard.serve.request import read_json
from regard.serve.uploads import Uploads


class Answering:
    """A request that is being answered."""

    def __init__(self, request: Any, hosted: Sequence[Hosted], lines: Mapping[str, Line], metrics: Metrics) -> None:
        self.request, self.hosted, self.lines, self.metrics = request, hosted, lines, metrics
        self.verb = str(request.path_params["verb"])
        self.begun = time.monotonic()
        self.uploads = Uploads()
        self.run = ""  # which one it is for, once that is known

    async def respond(self) -> Any:
        """The response, or the error that the application answers with."""
        streamed = False
        try:
            wanted = asked.shaped(read_json(await self.request.body()), self.verb, self.hosted)
            self.run = wanted.hosted.name
            job = await self._submit(wanted)
            if wanted.stream:
                streamed = True
                return self._stream(wanted, job)
            table = await self._answered(wanted, job)
            self._count(200)
            return require("fastapi.responses", extra="serve").Response(table, media_type="application/json")
        except Exception as wrong:
            self._count(status_of(wrong))
            if isinstance(wrong, RegardError):
                wrong.args = (self.uploads.plain(str(wrong)),)
            raise
        finally:
            if not streamed:
                self.uploads.close()

    def _count(self, status: int) -> None:
        known = any(self.verb in each.verbs for each in self.hosted)
        verb = self.verb if known else ""  # what is no verb here is no label either: there could be any number
        self.metrics.answered(self.run, verb, status, time.monotonic() - self.begun)

    async def _submit(self, wanted: Asked) -> Job:
        if wanted.small:
            read = asked.read(wanted, self.uploads)
        else:
            read = await asyncio.get_running_loop().run_in_executor(None, asked.read, wanted, self.uploads)
        client = self.request.client.host if self.request.client else ""
        job = Job(read.inputs, read.options, read.decoding, client, ends=self.begun + attended.LONGEST)
        if wanted.stream:
            job.hearing = hearing = Hearing(asyncio.get_running_loop())
            job.done.add_done_callback(lambda _: hearing.end())
        self.lines[wanted.hosted.name].submit(job)
        return job

    async def _answered(self, wanted: Asked, job: Job) -> bytes:
        """The JSON of the answers, once they are there."""
        seconds = attended.LONGEST - (time.monotonic() - self.begun)
        try:
            found = await attended.until_left(self.request, asyncio.wrap_future(job.done), seconds)
        finally:
            self.lines[wanted.hosted.name].leave(job)
        return await self._write(wanted, found)

    async def _write(self, wanted: Asked, found: Any) -> bytes:
        """As JSON; files are made where looks are, since they wait for the model."""
        if not wanted.files:
            return self._written(wanted, found)
        looks = self.request.app.state.looks
        return await asyncio.get_running_loop().run_in_executor(looks, self._written, wanted, found)

    def _written(self, wanted: Asked, found: Any) -> bytes:
        with wanted.hosted.gate.alone() if wanted.files else nullcontext():  # a picture may run the model again
            rows = answers.to_json(found, wanted.files)
        table = {"run": wanted.hosted.name, "verb": self.verb, "answers": rows}
        return self.uploads.plain(json.dumps(table, ensure_ascii=False, allow_nan=False)).encode()

    def _stream(self, wanted: Asked, job: Job) -> Any:
        responses = require("fastapi.responses", extra="serve")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return responses.StreamingResponse(self._events(wanted, job), media_type="text/event-stream", headers=headers)

    async def _events(self, wanted: Asked, job: Job) -> AsyncIterator[bytes]:
        """What is decoded so far, again and again, and the answers at the end. A client that goes is noticed: this is
        then closed, and the job leaves its line."""
        status = 499  # the client went
        try:
            assert job.hearing is not None
            async with asyncio.timeout(attended.LONGEST - (time.monotonic() - self.begun)):
                async for text, tokens in job.hearing.heard():
                    yield _event("token", json.dumps({"text": text, "tokens": tokens}, ensure_ascii=False))
                found = await asyncio.wrap_future(job.done)
            yield _event("answers", (await self._write(wanted, found)).decode())
            status = 200
        except Exception as wrong:
            late = GivenUp(attended.TOO_LONG.format(attended.LONGEST))
            wrong = late if isinstance(wrong, TimeoutError) else wrong
            status = status_of(wrong)
            yield _event("error", json.dumps({"error": self.uploads.plain(line_of(wrong)), "status": status}))
        finally:
            self.lines[wanted.hosted.name].leave(job)
            self._count(status)
            self.uploads.close()


def _event(name: str, data: str) -> bytes:
    """One server-sent event; JSON has no line break in it."""
    return f"event: {name}\ndata: {data}\n\n".encode()
