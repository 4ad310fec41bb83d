"""The mean of several sets of weights, which is often better than each of them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from regard.core.errors import CheckpointError
from regard.training import sealed


def mean(paths: list[Path]) -> dict[str, Tensor]:
    """The elementwise mean of the tensors in several files, summed in double precision; integers as in the last."""
    if not paths:
        raise CheckpointError("no weights to average; train with training.evaluation.average=N to keep the last N")
    total: dict[str, Tensor] = {}
    last: dict[str, Tensor] = {}
    for path in paths:
        last, _ = sealed.read_tensors(path)
        if total and {n: t.shape for n, t in last.items()} != {n: t.shape for n, t in total.items()}:
            raise CheckpointError(f"{path}: holds other tensors than {paths[0].name}; average weights of one run only")
        for name, tensor in last.items():
            total[name] = tensor.to(torch.float64) + total.get(name, 0)
    return {
        name: (tensor / len(paths)).to(last[name].dtype) if last[name].is_floating_point() else last[name]
        for name, tensor in total.items()
    }
