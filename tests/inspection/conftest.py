"""Fixtures of the inspection tests: tiny models and synthetic inspections."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import tiny_runs


@pytest.fixture(scope="session")
def task():
    """Translation of the built-in sentences, with words as tokens."""
    return tiny_runs.make_task()


@pytest.fixture
def subject(task):
    """Return a function: model name -> untrained tiny inspection target."""
    return lambda name="transformer": tiny_runs.make_subject(task, name)


@pytest.fixture
def sentence(task):
    """A sentence of the training data, whose true alignment is known."""
    return task.split("train")[0][0]


@pytest.fixture
def documents():
    """A document classifier with two levels of attention."""
    return tiny_runs.make_documents()


@pytest.fixture
def pictures():
    """An image classifier with attention over patches."""
    return tiny_runs.make_pictures()
