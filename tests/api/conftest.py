"""One small run that the tests of the Python API share."""

from __future__ import annotations

import pytest
from small_data import few_held_out_examples

import regard

SMALL = {"model": "bahdanau", "model.dim": 8, "model.embedding": 8, "data": {"pairs": 100, "vocab_size": 300}}
SHORT = {"training": {"steps": 2, "evaluation.every": 2}, "decoding": "greedy"}


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A translation run trained with the Python API; tests must not change its folder."""
    out = tmp_path_factory.mktemp("runs") / "small"
    with few_held_out_examples():
        return regard.train("translation", {**SMALL, **SHORT}, out=out, quiet=True, device="cpu")


@pytest.fixture(scope="module", autouse=True)
def small_data():
    """Evaluate on few examples."""
    with few_held_out_examples():
        yield
