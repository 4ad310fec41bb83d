"""Weights and optimizer state to and from sealed safetensors files. Tied weights once; nothing is pickled."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from regard.core.errors import CheckpointError
from regard.training import progress, sealed
from regard.training.folder import Folder
from regard.training.progress import Progress

Tensors = dict[str, Tensor]


def _own(model: nn.Module) -> Tensors:
    """Each parameter and saved buffer under one name, however many names it has."""
    saved = model.state_dict(keep_vars=True)
    named = [*model.named_parameters(), *model.named_buffers()]  # both leave out repetitions
    return {name: tensor for name, tensor in named if name in saved}


def full(tensor: Tensor) -> Tensor:
    """The whole tensor, gathered from all processes if it is sharded (then all of them must call)."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def weights(model: nn.Module) -> Tensors:
    """The model's weights by name, tied ones once."""
    return {name: full(tensor) for name, tensor in _own(model).items()}


def restore_weights(model: nn.Module, tensors: Tensors, where: Path) -> None:
    """Copy saved weights into a model of the same shape, or say what does not fit."""
    own = _own(model)
    missing, extra = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
    if missing or extra:
        raise CheckpointError(f"{where}: does not fit the model: {_listed('missing', missing, extra)}")
    for name, tensor in own.items():
        if tensor.shape != tensors[name].shape:
            shapes = f"{tuple(tensors[name].shape)} in the file, {tuple(tensor.shape)} in the model"
            raise CheckpointError(f"{where}: does not fit the model: {name} is {shapes}")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(_like(tensors[name], tensor))


def _listed(word: str, missing: list[str], extra: list[str]) -> str:
    return f"{word} {', '.join(missing[:3]) or 'nothing'}; unknown {', '.join(extra[:3]) or 'nothing'}"


def _like(value: Tensor, target: Tensor) -> Tensor:
    """The value on the target's device, sharded as the target is."""
    value = value.to(target.device)
    if isinstance(target, DTensor) and value.shape == target.shape:
        return distribute_tensor(value, target.device_mesh, target.placements)
    return value


def optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> Tensors:
    """What the optimizer remembers, by the name of the parameter."""
    found: Tensors = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            found[f"{name}.{key}"] = full(value)
    return found


def restore_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, *, tensors: Tensors) -> None:
    """Give the optimizer its memory back."""
    fused = any(group.get("fused") for group in optimizer.param_groups)
    for name, parameter in model.named_parameters():
        for key, value in tensors.items():
            owner, _, field = key.rpartition(".")
            if owner == name:
                counts_on_host = value.dim() == 0 and not fused
                optimizer.state[parameter][field] = value if counts_on_host else _like(value, parameter)


def save(folder: Folder, model: nn.Module, *, optimizer: torch.optim.Optimizer, now: Progress, write: bool) -> None:
    """Write a checkpoint; every process takes part in the gathering, one writes."""
    tensors = {f"model.{name}": tensor for name, tensor in weights(model).items()}
    tensors |= {f"optimizer.{name}": tensor for name, tensor in optimizer_state(model, optimizer).items()}
    if write:
        sealed.write_tensors(folder.checkpoint(now.step), tensors, {"progress": now.to_dict()})


def load(path: Path, model: nn.Module, *, optimizer: torch.optim.Optimizer) -> Progress:
    """Restore model and optimizer from a checkpoint and say where it stood."""
    tensors, facts = sealed.read_tensors(path)
    now = progress.from_dict(facts.get("progress", {}), path)
    restore_weights(model, _section(tensors, "model."), path)
    restore_optimizer(model, optimizer, tensors=_section(tensors, "optimizer."))
    return now


def _section(tensors: Tensors, prefix: str) -> Tensors:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def prune(folder: Folder, now: Progress, *, keep: int) -> None:
    """Remove checkpoints before the last `keep`, and weights that no average needs."""
    for old in folder.checkpoints()[:-keep]:
        old.unlink(missing_ok=True)
    needed = {folder.snapshot(step) for step in now.snapshots}
    for old in folder.snapshots():
        if old not in needed:
            old.unlink(missing_ok=True)
