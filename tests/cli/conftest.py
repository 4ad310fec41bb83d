"""A small run that the tests of the command line share; they must not change it."""

from __future__ import annotations

import pytest
from run_cli import call
from small_data import few_held_out_examples

SMALL = ["model.layers=1", "model.dim=16", "model.ffn_dim=16", "model.heads=2", "data.pairs=300", "data.vocab_size=300"]
SHORT = ["training.steps=3", "training.evaluation.every=3", "data.max_length=40", "decoding=greedy"]


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A translation run trained by the command line; tests must not change it."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    probe = ["--training.probe_input", "The cook reads a book."]
    with few_held_out_examples():
        call("train", "translation", "model=transformer", *SMALL, *SHORT, *probe, "--out", folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def small_data():
    """Evaluate on few examples."""
    with few_held_out_examples():
        yield
