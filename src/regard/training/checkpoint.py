"""Checkpoints: weights, optimizer state and progress in one sealed safetensors file. Nothing is pickled."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from regard.core.errors import CheckpointError
from regard.core.files import wrap_write_errors
from regard.core.protocols import Indices
from regard.training import tensor_files
from regard.training.run_folder import RunFolder, RunIdentity
from regard.training.shape_check import check_same_shapes, named_weights

Tensors = dict[str, Tensor]


@dataclass
class LogWindow:
    """What happened since the last row of the log."""

    loss: float = 0.0
    tokens: int = 0
    skipped: int = 0
    parts: dict[str, float] = field(default_factory=dict)  # named parts of the loss, summed as the loss is


@dataclass
class BestEvaluation:
    """The best evaluation so far."""

    step: int = 0
    score: float | None = None
    since: int = 0  # evaluations since then
    metrics: dict[str, float] = field(default_factory=dict)
    loss: float | None = None  # of the validation data, where the evaluation has it: it decides between equal scores


@dataclass
class Progress:
    """Where a run stands: all but weights and optimizer that the next step depends on. Saved with every checkpoint."""

    step: int = 0
    epoch: int = 0  # whole epochs done
    index: int = 0  # batches of this epoch already done
    seconds: float = 0.0  # over all resumes; the only value that no two runs share
    window: LogWindow = field(default_factory=LogWindow)
    best: BestEvaluation = field(default_factory=BestEvaluation)
    snapshots: list[int] = field(default_factory=list)  # steps whose weights are kept for averaging
    log: dict[str, Any] = field(default_factory=lambda: {"bytes": 0, "sha256": hashlib.sha256().hexdigest()})
    plan: str = ""  # checksum of the epoch's batches
    skipped: int = 0  # batches in a row that were left out because their loss was no number
    run: str | None = None  # the id of the run
    ended: str | None = None  # why the run is over

    @property
    def current_epoch(self) -> int:
        """The number, from 1, of the epoch that the last step belongs to."""
        return self.epoch + (self.index > 0)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, table: dict[str, Any], path: object) -> Progress:
        """The progress in a checkpoint's facts."""
        try:
            values = {name: value for name, value in table.items() if name != "data"}  # of earlier versions
            window, best = LogWindow(**values.pop("window")), BestEvaluation(**values.pop("best"))
            now = cls(window=window, best=best, **values)
            _check_kinds(now, cls())
            return now
        except (TypeError, KeyError, AttributeError):
            raise CheckpointError(f"{path}: not a checkpoint of this version of regard; start the run anew") from None


def _check_kinds(value: Any, pattern: Any) -> None:
    """Every number, text and list of a progress is one; TypeError otherwise."""
    for item in dataclasses.fields(pattern):
        given, usual = getattr(value, item.name), getattr(pattern, item.name)
        if dataclasses.is_dataclass(usual):
            _check_kinds(given, usual)
        elif usual is not None and not isinstance(given, int | float if isinstance(usual, float) else type(usual)):
            raise TypeError(item.name)


def batches_checksum(batches: Sequence[Indices]) -> str:
    """A checksum of an epoch's batches; the data itself has one of its own (Task.fingerprint)."""
    sha = hashlib.sha256()
    for batch in batches:
        sha.update(len(batch).to_bytes(8, "little") + np.ascontiguousarray(batch, dtype="<i8").tobytes())
    return sha.hexdigest()


def full_tensor(tensor: Tensor) -> Tensor:
    """The whole tensor, gathered from all processes if it is sharded (then all of them must call)."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def model_weights(model: nn.Module) -> Tensors:
    """The model's weights by name, tied ones once."""
    return {name: full_tensor(tensor) for name, tensor in named_weights(model).items()}


def restore_weights(model: nn.Module, tensors: Tensors, path: Path) -> None:
    """Copy saved weights into a model of the same shape, or say what does not fit."""
    own = named_weights(model)
    check_same_shapes(_shapes(own), _shapes(tensors), path)
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(_like(tensors[name], tensor))


def _shapes(tensors: Tensors) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def _like(value: Tensor, target: Tensor) -> Tensor:
    """The value on the target's device, sharded as the target is."""
    value = value.to(target.device)
    if isinstance(target, DTensor) and value.shape == target.shape:
        return distribute_tensor(value, target.device_mesh, target.placements)
    return value


def optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> Tensors:
    """What the optimizer remembers, by the name of the parameter."""
    return {
        f"{name}.{key}": full_tensor(value)
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, *, tensors: Tensors) -> None:
    """Give the optimizer its memory back."""
    fused = any(group.get("fused") for group in optimizer.param_groups)
    for name, parameter in model.named_parameters():
        for key, value in tensors.items():
            owner, _, field = key.rpartition(".")
            if owner == name:
                counts_on_host = value.dim() == 0 and not fused
                optimizer.state[parameter][field] = value if counts_on_host else _like(value, parameter)


def save(
    folder: RunFolder, model: nn.Module, *, optimizer: torch.optim.Optimizer, progress: Progress, write: bool
) -> None:
    """Write a checkpoint; every process takes part in the gathering, one writes."""
    tensors = {f"model.{name}": tensor for name, tensor in model_weights(model).items()}
    tensors |= {f"optimizer.{name}": tensor for name, tensor in optimizer_state(model, optimizer).items()}
    if write:
        tensor_files.write_tensors(
            folder.checkpoint(progress.step), tensors, {"run": progress.run, "progress": progress.to_dict()}
        )


def load(path: Path, model: nn.Module, *, optimizer: torch.optim.Optimizer, identity: RunIdentity) -> Progress:
    """Restore model and optimizer from a checkpoint of this run and say where it stood."""
    try:
        tensors, facts = tensor_files.read_tensors(path)
    except tensor_files.CorruptFile as wrong:
        raise CheckpointError(
            f"{wrong}, or move it away to go on from the checkpoint before it, if there is one"
        ) from None
    identity.check(path, facts)
    now = Progress.from_dict(facts.get("progress", {}), path)
    restore_weights(model, _section(tensors, "model."), path)
    restore_optimizer(model, optimizer, tensors=_section(tensors, "optimizer."))
    return now


def _section(tensors: Tensors, prefix: str) -> Tensors:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def prune(folder: RunFolder, progress: Progress, *, keep: int) -> None:
    """Remove checkpoints before the last `keep`, and weights that no average needs."""
    needed = {folder.snapshot(step) for step in progress.snapshots}
    for old in (*folder.checkpoints()[:-keep], *(path for path in folder.snapshots() if path not in needed)):
        with wrap_write_errors(old):
            old.unlink(missing_ok=True)


def mean_weights(paths: list[Path], identity: RunIdentity) -> dict[str, Tensor]:
    """The elementwise mean of the tensors in several files of a run, summed in double precision; integers as in the
    last."""
    if not paths:
        raise CheckpointError("no weights to average; train with training.evaluation.average_last=N to keep the last N")
    total: dict[str, Tensor] = {}
    last: dict[str, Tensor] = {}
    for path in paths:
        last, facts = tensor_files.read_tensors(path)
        identity.check(path, facts)
        if total and {n: t.shape for n, t in last.items()} != {n: t.shape for n, t in total.items()}:
            raise CheckpointError(f"{path}: holds other tensors than {paths[0].name}; average weights of one run only")
        for name, tensor in last.items():
            total[name] = tensor.to(torch.float64) + total.get(name, 0)
    return {
        name: (tensor / len(paths)).to(last[name].dtype) if last[name].is_floating_point() else last[name]
        for name, tensor in total.items()
    }
