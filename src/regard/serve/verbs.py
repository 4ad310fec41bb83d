"""`POST /v1/<verb>` by the shortest way: from what the web server hands over to what it sends, without the layers that
pages need. Whatever is wrong is answered here, as one line of JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from regard.core.extras import require
from regard.serve.answering import Answering, Incoming, LineOf
from regard.serve.attended import Watch
from regard.serve.hosted import Hosted
from regard.serve.limits import Message, Receive, Send
from regard.serve.metrics import Metrics
from regard.serve.refused import headers_of, line_of, status_of
from regard.serve.replies import Post

BASE = "/v1/"
OTHERS = ("look",)  # paths there that are no verb


class Verbs:
    """Answers requests to the verbs of runs."""

    def __init__(self, hosted: Sequence[Hosted], line_of: LineOf, metrics: Metrics) -> None:
        self.hosted, self.line_of, self.metrics = hosted, line_of, metrics
        self._responses = require("fastapi.responses", extra="serve")
        self._post: Post | None = None
        self._watch: Watch | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """A request whose body comes in one message."""
        verb, client = scope["path"][len(BASE) :], scope.get("client")
        body = (await receive()).get("body", b"")
        incoming = Incoming(verb, body, client[0] if client else "", receive, scope["app"].state.looks)
        try:
            found = await Answering(incoming, self.hosted, self.line_of, self.metrics).respond(*self._waiting())
        except Exception as wrong:
            table = {"error": line_of(wrong)}
            await self._responses.JSONResponse(table, status_of(wrong), headers_of(wrong))(scope, receive, send)
            return
        if isinstance(found, bytes):
            await _send(send, found)
        else:
            await found(scope, receive, send)

    def _waiting(self) -> tuple[Post, Watch]:
        """Those of the loop that runs; a server has one."""
        loop = asyncio.get_running_loop()
        if self._post is None or self._watch is None or self._post.loop is not loop:
            self._post, self._watch = Post(loop), Watch(loop)
        return self._post, self._watch


async def _send(send: Send, body: bytes) -> None:
    headers = [(b"content-length", str(len(body)).encode()), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def is_verb(scope: Message) -> bool:
    """Whether a request is one to a verb, there or not."""
    if scope["type"] != "http" or scope["method"] != "POST" or scope.get("root_path"):
        return False
    path = scope["path"]
    verb = path[len(BASE) :] if path.startswith(BASE) else ""
    return bool(verb) and "/" not in verb and verb not in OTHERS
