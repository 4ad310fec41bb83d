"""Many processes on PyTorch's own engine: torchrun starts them, DDP or FSDP joins them. Alone, all this is nothing."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from regard.core.errors import ConfigError
from regard.training.hardware import pick
from regard.training.units import units

_PATIENCE = timedelta(hours=12)  # the others wait while the first one evaluates; torchrun ends them if it dies


@dataclass(frozen=True)
class Processes:
    """Which process this is, of how many, on what device."""

    rank: int
    world: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this is the one that writes, evaluates and speaks."""
        return self.rank == 0

    def total(self, values: list[float]) -> list[float]:
        """Each value summed over all processes."""
        if self.world == 1:
            return values
        vector = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(vector)
        summed: list[float] = vector.tolist()
        return summed

    def agree(self, value: bool) -> bool:
        """What the first process says, on every process."""
        return self.total([float(value and self.first)])[0] > 0

    def wait(self) -> None:
        """Go on when all have come here."""
        if self.world > 1:
            dist.barrier()


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """The processes torchrun started (its environment says so), or this one alone. A group that is there is used."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    chosen = pick(device, local_rank=int(os.environ.get("LOCAL_RANK", "0")))
    if world == 1 or dist.is_initialized():
        there = dist.is_initialized()
        yield Processes(dist.get_rank() if there else 0, dist.get_world_size() if there else 1, chosen)
        return
    if chosen.type == "mps":
        raise ConfigError("device='mps' cannot be shared by several processes; use device='cpu' or one process")
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo", timeout=_PATIENCE)
    try:
        yield Processes(rank=dist.get_rank(), world=world, device=chosen)
    finally:
        dist.destroy_process_group()


class Step(nn.Module):
    """Hands the model to a function: so the hooks of DDP and FSDP fire around whatever the task does with it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, work: Callable[..., Any], *values: Any) -> Any:
        """work(model, *values)"""
        return work(self.model, *values)


@dataclass(frozen=True)
class Engine:
    """A model joined with its copies or shards in other processes."""

    step: nn.Module  # step(work, *values) -> work(model, *values), gradients exchanged
    model: nn.Module  # the plain model inside
    twin: nn.Module | None = None  # where the model is sharded: a whole one of the same shape

    def quietly(self, last: bool) -> AbstractContextManager[Any]:
        """Gradients are exchanged only in the last part of an accumulated step."""
        if last or not isinstance(self.step, DistributedDataParallel):
            return nullcontext()
        held: AbstractContextManager[Any] = self.step.no_sync()
        return held


def join(model: nn.Module, processes: Processes, *, shard: str, work: Callable[[nn.Module], Any]) -> Engine:
    """DDP or FSDP around the model where there are several processes; `work` is one example's loss, to learn from."""
    step = Step(model)
    if processes.world == 1:
        return Engine(step, model)
    if shard == "full":
        twin = copy.deepcopy(model).to("cpu")
        for part in units(model, lambda: work(model)):
            fully_shard(part)
        fully_shard(step, reshard_after_forward=False)  # the task may use the root's weights after its forward
        return Engine(step, model, twin=twin)
    return Engine(DistributedDataParallel(step, find_unused_parameters=_some_unused(model, work)), model)


def _some_unused(model: nn.Module, work: Callable[[nn.Module], Any]) -> bool:
    """Whether one example leaves some weight without gradient: DDP wants to know beforehand."""
    work(model).total.backward()
    unused = any(weight.grad is None for weight in model.parameters() if weight.requires_grad)
    model.zero_grad(set_to_none=True)
    return unused
