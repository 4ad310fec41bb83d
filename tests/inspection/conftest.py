"""What tests of looking inside share: made-up inspections, and tiny models."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import tiny_runs


@pytest.fixture(scope="session")
def task():
    """Translation of the built-in sentences, words as tokens."""
    return tiny_runs.make_task()


@pytest.fixture
def subject(task):
    """A model's name -> an untrained tiny one, ready to be looked into."""
    return lambda name="transformer": tiny_runs.make_subject(task, name)


@pytest.fixture
def sentence(task):
    """A sentence of the training data, whose true alignment is known."""
    return task.split("train")[0][0]


@pytest.fixture
def documents():
    """Words of sentences of a document: two levels."""
    return tiny_runs.make_documents()


@pytest.fixture
def pictures():
    """Patches of an image."""
    return tiny_runs.make_pictures()
