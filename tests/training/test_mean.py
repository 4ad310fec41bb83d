"""The mean of weights."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import CheckpointError
from regard.training import sealed
from regard.training.mean import mean


def test_the_mean_is_the_mean(tmp_path):
    paths = [tmp_path / f"{number}.safetensors" for number in range(3)]
    for number, path in enumerate(paths):
        sealed.write_tensors(path, {"w": torch.full((2,), float(number)), "n": torch.tensor(number)}, {})
    found = mean(paths)
    assert found["w"].tolist() == [1.0, 1.0] and found["w"].dtype == torch.float32
    assert found["n"] == 2
    assert mean(paths[:1])["w"].tolist() == [0.0, 0.0]


def test_what_cannot_be_averaged_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"no weights to average; train with training\.evaluation\.average=N"):
        mean([])
    paths = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    for path, size in zip(paths, (2, 3), strict=True):
        sealed.write_tensors(path, {"w": torch.zeros(size)}, {})
    with pytest.raises(CheckpointError, match=r"b\.safetensors: holds other tensors than a\.safetensors"):
        mean(paths)
