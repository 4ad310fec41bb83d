"""Every registered task can be served: its verbs predict as the run does, and no request opens a file of the server."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
from fastapi.testclient import TestClient
from served_cases import SHORT_OPTIONS, send
from task_cases import TASKS

from regard.core.errors import DataError
from regard.core.task import Task
from regard.serve.model_runtime import ServedRun
from regard.serve.openapi import to_json_schema
from regard.serve.requests import options_schema

SECRET = "content of a file on the server"
opened: list[str] = []


@lru_cache(maxsize=1)
def record_opened_files() -> None:
    """Record the path of every file that is opened from now on."""
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)


@pytest.mark.parametrize("name", TASKS)
def test_a_verb_predicts_as_the_run_does(name: str, served_runs: dict[str, ServedRun], client: TestClient) -> None:
    served = served_runs[name]
    response = send(client, served)
    assert response.status_code == 200, response.text
    (row,) = response.json()["predictions"]
    (expected,) = served.run.predict(served.run.task.examples[:1], **SHORT_OPTIONS.get(name, {}))
    assert [fields["text"] for fields in row] == [prediction.text for prediction in expected]
    for fields, prediction in zip(row, expected, strict=True):
        assert fields["score"] == pytest.approx(prediction.score, abs=1e-4) and set(prediction.data) <= set(fields)


@pytest.mark.parametrize(("name", "suffix"), [("language", ".txt"), ("music", ".mid")])
def test_samples_of_a_request_differ(
    name: str, suffix: str, served_runs: dict[str, ServedRun], client: TestClient
) -> None:
    options = {**SHORT_OPTIONS[name], "n": 3, "seed": 1}
    response = send(client, served_runs[name], options=options, files=[suffix])
    (row,) = response.json()["predictions"]
    assert len({fields["files"][suffix] for fields in row}) == 3


@pytest.mark.parametrize("name", TASKS)
def test_partial_outputs_are_streamed_before_the_predictions(
    name: str, served_runs: dict[str, ServedRun], client: TestClient
) -> None:
    served = served_runs[name]
    response = send(client, served, stream=True)
    events = [part.split("\n")[0] for part in response.text.strip().split("\n\n")]
    assert response.headers["content-type"].startswith("text/event-stream")
    assert events[-1] == "event: predictions"
    assert set(events[:-1]) == ({"event: partial"} if served.uses_native_decoder else set())
    assert served.uses_native_decoder == (served.run.recipe.decoding is not None)


def only_parse(target: Any, text: str, *, interventions: Any) -> Any:
    """Stand in for `collect`: parse the input, and compute nothing."""
    target.parse_input(text)
    raise DataError("parsed")


@pytest.mark.parametrize("name", TASKS)
def test_no_request_opens_a_file_of_the_server(
    name: str, served_runs: dict[str, ServedRun], client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for an input, nor for an option that is a text or a path, nor for an inspection."""
    served = served_runs[name]
    task = served.run.task
    assert task.input_suffixes is not None or type(task).parse_input is Task.parse_input, (
        "the task must declare the files that parse_input opens"
    )
    suffixes = [*served.input_suffixes, ".txt"]
    paths = [tmp_path / f"secret{suffix}" for suffix in (suffixes[0], suffixes[-1])]
    for path in paths:
        examples = [Path(text) for text in task.examples if text.endswith(path.suffix)]
        is_input = path.suffix in served.input_suffixes and bool(examples)
        path.write_bytes(examples[0].read_bytes() if is_input else SECRET.encode())
    monkeypatch.setattr("regard.serve.inspections.collect", only_parse)
    record_opened_files()
    properties = to_json_schema(options_schema(served))["properties"]
    texts = [key for key, schema in properties.items() if "string" in str(schema)]
    files = [key for key, schema in properties.items() if "Upload" in str(schema)]
    for path in map(str, paths):
        bodies: list[Any] = [{"inputs": [{"file": path, "name": path}]}, {"inputs": [{"path": path}]}]
        bodies += [{"options": {key: path, **SHORT_OPTIONS.get(name, {})}} for key in [*texts, *files]]
        bodies += [{"options": {key: {"file": path, "name": "../secret.mid"}}} for key in files]
        opened.clear()
        predictions = [send(client, served, inputs=[path]), *(send(client, served, **body) for body in bodies)]
        inspections = [
            client.post("/v1/look", json={"run": name, "input": path}),
            client.get("/", params={"text": path, "run": name}),
        ]
        assert not [file for file in opened if Path(file).name.startswith("secret")]
        assert {response.status_code for response in [*predictions, *inspections]} <= {200, 400, 422}
        assert not any(SECRET in response.text for response in predictions)


@pytest.mark.parametrize("name", TASKS)
def test_the_openapi_document_has_the_options_and_an_example(
    name: str, served_runs: dict[str, ServedRun], client: TestClient
) -> None:
    document, names = client.get("/openapi.json").json(), options_schema(served_runs[name]).names
    for verb in served_runs[name].verbs:
        content = document["paths"][f"/v1/{verb}"]["post"]["requestBody"]["content"]["application/json"]
        bodies = content["schema"].get("oneOf", [content["schema"]])
        options = next(body for body in bodies if body["title"] == name)["properties"]["options"]["properties"]
        assert set(options) == set(names)
        assert all(schema["description"] for schema in options.values())
        assert content["examples"][name]["value"]["run"] == name
        assert f"/v1/{verb}" in client.get("/docs").text
    assert "options" not in names and "inputs" not in names


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize(
    "body",
    [
        *(
            {"inputs": []},
            {"inputs": "a"},
            {"inputs": [5]},
            {"inputs": [None]},
            {"inputs": [{}]},
            {"inputs": ["a"] * 65},
        ),
        *({"inputs": ["a" * 100_001]}, {"options": {"no": 1}}, {"options": 5}, {"decoding": {"name": "os.path"}}),
        *(
            {"decoding": {"beam_width": 10**9}},
            {"decoding": {"name": "beam", "beam_width": 33}},
            {"more": 1},
            {"stream": 1},
        ),
        *({"files": [".exe"]}, {"inputs": [{"file": "%%%", "name": "a.png"}]}, {"inputs": [{"file": ""}]}),
        {"inputs": [{"file": "AAAA", "name": "a.exe"}]},
    ],
    ids=lambda body: str(body)[:40],
)
def test_an_invalid_request_is_a_one_line_error(
    name: str, body: Any, served_runs: dict[str, ServedRun], client: TestClient
) -> None:
    response = send(client, served_runs[name], **body)
    assert response.status_code in (400, 422), response.text
    assert "\n" not in response.json()["error"] and "Traceback" not in response.text and "/tmp" not in response.text
