"""The server conforms to its OpenAPI document.

schemathesis generates valid and invalid requests for every verb of every task. Every response has the documented form,
and none is a server error.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("schemathesis", reason="schemathesis is not installed")
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core import NOT_SET
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from regard.core.registry import find, registered_names
from regard.serve import requests as serve_requests

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
VERBS = {verb for name in registered_names("regard.tasks") for verb in getattr(find("regard.tasks", name), "VERBS", ())}
VERBS |= {getattr(find("regard.tasks", name), "VERB", "predict") for name in registered_names("regard.tasks")}
NUM_EXAMPLES = {GenerationMode.POSITIVE: 12, GenerationMode.NEGATIVE: 25}
CASES = [("POST", f"/v1/{verb}", mode) for verb in (*sorted(VERBS), "look") for mode in NUM_EXAMPLES]
CASES += [("GET", path, GenerationMode.POSITIVE) for path in ("/v1/runs", "/health", "/metrics")]


@pytest.fixture(autouse=True)
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits of requests, to save time."""
    monkeypatch.setattr(serve_requests, "max_value", lambda name, schema: 3)
    monkeypatch.setattr(serve_requests, "MAX_INPUTS", 4)


@pytest.fixture(scope="module")
def document(client: Any) -> Any:
    """The OpenAPI document of the server."""
    return schemathesis.openapi.from_dict(client.get("/openapi.json").json())


@pytest.mark.parametrize(("method", "path", "mode"), CASES, ids=str)
def test_generated_requests_conform(method: str, path: str, mode: Any, client: Any, document: Any) -> None:
    if path not in set(document):
        pytest.skip(f"{path}: no run with the defaults of its task has this verb")
    operation = document[path][method]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=NUM_EXAMPLES[mode],
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def requests(case: Any) -> None:
        content = case.body if isinstance(case.body, bytes) else json.dumps(case.body, default=str)
        body = {} if method == "GET" or isinstance(case.body, type(NOT_SET)) else {"content": content}
        response = client.request(method, path, headers={"Content-Type": "application/json"}, **body)
        streamed = response.headers["content-type"].startswith("text/event-stream")
        case.validate_response(response, checks=[not_a_server_error] if streamed else CHECKS)

    requests()


def test_every_verb_is_documented(document: Any) -> None:
    assert set(document) == {path for _, path, _ in CASES} - {"/v1/upscale"}
