"""Every task that is listed can be served: its verbs answer as the run does; no request opens a file of the server."""

from __future__ import annotations

import base64
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
from fastapi.testclient import TestClient
from test_tasks import built, config_of

from regard.api.run import Run
from regard.core.errors import DataError
from regard.core.registry import find, registered_names
from regard.core.task import Task
from regard.serve import option_schema
from regard.serve.model_runtime import ServedRun
from regard.serve.service import create
from regard.tasks import compatible_models
from regard.training import recipe as recipes
from regard.training.load_run import LoadedRun

TASKS = registered_names("regard.tasks")
# What an untrained model is asked for, which would go on for long.
BRIEF = {"language": {"tokens": 4}, "music": {"seconds": 1}, "images": {"count": 1}}
SECRET = "the server's own words"
opened: list[str] = []


@lru_cache(maxsize=1)
def watching() -> None:
    """From now on the path of every file that is opened is kept."""
    sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ServedRun]:
    """A run of every task with the first model that fits, untrained."""
    found = {}
    for name in TASKS:
        folder = tmp_path_factory.mktemp(name)
        module = find("regard.tasks", name)
        built(name).save(folder)
        torch.manual_seed(0)
        task, network = module.load(config_of(name), folder), find("regard.models", compatible_models(module.SIZES)[0])
        model = network.build(network.TINY, task.sizes).eval()
        found[name] = ServedRun(name, Run(LoadedRun(folder, recipes.read(name), task, model)))
    return found


@pytest.fixture(scope="module")
def client(hosted: dict[str, ServedRun]) -> TestClient:
    """One server for all of them."""
    return TestClient(create(list(hosted.values())), base_url="http://127.0.0.1", raise_server_exceptions=False)


def first(one: ServedRun) -> Any:
    """The first example of a run as it is sent: a file as the file itself."""
    given = one.run.task.examples[0]
    if Path(given).suffix in one.input_suffixes:
        return {"file": base64.b64encode(Path(given).read_bytes()).decode(), "name": Path(given).name}
    return given


def ask(client: TestClient, one: ServedRun, **body: Any) -> Any:
    asked = {"run": one.name, "inputs": [first(one)], "options": BRIEF.get(one.name, {}), **body}
    return client.post(f"/v1/{one.verbs[0]}", json=asked)


@pytest.mark.parametrize("name", TASKS)
def test_a_verb_answers_as_the_run_does(name: str, hosted: dict[str, ServedRun], client: TestClient) -> None:
    one = hosted[name]
    answer = ask(client, one)
    assert answer.status_code == 200, answer.text
    (found,) = answer.json()["answers"]
    (wanted,) = one.run.predict(one.run.task.examples[:1], **BRIEF.get(name, {}))
    assert [row["text"] for row in found] == [each.text for each in wanted]
    for row, each in zip(found, wanted, strict=True):
        assert row["score"] == pytest.approx(each.score, abs=1e-4) and set(each.data) <= set(row)


@pytest.mark.parametrize("name", TASKS)
def test_what_is_decoded_is_streamed_and_the_answers_follow(
    name: str, hosted: dict[str, ServedRun], client: TestClient
) -> None:
    one = hosted[name]
    answer = ask(client, one, stream=True)
    events = [part.split("\n")[0] for part in answer.text.strip().split("\n\n")]
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert events[-1] == "event: answers" and set(events[:-1]) == ({"event: token"} if one.uses_own_decoder else set())
    assert one.uses_own_decoder == (one.run.recipe.decoding is not None)


def only_read(subject: Any, text: str, *, changes: Any) -> Any:
    """In place of a look: the text is read, and nothing more."""
    subject.read(text)
    raise DataError("read")


@pytest.mark.parametrize("name", TASKS)
def test_no_request_opens_a_file_of_the_server(
    name: str, hosted: dict[str, ServedRun], client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an input, as any option that is a text or a path, and as what the page looks at."""
    one = hosted[name]
    task = one.run.task
    assert task.input_suffixes is not None or type(task).parse_input is Task.parse_input, (
        "the task says which files `read` opens"
    )
    suffixes = [*one.input_suffixes, ".txt"]
    paths = [tmp_path / f"secret{suffix}" for suffix in (suffixes[0], suffixes[-1])]
    for path in paths:
        own = next(
            (Path(text) for text in task.examples if path.suffix in one.input_suffixes and text.endswith(path.suffix)),
            None,
        )
        path.write_bytes(SECRET.encode() if own is None else own.read_bytes())
    monkeypatch.setattr("regard.serve.inspections.collect", only_read)
    watching()
    properties = option_schema.to_json_schema(one.options_schema)["properties"]
    texts = [key for key, each in properties.items() if "string" in str(each)]
    files = [key for key, each in properties.items() if "Upload" in str(each)]
    for path in map(str, paths):
        asked: list[Any] = [{"inputs": [{"file": path, "name": path}]}, {"inputs": [{"path": path}]}]
        asked += [{"options": {key: path, **BRIEF.get(name, {})}} for key in [*texts, *files]]
        asked += [{"options": {key: {"file": path, "name": "../secret.mid"}}} for key in files]
        opened.clear()
        answers = [ask(client, one, inputs=[path]), *(ask(client, one, **each) for each in asked)]
        looks = [
            client.post("/v1/look", json={"run": name, "input": path}),
            client.get("/", params={"text": path, "run": name}),
        ]
        assert not [each for each in opened if Path(each).name.startswith("secret")]
        assert {each.status_code for each in [*answers, *looks]} <= {200, 400}
        assert not any(SECRET in each.text for each in answers)


@pytest.mark.parametrize("name", TASKS)
def test_the_description_has_its_options_and_an_example_that_works(
    name: str, hosted: dict[str, ServedRun], client: TestClient
) -> None:
    one, described = hosted[name], client.get("/openapi.json").json()
    for verb in one.verbs:
        content = described["paths"][f"/v1/{verb}"]["post"]["requestBody"]["content"]["application/json"]
        body = next(each for each in content["schema"].get("oneOf", [content["schema"]]) if each["title"] == name)
        assert set(body["properties"]["options"]["properties"]) == set(one.options_schema.names)
        assert all(each["description"] for each in body["properties"]["options"]["properties"].values())
        assert content["examples"][name]["value"]["run"] == name
        assert f"/v1/{verb}" in client.get("/docs").text
    assert "options" not in one.options_schema.names and "inputs" not in one.options_schema.names


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
        *({"decoding": {"width": 10**9}}, {"decoding": {"name": "beam", "width": 33}}, {"more": 1}, {"stream": 1}),
        *({"files": [".exe"]}, {"inputs": [{"file": "%%%", "name": "a.png"}]}, {"inputs": [{"file": ""}]}),
        {"inputs": [{"file": "AAAA", "name": "a.exe"}]},
    ],
    ids=lambda body: str(body)[:40],
)
def test_a_mistake_is_one_line(name: str, body: Any, hosted: dict[str, ServedRun], client: TestClient) -> None:
    answer = ask(client, hosted[name], **body)
    assert answer.status_code == 400, answer.text
    assert "\n" not in answer.json()["error"] and "Traceback" not in answer.text and "/tmp" not in answer.text
