"""Inspections of a session: texts never name files unless they are trusted; requests are stored by id."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

import pytest
from torch import nn

from regard.core.errors import DataError
from regard.core.task import Task
from regard.inspection.collect import InspectionTarget, RunInfo
from regard.inspection.interventions import NO_INTERVENTIONS, Interventions
from regard.serve.inspections import MAX_STORED_REQUESTS, MAX_STORED_UPLOADS, InFolder, InMemory, Session
from regard.serve.requests import InspectionRequest

CHANGED = Interventions((("encoder.self_attn", 1),), (("source", 2),), 0.5)
FILE = {"file": base64.b64encode(b"sent").decode(), "name": "a.txt"}


class FileTask(Task):
    """A task whose inputs are files."""

    input_suffixes = (".txt",)

    def parse_input(self, text):
        if "damaged" in text:
            raise DataError(f"{text}: damaged")
        return Path(text).read_text(encoding="utf-8")


class UndeclaredTask(FileTask):
    input_suffixes = None


class TextTask(Task):
    """A task whose inputs are texts."""


@dataclass(frozen=True)
class FakeInspection:
    """An inspection whose title is the parsed input."""

    title: str


@pytest.fixture
def parse(monkeypatch):
    """(task, text, upload) -> the input as the task parsed it."""

    def collect(target, text, *, interventions):
        return FakeInspection(target.parse_input(text))

    monkeypatch.setattr("regard.serve.inspections.collect", collect)

    def inspect(task, text, upload=None, trusted_texts=()):
        target = InspectionTarget(task, nn.Identity(), None, RunInfo("task", "model"))
        session = Session(target, trusted_texts=trusted_texts)
        return session._collect(InspectionRequest(text, NO_INTERVENTIONS, upload)).title

    return inspect


def test_only_trusted_texts_name_files(parse, tmp_path):
    path = str(tmp_path / "own.txt")
    Path(path).write_text("local", encoding="utf-8")
    assert parse(FileTask(), path, trusted_texts=(path,)) == "local" and parse(FileTask(), "a.txt", FILE) == "sent"
    with pytest.raises(DataError, match=r"the input of this run is a file \(.txt\)"):
        parse(FileTask(), path)
    with pytest.raises(DataError, match="does not say which files it opens"):
        parse(UndeclaredTask(), path)
    with pytest.raises(DataError, match="the input of this run is a text; do not send a file"):
        parse(TextTask(), "a.txt", FILE)
    with pytest.raises(DataError, match=r"^damaged.txt: damaged$"):  # without the path on the server
        parse(FileTask(), "damaged.txt", {**FILE, "name": "damaged.txt"})
    assert parse(TextTask(), path) == path


@pytest.fixture(params=["memory", "folder"])
def store(request, tmp_path):
    return InMemory() if request.param == "memory" else InFolder(tmp_path / "looks")


@pytest.mark.parametrize(
    "request_", [InspectionRequest("They sleep.\0", NO_INTERVENTIONS), InspectionRequest("a.txt", CHANGED, FILE)]
)
def test_a_request_is_stored_under_a_new_id(store, request_):
    inspection_id = store.put(request_)
    assert store.get(inspection_id) == request_ and store.put(request_) != inspection_id


@pytest.mark.parametrize("inspection_id", ["", "0", "../0", "x" * 300, "0" * 16, "\0"])
def test_unknown_ids_are_none(store, inspection_id):
    store.put(InspectionRequest("a", NO_INTERVENTIONS))
    assert store.get(inspection_id) is None


def test_a_folder_is_shared_between_processes(tmp_path):
    inspection_id = InFolder(tmp_path).put(InspectionRequest("a", CHANGED))
    assert InFolder(tmp_path).get(inspection_id) == InspectionRequest("a", CHANGED)


def test_the_oldest_requests_are_removed_and_few_uploads_are_stored(store):
    ids = [
        store.put(InspectionRequest(str(index), NO_INTERVENTIONS, FILE if index % 2 else None))
        for index in range(2 * MAX_STORED_REQUESTS)
    ]
    stored = [index for index, inspection_id in enumerate(ids) if store.get(inspection_id) is not None]
    last = 2 * MAX_STORED_REQUESTS
    assert len(stored) <= MAX_STORED_REQUESTS and stored[-1] == last - 1
    assert MAX_STORED_UPLOADS == 4
    assert [index for index in stored if index % 2] == [last - offset for offset in (7, 5, 3, 1)]
