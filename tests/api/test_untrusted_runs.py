"""Loading a run: the random generators of the calling program are unchanged, and an untrusted run downloads nothing."""

from __future__ import annotations

import random
import shutil

import numpy as np
import pytest
import torch

import regard
from regard.core.checksummed_json import read_json, write_json
from regard.core.errors import TrustError


@pytest.fixture
def folder(run, tmp_path):
    return shutil.copytree(run.folder, tmp_path / "run")


def generator_states():
    return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()


def test_loading_and_training_leave_the_random_generators_unchanged(folder, capfd):
    before = generator_states()
    regard.load(folder)
    assert generator_states() == before
    regard.resume(folder, {"training": {"steps": 3}}, quiet=True, device="cpu")
    assert generator_states() == before
    assert capfd.readouterr() == ("", "")


def test_an_untrusted_run_downloads_nothing(folder, monkeypatch):
    config = folder / "config.json"
    table = read_json(config)
    table["data"]["dataset"] = "multi30k"
    table["data"]["source"], table["data"]["target"] = "en", "de"
    write_json(config, table)
    urls = []
    monkeypatch.setattr("regard.data.files.download._open", lambda url, have: urls.append(url) or 1 / 0)
    monkeypatch.setenv("REGARD_CACHE", str(folder / "cache"))
    run = regard.load(folder)
    with pytest.raises(TrustError, match=r"would fetch https://\S+ over the network; .* --trust, or trust=True"):
        run.evaluate("test")
    assert not urls
    with pytest.raises(ZeroDivisionError):
        regard.load(folder, trust=True).evaluate("test")
    assert urls
