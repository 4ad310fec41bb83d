"""A loss that is no number: stopped with its examples written down, or skipped and counted."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
import torch

from regard.training import log
from regard.training.folder import Folder
from regard.training.nonfinite import Diverged, plain
from regard.training.run import train


def test_it_stops_and_keeps_the_examples(toy, tmp_path, silent):
    with pytest.raises(Diverged) as stopped:
        train(toy("data.poison=3", "training.files.save_every=1"), tmp_path / "run", console=silent)
    found = json.loads((tmp_path / "run" / "nonfinite.json").read_text())
    assert 3 in found["examples"] and len(found["examples"]) == 8
    assert found["batch"]["numbers"] == found["examples"] and found["loss"] == "nan"
    step = found["step"]
    before = f"the last checkpoint is step-{step - 1:09d}.safetensors" if step > 1 else "there is no checkpoint yet"
    said = str(stopped.value)
    assert f"loss nan is not finite at step {step} (epoch 0, batch {step})" in said
    assert before in said and "nonfinite.json" in said and "training.optimizer.nonfinite=skip" in said
    assert not Folder(tmp_path / "run").checkpoint(step).exists()


def test_or_it_skips_and_counts(toy, tmp_path, silent):
    settings = ["data.poison=3", "training.optimizer.nonfinite=skip", "training.files.log_every=5"]
    run = train(toy(*settings, "training.steps=10"), tmp_path / "run", console=silent)
    rows = [row for row in log.read(tmp_path / "run" / "log.jsonl") if "loss" in row]
    assert [row["skipped"] for row in rows] == [1, 1]
    assert all(row["loss"] is not None for row in rows)
    assert all(torch.isfinite(p).all() for p in run.model.parameters())


class Batch(NamedTuple):
    tokens: torch.Tensor
    names: tuple
    image: torch.Tensor
    what: object


def test_a_batch_as_plain_values():
    batch = Batch(torch.tensor([[1, 2]]), ("a", None, 3), torch.arange(30_000.0), {1})
    assert plain(batch) == {
        "tokens": [[1, 2]],
        "names": ["a", None, 3],
        "image": {"shape": [30_000], "least": 0.0, "greatest": 29_999.0},
        "what": "{1}",
    }
