"""Requests to a server with a run of every task (fixtures `served_runs` and `client`)."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from regard.serve.model_runtime import ServedRun

# Options for short outputs; untrained models would generate much more.
SHORT_OPTIONS = {"language": {"tokens": 4}, "music": {"seconds": 1}, "image_generation": {"n": 1}}


def first_input(served: ServedRun) -> Any:
    """Return the first example of a run as JSON: a file with its content."""
    example = served.run.task.examples[0]
    if Path(example).suffix in served.input_suffixes:
        return {"file": base64.b64encode(Path(example).read_bytes()).decode(), "name": Path(example).name}
    return example


def send(client: TestClient, served: ServedRun, **fields: Any) -> Any:
    options = SHORT_OPTIONS.get(served.name, {})
    body = {"run": served.name, "inputs": [first_input(served)], "options": options, **fields}
    return client.post(f"/v1/{served.verbs[0]}", json=body)
