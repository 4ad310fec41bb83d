"""Where a run stands: everything but weights and optimizer that the next step depends on, as plain values."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import CheckpointError
from regard.core.protocols import Indices
from regard.core.task import Task
from regard.core.tree import map_tensors


@dataclass
class Window:
    """What happened since the last row of the log."""

    loss: float = 0.0
    tokens: int = 0
    skipped: int = 0


@dataclass
class Best:
    """The best evaluation so far."""

    step: int = 0
    score: float | None = None
    since: int = 0  # evaluations since then
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass
class Progress:
    """Saved with every checkpoint."""

    step: int = 0
    epoch: int = 0
    index: int = 0  # batches of this epoch already done
    seconds: float = 0.0  # over all resumes; the only value that no two runs share
    window: Window = field(default_factory=Window)
    best: Best = field(default_factory=Best)
    snapshots: list[int] = field(default_factory=list)  # steps whose weights are kept for averaging
    log: dict[str, Any] = field(default_factory=lambda: {"bytes": 0, "sha256": hashlib.sha256().hexdigest()})
    data: str = ""  # fingerprint of the epoch's data
    ended: str | None = None  # why the run is over

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dataclasses.asdict(self)


def from_dict(table: dict[str, Any], where: object) -> Progress:
    """The progress in a checkpoint's facts."""
    try:
        parts = dict(table)
        window, best = Window(**parts.pop("window")), Best(**parts.pop("best"))
        return Progress(window=window, best=best, **parts)
    except (TypeError, KeyError):
        raise CheckpointError(f"{where}: not a checkpoint of this version of regard; start the run anew") from None


def fingerprint(task: Task, plan: Sequence[Indices]) -> str:
    """A few bytes that change when the training data or the way it is batched does."""
    sha = hashlib.sha256(str(len(plan)).encode())
    if plan:
        sha.update(np.ascontiguousarray(plan[0]).tobytes())

        def note(tensor: Tensor) -> Tensor:
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            sha.update(str(tuple(tensor.shape)).encode())
            sha.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
            return tensor

        map_tensors(task.batch(plan[0]), note)
    return sha.hexdigest()
