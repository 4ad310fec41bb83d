"""Training on several processes: torchrun starts them, PyTorch's DDP or FSDP joins them.

With a single process every function here is a no-op. FSDP gathers the weights of a part of the model when that part's
forward is called, so a part can be sharded by itself only if its weights are used nowhere else. A part that is also
entered another way (keys projected once, before decoding starts) is taken apart further, or left to the root. Which
parts these are is found by watching one example go through the model.
"""

from __future__ import annotations

import copy
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode

from regard.core.errors import ConfigError
from regard.core.protocols import Loss
from regard.training.device import repeated_blocks, select_device

MIN_SHARD_WEIGHTS = (
    256  # weights of a part that is sharded by itself; less is left to the root, as every part costs a message
)
_LOOK = 1.0  # seconds between two looks at whether torchrun still lives
_GRACE = 60.0  # seconds to save in when it does not
_LEAVE = 5.0  # seconds to end in when that is done
_PATIENCE = timedelta(hours=12)  # the others wait while the first one evaluates; torchrun ends them if it dies


@dataclass(frozen=True)
class Processes:
    """Which process this is, of how many, on what device."""

    rank: int
    world_size: int
    device: torch.device

    @property
    def is_main_process(self) -> bool:
        """Whether this is the one that writes, evaluates and speaks."""
        return self.rank == 0

    def all_reduce_sum(self, values: list[float]) -> list[float]:
        """Each value summed over all processes."""
        if self.world_size == 1:
            return values
        vector = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(vector)
        summed: list[float] = vector.tolist()
        return summed

    def broadcast_from_main(self, value: bool) -> bool:
        """What the first process says, on every process."""
        return self.all_reduce_sum([float(value and self.is_main_process)])[0] > 0

    def barrier(self) -> None:
        """Go on when all have come here."""
        if self.world_size > 1:
            dist.barrier()


@contextmanager
def distributed_context(device: str) -> Iterator[Processes]:
    """The processes torchrun started (its environment says so), or this one alone. A group that is there is used."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    chosen = select_device(device, local_rank=int(os.environ.get("LOCAL_RANK", "0")))
    if world == 1 or dist.is_initialized():
        there = dist.is_initialized()
        yield Processes(dist.get_rank() if there else 0, dist.get_world_size() if there else 1, chosen)
        return
    if chosen.type == "mps":
        raise ConfigError("device='mps' cannot be shared by several processes; use device='cpu' or one process")
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo", timeout=_PATIENCE)
    parent = os.getppid()
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    try:
        yield Processes(rank=dist.get_rank(), world_size=world, device=chosen)
    finally:
        if (
            os.getppid() != parent
        ):  # with torchrun the place is gone where the processes meet: all is saved, but leaving
            signal.setitimer(signal.ITIMER_REAL, _LEAVE)  # may hang, even after Python has ended
        dist.destroy_process_group()


def _end_with_parent(parent: int) -> None:
    """When torchrun is gone nobody would end this process: save and stop, and if that hangs, end."""
    while os.getppid() == parent:
        time.sleep(_LOOK)
    signal.setitimer(signal.ITIMER_REAL, _GRACE)  # then the system ends it, whatever Python waits for
    os.kill(os.getpid(), signal.SIGTERM)


class ModelCaller(nn.Module):
    """Calls a function with the model, so that the hooks of DDP and FSDP fire around all that the task does with it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, function: Callable[..., Any], *values: Any) -> Any:
        """function(model, *values)"""
        return function(self.model, *values)


@dataclass(frozen=True)
class TrainingEngine:
    """A model joined with its copies or shards in other processes."""

    wrapped: nn.Module  # call(function, *values) -> function(model, *values), gradients exchanged
    model: nn.Module  # the plain model inside
    gathered_model: nn.Module | None = None  # where the model is sharded: a whole one of the same shape
    loss_parts: tuple[str, ...] | None = None  # the names of the loss's parts; None: not known yet

    def gradient_sync(self, is_last: bool) -> AbstractContextManager[Any]:
        """Gradients are exchanged only in the last part of an accumulated step."""
        if is_last or not isinstance(self.wrapped, DistributedDataParallel):
            return nullcontext()
        held: AbstractContextManager[Any] = self.wrapped.no_sync()
        return held


