"""Requests to a server as bytes: corrupted JSON, texts, files, inspections, addresses and bytes, each by its index."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import quote

import regard
from fuzz_cases import mutate

HERE = "127.0.0.1"
BRIEF = {"language": {"tokens": 4}, "music": {"seconds": 1}}  # short outputs by default
KINDS = {"verbs": 62, "files": 20, "looks": 3, "pages": 5, "bytes": 10}  # of a hundred requests


class Maker:
    """Generator of requests by index."""

    def __init__(self, folders: list[Path], port: int, seed: int) -> None:
        self.runs = [regard.load(folder) for folder in folders]
        self.port, self.seed = port, seed

    def make(self, number: int) -> tuple[str, bytes]:
        """Return the kind and the bytes of a request."""
        rng = random.Random(f"{self.seed} served {number}")
        kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
        return kind, getattr(self, f"_{kind}")(rng)

    def _send(self, rng: random.Random, path: str, content: bytes, method: str = "POST", more: str = "") -> bytes:
        head = f"{method} {path} HTTP/1.1\r\nHost: {HERE}:{self.port}\r\n{more}Content-Type: application/json\r\n"
        return f"{head}Content-Length: {len(content)}\r\n\r\n".encode("utf-8", "surrogatepass") + content

    def _body(self, rng: random.Random, run: regard.Run) -> dict[str, Any]:
        example = rng.choice([*run.task.examples, ""])
        opens = run.task.input_suffixes or ()
        sent = example
        if opens and Path(example).suffix in opens and Path(example).is_file():
            sent = {"file": base64.b64encode(Path(example).read_bytes()).decode(), "name": Path(example).name}
        brief = dict(BRIEF.get(run.recipe.task.name, {}))
        return {"run": run.folder.name, "inputs": [sent], "options": brief}

    def _verbs(self, rng: random.Random) -> bytes:
        run = rng.choice(self.runs)
        body = self._body(rng, run)
        choice = rng.random()
        if choice < 0.3:
            field = rng.choice([*run.options.__dataclass_fields__, "no_such"])
            body["options"][field] = mutate.value(rng)
        elif choice < 0.55:
            body["inputs"] = [mutate.text(rng, "The cook reads a book.")] * rng.choice([1, 1, 3, 65])
        elif choice < 0.65:
            body["decoding"] = {rng.choice(["name", "beam_width", "num_samples", "seed"]): mutate.value(rng)}
        else:
            mutate.tree(rng, body)
        if rng.random() < 0.1:
            body["stream"] = True
        content = mutate.as_json(rng, body)
        if rng.random() < 0.2:
            content = mutate.data(rng, content)
        return self._send(rng, f"/v1/{rng.choice(run.verbs)}", content)

    def _files(self, rng: random.Random) -> bytes:
        run = rng.choice([run for run in self.runs if run.task.input_suffixes])
        body = self._body(rng, run)
        (sent,) = body["inputs"]
        content = base64.b64decode(sent["file"]) if isinstance(sent, dict) else rng.randbytes(200)
        choice = rng.random()
        if choice < 0.5:
            content = mutate.data(rng, content)
        elif choice < 0.65:
            content = content[: rng.randrange(len(content) + 1)]
        elif choice < 0.8 and len(content) > 30:  # a PNG's head says how wide and high it is
            sizes = rng.choice([1, 2**16, 2**31 - 1, 0]).to_bytes(4, "big") + rng.choice([1, 2**16, 0]).to_bytes(
                4, "big"
            )
            content = content[:16] + sizes + content[24:]
        elif choice < 0.9:
            content = b"MThd\0\0\0\6\0\1\xff\xff\1\xe0MTrk\xff\xff\xff\xff" + rng.randbytes(40)
        else:
            content = rng.randbytes(rng.choice([0, 1, 300]))
        suffix = rng.choice([*run.task.input_suffixes, ".exe", ""])
        name = rng.choice([f"a{suffix}", f"../../a{suffix}", rng.choice(mutate.TEXTS) + suffix])
        body["inputs"] = [{"file": base64.b64encode(content).decode(), "name": name}]
        text = json.dumps(body).encode()
        return self._send(rng, f"/v1/{run.verbs[0]}", text)

    def _looks(self, rng: random.Random) -> bytes:
        run = rng.choice(self.runs)
        (raw_input,) = self._body(rng, run)["inputs"]
        body = {
            "run": run.folder.name,
            "input": raw_input,
            "disabled_heads": [["x", 0]],
            "hidden_items": [["source", 1]],
            "temperature": 1,
        }
        for name in ("disabled_heads", "hidden_items", "temperature"):
            if rng.random() < 0.7:
                del body[name]
        if rng.random() < 0.8:
            mutate.tree(rng, body)
        return self._send(rng, "/v1/look", mutate.as_json(rng, body))

    def _pages(self, rng: random.Random) -> bytes:
        texts = [quote(rng.choice(mutate.TEXTS)[:500], errors="replace") for _ in range(2)]
        paths = ["/", "/docs", "/v1/runs", "/metrics", "/health", "/api/tile", "/api/step", "/openapi.json"]
        path = rng.choice([*paths, f"/{texts[0]}", f"/v1/{texts[0]}", f"/api/{texts[0]}/look"])
        query = rng.choice(
            ["", f"?run={texts[0]}", f"?text={texts[1]}", f"?look={texts[0]}&map=0&head=-1&level=9&i=0&j=0"]
        )
        more = rng.choice(
            ["", "Origin: http://evil.example\r\n", "Authorization: Basic ====\r\n", "Cookie: a=\x01\r\n"]
        )
        return self._send(rng, path + query, b"", rng.choice(["GET", "GET", "POST", "PUT", "DELETE"]), more)

    def _bytes(self, rng: random.Random) -> bytes:
        whole = self._verbs(rng)
        return rng.choice(
            [
                mutate.data(rng, whole[:200]) + whole[200:],
                b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
                b"POST /v1/translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n{}",
                b"POST /v1/translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999999999999\r\n\r\n{}",
                b"POST /v1/tag HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
                b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 500_000,
                rng.randbytes(rng.choice([1, 50, 3000])) + b"\r\n\r\n",
            ]
        )
