"""The server's tests use the tiny models of the tests of looking inside."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "inspection"))

import subjects


@pytest.fixture(scope="session")
def subject():
    """An untrained tiny Transformer."""
    return subjects.make_subject(subjects.make_task())


@pytest.fixture
def sentence(subject):
    return subject.task.split("train")[0][0]
