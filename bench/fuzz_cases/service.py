"""Requests to the verbs of a server with several runs: corrupted options, inputs, uploads, decoding, JSON, bytes."""

from __future__ import annotations

import asyncio
import base64
import os
import random
import tempfile
from pathlib import Path
from typing import Any

import regard
from fuzz_cases import Case, mutate
from fuzz_cases.requests import HERE, _ask, _line
from fuzz_cases.samples import samples
from regard.core.errors import RegardError
from regard.serve.app import create_app
from regard.serve.model_runtime import ServedRun

REFUSALS = (400, 401, 403, 404, 405, 408, 413, 415, 421, 422, 429, 503)
BRIEF = {"language": {"tokens": 4}}


class Kind:
    """Requests that are passed to the application as a web server passes them."""

    def prepare(self, work: Path) -> None:
        self.runs = [(sample.name, regard.load(sample.path), sample.text) for sample in samples(work)]
        self.apps: dict[int, Any] = {}  # by process: threads are not forked

    def app(self) -> Any:
        if os.getpid() not in self.apps:
            self.apps = {os.getpid(): create_app([ServedRun(name, run) for name, run, _ in self.runs])}
        return self.apps[os.getpid()]

    def make(self, rng: random.Random, folder: Path) -> Case:
        name, run, text = rng.choice(self.runs)
        body: dict[str, Any] = {"run": name, "inputs": [text], "options": dict(BRIEF.get(name, {}))}
        if run.recipe.decoding is not None and rng.random() < 0.3:
            body["decoding"] = {
                "name": rng.choice(["beam", "greedy", "sample", "os.path"]),
                "beam_width": rng.choice([2, 64]),
            }
        if rng.random() < 0.2:
            sent = base64.b64encode(rng.randbytes(rng.choice([0, 1, 100]))).decode()
            body["inputs"] = [{"file": sent, "name": rng.choice(["a.txt", "../a.txt", *mutate.TEXTS])}]
        if rng.random() < 0.3:
            names = [*(field for field in run.options.__dataclass_fields__), "no_such"]
            body["options"][rng.choice(names)] = mutate.value(rng)
        elif rng.random() < 0.5:
            body["inputs"] = [mutate.text(rng, text)]
        else:
            mutate.tree(rng, body)
        body["stream"] = True if rng.random() < 0.1 else body.get("stream", False)
        content = mutate.as_json(rng, body)
        if rng.random() < 0.2:
            content = mutate.data(rng, content)
        verb = rng.choices([run.verb, "dance", "look", "runs"], [94, 2, 2, 2])[0]
        return self._case(rng.choices(["POST", "GET"], [98, 2])[0], f"/v1/{verb}", content, folder)

    def _case(self, method: str, path: str, content: bytes, folder: Path) -> Case:
        def use() -> None:
            tempfile.tempdir = str(folder)
            status, body = asyncio.run(_ask(self.app(), method, path, HERE, content))
            if status in REFUSALS:
                raise RegardError(_line(body))
            assert status == 200, f"status {status}: {body[:200]!r}"

        return Case(f"{method} {path} {content[:200]!r}", use)
