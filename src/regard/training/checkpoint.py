"""Checkpoints: weights, optimizer state and progress in one checksummed safetensors file, without pickle."""

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

from regard.core.checksummed_json import CorruptFile
from regard.core.errors import CheckpointError
from regard.core.files import wrap_write_errors
from regard.core.protocols import Indices
from regard.training import tensor_files
from regard.training.migrations import to_shares
from regard.training.run_folder import RunFolder, RunIdentity
from regard.training.shape_check import check_same_shapes, named_weights

Tensors = dict[str, Tensor]


@dataclass
class LogWindow:
    """Sums since the last log row."""

    loss: float = 0.0
    tokens: int = 0
    skipped: int = 0
    parts: dict[str, float] = field(default_factory=dict)  # sums of the named parts of the loss


@dataclass
class BestEvaluation:
    """The best evaluation so far."""

    step: int = 0
    score: float | None = None
    since: int = 0  # evaluations since then
    metrics: dict[str, float] = field(default_factory=dict)
    loss: float | None = None  # validation loss, if the task computes one; see training/selection.py
    highest: float | None = None  # highest score so far, which the validation loss may have passed over
    rule: str = ""  # rule that selected it

    def in_shares(self, task: str) -> BestEvaluation:
        """Return the evaluation with shares between 0 and 1; earlier versions stored percentages."""
        metrics = to_shares(task, self.metrics)
        converted = [name for name, value in metrics.items() if value != self.metrics[name]]
        is_converted = self.score in [self.metrics[name] for name in converted]
        if not is_converted:
            return dataclasses.replace(self, metrics=metrics)
        score, highest = (None if value is None else value / 100 for value in (self.score, self.highest))
        return dataclasses.replace(self, metrics=metrics, score=score, highest=highest)


@dataclass
class Progress:
    """Training progress: the state, besides weights and optimizer, that the next step depends on."""

    step: int = 0
    epoch: int = 0  # completed epochs
    index: int = 0  # completed batches of this epoch
    seconds: float = 0.0  # training time over all resumes; the only value that differs between identical runs
    window: LogWindow = field(default_factory=LogWindow)
    best: BestEvaluation = field(default_factory=BestEvaluation)
    snapshots: list[int] = field(default_factory=list)  # steps whose weights are stored for averaging
    log: dict[str, Any] = field(default_factory=lambda: {"bytes": 0, "sha256": hashlib.sha256().hexdigest()})
    plan: str = ""  # checksum of the epoch's batches
    skipped: int = 0  # consecutive batches skipped because their loss was not finite
    run: str | None = None  # the id of the run
    ended: str | None = None  # reason why the run ended
    evaluations: int = 0  # completed evaluations
    precision: str = ""  # number format of the steps so far; empty in runs of earlier versions

    @property
    def current_epoch(self) -> int:
        """Index, from 1, of the epoch of the last step."""
        return self.epoch + (self.index > 0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, table: dict[str, Any], path: object) -> Progress:
        """Read the progress from the metadata of a checkpoint."""
        try:
            values = {name: value for name, value in table.items() if name != "data"}  # written by earlier versions
            window, best = LogWindow(**values.pop("window")), BestEvaluation(**values.pop("best"))
            progress = cls(window=window, best=best, **values)
            _check_types(progress, cls())
            return progress
        except (TypeError, KeyError, AttributeError):
            raise CheckpointError(f"{path}: not a checkpoint of this version of regard; train the run again") from None


def _check_types(value: Any, default: Any) -> None:
    """Raise a TypeError if a field does not have the type of its default."""
    for item in dataclasses.fields(default):
        actual, expected = getattr(value, item.name), getattr(default, item.name)
        if dataclasses.is_dataclass(expected):
            _check_types(actual, expected)
        elif expected is not None and not isinstance(
            actual, int | float if isinstance(expected, float) else type(expected)
        ):
            raise TypeError(item.name)


def batches_checksum(batches: Sequence[Indices]) -> str:
    """Return a checksum of the example indices of an epoch's batches (for the data itself see Task.fingerprint)."""
    sha = hashlib.sha256()
    for batch in batches:
        sha.update(len(batch).to_bytes(8, "little") + np.ascontiguousarray(batch, dtype="<i8").tobytes())
    return sha.hexdigest()


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the complete tensor; a sharded one is gathered, which all processes must call."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def model_weights(model: nn.Module) -> Tensors:
    """Return the weights of the model by name; a tied weight appears once."""
    return {name: full_tensor(tensor) for name, tensor in named_weights(model).items()}


