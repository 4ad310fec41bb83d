"""What a look reads: texts that never name a file, files that were sent, and what the server's owner gave."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

import pytest
from torch import nn

from regard.core.errors import DataError
from regard.core.task import Task
from regard.inspection.collect import InspectionTarget, RunInfo
from regard.inspection.interventions import NO_INTERVENTIONS
from regard.serve.inspections import InspectionRequest, Session

CONTENT = {"file": base64.b64encode(b"sent").decode(), "name": "a.txt"}


class Files(Task):
    """Its inputs are files."""

    input_suffixes = (".txt",)

    def parse_input(self, text):
        if "wrong" in text:
            raise DataError(f"{text}: wrong")
        return Path(text).read_text(encoding="utf-8")


class Undeclared(Files):
    input_suffixes = None


class Texts(Task):
    """Its inputs are texts."""


@dataclass(frozen=True)
class Seen:
    """What is seen of an input: what the task got."""

    title: str


@pytest.fixture
def read(monkeypatch):
    """A look that only reads its input: (task, text, upload) -> what the task got."""
    monkeypatch.setattr("regard.serve.inspections.collect", lambda subject, text, *, changes: Seen(subject.read(text)))

    def look(task, text, upload=None, own=()):
        subject = InspectionTarget(task, nn.Identity(), None, RunInfo("task", "model"))
        return Session(subject, trusted_texts=own)._collect(InspectionRequest(text, NO_INTERVENTIONS, upload)).title

    return look


def test_only_the_owner_names_files(read, tmp_path):
    path = str(tmp_path / "own.txt")
    Path(path).write_text("mine", encoding="utf-8")
    assert read(Files(), path, own=(path,)) == "mine" and read(Files(), "a.txt", CONTENT) == "sent"
    with pytest.raises(
        DataError, match=r"the input of this run is a file \(.txt\); send the file itself, not where it"
    ):
        read(Files(), path)
    with pytest.raises(DataError, match=r"does not say which files it opens \(Task.opens\); it takes no requests"):
        read(Undeclared(), path)
    with pytest.raises(DataError, match="the input of this run is a text; send no file"):
        read(Texts(), "a.txt", CONTENT)
    with pytest.raises(DataError, match=r"^wrong.txt: wrong$"):  # not where it lies here
        read(Files(), "wrong.txt", {**CONTENT, "name": "wrong.txt"})
    assert read(Texts(), path) == path