def wrap_model(
    model: nn.Module, processes: Processes, *, shard: str, example_loss: Callable[[nn.Module], Loss]
) -> TrainingEngine:
    """DDP or FSDP around the model where there are several processes; `example` gives the loss of one example."""
    caller = ModelCaller(model)
    if processes.world_size == 1:
        return TrainingEngine(caller, model)
    loss = example_loss(model)
    names = tuple(sorted(loss.parts))
    if shard == "full":
        twin = copy.deepcopy(model).to("cpu")
        for part in shard_units(model, lambda: example_loss(model)):
            fully_shard(part)
        fully_shard(caller, reshard_after_forward=False)  # the task may use the root's weights after its forward
        return TrainingEngine(caller, model, gathered_model=twin, loss_parts=names)
    ddp = DistributedDataParallel(caller, find_unused_parameters=_some_unused(model, loss))
    return TrainingEngine(ddp, model, loss_parts=names)


def _some_unused(model: nn.Module, loss: Loss) -> bool:
    """Whether one example leaves some weight without gradient: DDP wants to know beforehand."""
    loss.total.backward()
    unused = any(weight.grad is None for weight in model.parameters() if weight.requires_grad)
    model.zero_grad(set_to_none=True)
    return unused


def shard_units(model: nn.Module, run_forward: Callable[[], object]) -> list[nn.Module]:
    """The largest parts of the model's blocks that `work` enters by their forward only, inner ones first."""
    watcher = _Watcher(model)
    with watcher:
        run_forward()
    watcher.close()
    shared = _shared(model)
    return [unit for block in repeated_blocks(model) for unit in _closed(block, watcher.outside, shared)]


def _closed(part: nn.Module, outside: set[tuple[int, int]], shared: set[int]) -> list[nn.Module]:
    weights = list(part.parameters())
    if sum(weight.numel() for weight in weights) < MIN_SHARD_WEIGHTS:
        return []
    if any((id(part), id(weight)) in outside or id(weight) in shared for weight in weights):
        return [unit for child in part.children() for unit in _closed(child, outside, shared)]
    return [part]


def _shared(model: nn.Module) -> set[int]:
    """Weights that several modules own."""
    owners: dict[int, int] = {}
    for part in model.modules():
        for weight in part.parameters(recurse=False):
            owners[id(weight)] = owners.get(id(weight), 0) + 1
    return {weight for weight, count in owners.items() if count > 1}


class _Watcher(TorchFunctionMode):
    """Notes every use of a weight while the forward of a module above it is not running."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.outside: set[tuple[int, int]] = set()  # (module, weight)
        self._open: set[int] = set()
        self._above: dict[int, list[int]] = {}  # weight -> the modules that hold it, at any depth
        for part in model.modules():
            for weight in part.parameters():
                self._above.setdefault(id(weight), []).append(id(part))
        self._hooks = [hook for part in model.modules() for hook in self._listen(part)]

    def _listen(self, part: nn.Module) -> Sequence[torch.utils.hooks.RemovableHandle]:
        def enter(module: nn.Module, inputs: Any) -> None:
            self._open.add(id(module))

        def leave(module: nn.Module, inputs: Any, output: Any) -> None:
            self._open.discard(id(module))

        return part.register_forward_pre_hook(enter), part.register_forward_hook(leave)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in (*args, *(kwargs or {}).values()):
            for tensor in value if isinstance(value, list | tuple) else (value,):
                if isinstance(tensor, Tensor):
                    self._note(id(tensor))
        return func(*args, **(kwargs or {}))

    def _note(self, weight: int) -> None:
        self.outside |= {(part, weight) for part in self._above.get(weight, ()) if part not in self._open}

    def close(self) -> None:
        """Take the hooks off again."""
        for hook in self._hooks:
            hook.remove()
