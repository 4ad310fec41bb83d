"""`regard average` creates a run with averaged weights."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import CheckpointError
from regard.training.average import average
from regard.training.checkpoint import mean_weights
from regard.training.load_run import load_run
from regard.training.run_folder import RunFolder, read_identity
from regard.training.train import train


def test_the_average_of_a_run_is_a_run(toy, tmp_path, silent):
    train(toy("training.evaluation.every=3", "training.evaluation.average_last=3"), tmp_path / "run", console=silent)
    path = average(tmp_path / "run", last=2, out=tmp_path / "mean")
    source = RunFolder(tmp_path / "run")
    expected = mean_weights([source.snapshot(step) for step in (9, 12)], read_identity(source))
    loaded = load_run(path)
    assert path == tmp_path / "mean"
    assert torch.equal(loaded.model.embedding.weight, expected["embedding.weight"])
    assert "step 9, step 12" in (tmp_path / "mean" / "README.md").read_text()


def test_more_than_there_are_is_refused(toy, tmp_path, silent):
    train(toy("training.evaluation.average_last=2"), tmp_path / "run", console=silent)
    with pytest.raises(CheckpointError, match=r"stores the weights of 2 evaluations, not of 5; train with"):
        average(tmp_path / "run", last=5, out=tmp_path / "mean")
    with pytest.raises(CheckpointError, match="run already contains a run; choose another folder, or continue it"):
        average(tmp_path / "run", last=2, out=tmp_path / "run")
    assert not (tmp_path / "mean").exists()
