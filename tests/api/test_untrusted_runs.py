"""Loading in a program of one's own: its generators are left alone, and a stranger's run fetches nothing."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

import regard
from regard.core.checksummed_json import read_json, write_json
from regard.core.errors import TrustError

TINY = {"model": "transformer", "model.layers": 1, "model.dim": 16, "model.ffn_dim": 32, "model.heads": 2,
        "data": {"pairs": 200, "max_batch_tokens": 256, "vocab_size": 300}, "training.steps": 2,
        "decoding": "greedy"}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return regard.train(
        "translation", TINY, out=tmp_path_factory.mktemp("run") / "run", quiet=True, device="cpu"
    ).folder


def generators():
    return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()


def test_loading_and_training_leave_the_host_s_generators_alone(folder, capfd):
    before = generators()
    regard.load(folder)
    assert generators() == before
    regard.resume(folder, {"training": {"steps": 3}}, quiet=True, device="cpu")
    assert generators() == before
    assert capfd.readouterr() == ("", "")


def test_a_stranger_s_run_fetches_nothing_unless_it_is_trusted(folder, monkeypatch):
    config = folder / "config.json"
    table = read_json(config)
    table["data"]["name"] = "multi30k"
    table["data"]["source"], table["data"]["target"] = "en", "de"
    write_json(config, table)
    asked = []
    monkeypatch.setattr("regard.data.files.download._open", lambda url, have: asked.append(url) or 1 / 0)
    monkeypatch.setenv("REGARD_CACHE", str(folder / "cache"))
    run = regard.load(folder)
    with pytest.raises(TrustError, match=r"would fetch https://\S+ over the network; .* --trust, or trust=True"):
        run.evaluate("test")
    assert not asked
    with pytest.raises(ZeroDivisionError):
        regard.load(folder, trust=True).evaluate("test")
    assert asked