def restore_weights(model: nn.Module, tensors: Tensors, path: Path) -> None:
    """Copy saved weights into a model; raise a CheckpointError if names or shapes differ."""
    weights = named_weights(model)
    check_same_shapes(_shapes(weights), _shapes(tensors), path)
    with torch.no_grad():
        for name, tensor in weights.items():
            tensor.copy_(_like(tensors[name], tensor))


def _shapes(tensors: Tensors) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def _like(value: Tensor, target: Tensor) -> Tensor:
    """Return the value on the device of the target, and sharded like it."""
    value = value.to(target.device)
    if isinstance(target, DTensor) and value.shape == target.shape:
        return distribute_tensor(value, target.device_mesh, target.placements)
    return value


def optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> Tensors:
    """Return the optimizer state as tensors named "<parameter>.<key>"."""
    return {
        f"{name}.{key}": full_tensor(value)
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, *, tensors: Tensors) -> None:
    """Restore the optimizer state from tensors named "<parameter>.<key>"."""
    fused = any(group.get("fused") for group in optimizer.param_groups)
    for name, parameter in model.named_parameters():
        for key, value in tensors.items():
            parameter_name, _, state_key = key.rpartition(".")
            if parameter_name == name:
                is_host_counter = value.dim() == 0 and not fused
                optimizer.state[parameter][state_key] = value if is_host_counter else _like(value, parameter)


def save(
    folder: RunFolder, model: nn.Module, *, optimizer: torch.optim.Optimizer, progress: Progress, write: bool
) -> None:
    """Write a checkpoint. All processes must call it, because sharded tensors are gathered; only one writes."""
    tensors = {f"model.{name}": tensor for name, tensor in model_weights(model).items()}
    tensors |= {f"optimizer.{name}": tensor for name, tensor in optimizer_state(model, optimizer).items()}
    if write:
        tensor_files.write_tensors(
            folder.checkpoint(progress.step), tensors, {"run": progress.run, "progress": progress.to_dict()}
        )


def load(path: Path, model: nn.Module, *, optimizer: torch.optim.Optimizer, identity: RunIdentity) -> Progress:
    """Restore model and optimizer from a checkpoint of this run; return its progress."""
    try:
        tensors, metadata = tensor_files.read_tensors(path)
    except CorruptFile as error:
        raise CheckpointError(
            f"{error}, or move it away to continue from the previous checkpoint, if there is one"
        ) from None
    identity.check(path, metadata)
    progress = Progress.from_dict(metadata.get("progress", {}), path)
    restore_weights(model, _section(tensors, "model."), path)
    restore_optimizer(model, optimizer, tensors=_section(tensors, "optimizer."))
    return progress


def _section(tensors: Tensors, prefix: str) -> Tensors:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def prune(folder: RunFolder, progress: Progress, *, keep: int) -> None:
    """Remove all but the last `keep` checkpoints, and snapshots that are not needed for averaging."""
    needed = {folder.snapshot(step) for step in progress.snapshots}
    for path in (*folder.checkpoints()[:-keep], *(path for path in folder.snapshots() if path not in needed)):
        with wrap_write_errors(path):
            path.unlink(missing_ok=True)


def mean_weights(paths: list[Path], identity: RunIdentity) -> dict[str, Tensor]:
    """Return the elementwise mean of the tensors in several files of a run, summed in double precision. Integer tensors
    are those of the last file."""
    if not paths:
        raise CheckpointError(
            "no weights to average; train with training.evaluation.average_last=N to store the last N"
        )
    total: dict[str, Tensor] = {}
    last: dict[str, Tensor] = {}
    for path in paths:
        last, metadata = tensor_files.read_tensors(path)
        identity.check(path, metadata)
        if total and {n: t.shape for n, t in last.items()} != {n: t.shape for n, t in total.items()}:
            raise CheckpointError(
                f"{path}: does not have the tensors of {paths[0].name}; average weights of one run only"
            )
        for name, tensor in last.items():
            total[name] = tensor.to(torch.float64) + total.get(name, 0)
    return {
        name: (tensor / len(paths)).to(last[name].dtype) if last[name].is_floating_point() else last[name]
        for name, tensor in total.items()
    }
