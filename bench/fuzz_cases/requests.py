"""Requests to the explorer server with unusual bodies, headers and addresses."""

from __future__ import annotations

import asyncio
import json
import random
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import regard
from fuzz_cases import Case, mutate
from fuzz_cases.samples import samples
from regard.core.errors import RegardError
from regard.serve.app import create_explorer_app

HERE = {"host": "127.0.0.1:8765", "content-type": "application/json"}
REFUSALS = (400, 403, 404, 405, 408, 413, 415, 421, 422, 503)
HEADERS = ("host", "origin", "content-length", "content-type", "transfer-encoding", "x", "accept", "cookie")


class Kind:
    """Requests that are passed to the application as a web server passes them."""

    def prepare(self, work: Path) -> None:
        sample = samples(work)[0]
        self.text = sample.text
        self.app = create_explorer_app(regard.load(sample.path), sample.text)
        self.app.state.inspection_threads = None  # threads are not forked: each loop has its own
        status, body = asyncio.run(_ask(self.app, "POST", "/api/look", HERE, json.dumps({"text": self.text}).encode()))
        assert status == 200, body  # and the tables of the model are made, for all processes that are forked
        inspection = json.loads(body)
        self.good = {
            "text": self.text,
            "disabled_heads": [[inspection["maps"][0]["name"], 0]],
            "hidden_items": [["source", 0]],
        }
        self.good["temperature"] = 1.5

    def make(self, rng: random.Random, folder: Path) -> Case:
        headers = dict(HERE)
        if rng.random() < 0.2:
            strange = rng.choice(mutate.TEXTS).encode("utf-8", "replace").decode("latin-1")
            headers[rng.choice(HEADERS)] = strange[:2000]
        if rng.random() < 0.25:
            names = ("look", "map", "head", "level", "i", "j")
            values = {name: "1" if name == "look" else str(rng.choice([0, 1, -1, *mutate.NUMBERS])) for name in names}
            if rng.random() < 0.5:
                values[rng.choice(names)] = rng.choice(mutate.TEXTS)
            query = "&".join(f"{name}={quote(value, errors='replace')}" for name, value in values.items())
            return self._case("GET", f"/api/tile?{query}", headers, b"")
        body = json.loads(json.dumps(self.good))
        if rng.random() < 0.3:
            body["text"] = mutate.text(rng, self.text)
        else:
            mutate.tree(rng, body)
        content = mutate.as_json(rng, body)
        if rng.random() < 0.3:
            content = mutate.data(rng, content)
        path = rng.choices(
            ["/api/look", "/", "/api", "/" + quote(rng.choice(mutate.TEXTS), errors="replace")], [94, 2, 2, 2]
        )
        return self._case(rng.choices(["POST", "GET", "PUT"], [96, 2, 2])[0], path[0], headers, content)

    def _case(self, method: str, path: str, headers: dict[str, str], content: bytes) -> Case:
        def use() -> None:
            status, body = asyncio.run(_ask(self.app, method, path, headers, content))
            if status in REFUSALS:
                raise RegardError(_line(body))
            assert status == 200, f"status {status}: {body[:200]!r}"

        return Case(f"{method} {path[:60]} {headers} {content[:80]!r}", use)


def _line(body: bytes) -> str:
    """Return the error message of a response: `error`, `detail` of the web framework, or the alert of a page."""
    page = re.search(r'role="alert">(.*?)</p>', body.decode(errors="replace"))
    if page:
        return page[1]
    table = json.loads(body)
    return str(table.get("error") or table.get("detail"))


async def _ask(app: Any, method: str, path: str, headers: dict[str, str], content: bytes) -> tuple[int, bytes]:
    """Send one request with the protocol between web servers and applications (ASGI)."""
    sent: list[dict[str, Any]] = []
    messages = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not messages:
            await asyncio.sleep(3600)
        return messages.pop()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    plain, _, query = path.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": plain,
        "raw_path": plain.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8765),
    }
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:])
