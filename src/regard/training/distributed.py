"""Distributed training with torchrun and PyTorch's DDP or FSDP.

With a single process every function here is a no-op. FSDP gathers the weights of a module when its forward is called,
so a module can be a shard unit only if its weights are not used elsewhere. A module that is also used in another way
(keys projected once, before decoding starts) is split further, or left to the root. The units are detected by tracing
the forward pass of one example.
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

MIN_SHARD_WEIGHTS = 256  # smaller modules are left to the root, because every shard unit costs a message
_POLL_INTERVAL_S = 1.0  # between two checks that torchrun is alive
_SAVE_TIMEOUT_S = 60.0  # to save after torchrun has died
_EXIT_TIMEOUT_S = 5.0  # to exit after that
_COLLECTIVE_TIMEOUT = timedelta(hours=12)  # others wait while the main process evaluates; torchrun ends them if it dies


@dataclass(frozen=True)
class Processes:
    """Rank and device of this process, and the number of processes."""

    rank: int
    world_size: int
    device: torch.device

    @property
    def is_main_process(self) -> bool:
        """True for the process that writes files, evaluates and prints."""
        return self.rank == 0

    def all_reduce_sum(self, values: list[float]) -> list[float]:
        """Sum each value over all processes."""
        if self.world_size == 1:
            return values
        vector = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(vector)
        summed: list[float] = vector.tolist()
        return summed

    def broadcast_from_main(self, value: bool) -> bool:
        """Return the value of the main process on every process."""
        return self.all_reduce_sum([float(value and self.is_main_process)])[0] > 0

    def barrier(self) -> None:
        """Wait until all processes have called this method."""
        if self.world_size > 1:
            dist.barrier()


@contextmanager
def distributed_context(device: str) -> Iterator[Processes]:
    """Join the processes started by torchrun, according to its environment variables, or use this process alone. An
    existing process group is used."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    selected = select_device(device, local_rank=int(os.environ.get("LOCAL_RANK", "0")))
    if world_size == 1 or dist.is_initialized():
        has_group = dist.is_initialized()
        yield Processes(dist.get_rank() if has_group else 0, dist.get_world_size() if has_group else 1, selected)
        return
    if selected.type == "mps":
        raise ConfigError("device='mps' does not support several processes; use device='cpu' or one process")
    if selected.type == "cuda":
        torch.cuda.set_device(selected)
    dist.init_process_group("nccl" if selected.type == "cuda" else "gloo", timeout=_COLLECTIVE_TIMEOUT)
    parent = os.getppid()
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    try:
        yield Processes(rank=dist.get_rank(), world_size=world_size, device=selected)
    finally:
        if os.getppid() != parent:
            # The rendezvous died with torchrun: all is saved, but leaving the group may hang, even after Python's exit.
            signal.setitimer(signal.ITIMER_REAL, _EXIT_TIMEOUT_S)
        dist.destroy_process_group()


def _end_with_parent(parent: int) -> None:
    """Stop the training when torchrun has died, and kill this process if saving hangs."""
    while os.getppid() == parent:
        time.sleep(_POLL_INTERVAL_S)
    signal.setitimer(signal.ITIMER_REAL, _SAVE_TIMEOUT_S)  # then the system ends it, even if Python hangs
    os.kill(os.getpid(), signal.SIGTERM)


class ModelCaller(nn.Module):
    """Calls a function with the model, so that the hooks of DDP and FSDP wrap the complete computation of the task."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, function: Callable[..., Any], *values: Any) -> Any:
        """Return function(model, *values)."""
        return function(self.model, *values)


@dataclass(frozen=True)
class TrainingEngine:
    """A model wrapped for training, with DDP or FSDP if there are several processes."""

    wrapped: nn.Module  # (function, *values) -> function(model, *values), with gradient synchronization
    model: nn.Module  # the plain model inside
    gathered_model: nn.Module | None = None  # if the model is sharded: a complete model of the same shapes
    loss_parts: tuple[str, ...] | None = None  # names of the parts of the loss; None: not known yet

    def gradient_sync(self, is_last: bool) -> AbstractContextManager[Any]:
        """Return a context that synchronizes gradients only in the last micro-batch of a step."""
        if is_last or not isinstance(self.wrapped, DistributedDataParallel):
            return nullcontext()
        no_sync: AbstractContextManager[Any] = self.wrapped.no_sync()
        return no_sync


def wrap_model(
    model: nn.Module, processes: Processes, *, shard: str, example_loss: Callable[[nn.Module], Loss]
) -> TrainingEngine:
    """Wrap the model in DDP or FSDP if there are several processes; `example_loss` computes the loss of one example."""
    caller = ModelCaller(model)
    if processes.world_size == 1:
        return TrainingEngine(caller, model)
    loss = example_loss(model)
    names = tuple(sorted(loss.parts))
    if shard == "full":
        gathered = copy.deepcopy(model).to("cpu")
        for unit in shard_units(model, lambda: example_loss(model)):
            fully_shard(unit)
        fully_shard(caller, reshard_after_forward=False)  # the task may use weights of the root after its forward
        return TrainingEngine(caller, model, gathered_model=gathered, loss_parts=names)
    ddp = DistributedDataParallel(caller, find_unused_parameters=_has_unused_weights(model, loss))
    return TrainingEngine(ddp, model, loss_parts=names)


def _has_unused_weights(model: nn.Module, loss: Loss) -> bool:
    """Return True if a weight gets no gradient from one example; DDP needs to know this in advance."""
    loss.total.backward()
    unused = any(weight.grad is None for weight in model.parameters() if weight.requires_grad)
    model.zero_grad(set_to_none=True)
    return unused


def shard_units(model: nn.Module, run_forward: Callable[[], object]) -> list[nn.Module]:
    """Return the largest modules in the model's blocks whose weights `run_forward` uses only inside their forward."""
    tracer = _WeightTracer(model)
    with tracer:
        run_forward()
    tracer.close()
    shared = _shared_weights(model)
    return [unit for block in repeated_blocks(model) for unit in _units(block, tracer.outside, shared)]


def _units(module: nn.Module, outside: set[tuple[int, int]], shared: set[int]) -> list[nn.Module]:
    weights = list(module.parameters())
    if sum(weight.numel() for weight in weights) < MIN_SHARD_WEIGHTS:
        return []
    if any((id(module), id(weight)) in outside or id(weight) in shared for weight in weights):
        return [unit for child in module.children() for unit in _units(child, outside, shared)]
    return [module]


def _shared_weights(model: nn.Module) -> set[int]:
    """Return the ids of weights that several modules have."""
    owners: dict[int, int] = {}
    for module in model.modules():
        for weight in module.parameters(recurse=False):
            owners[id(weight)] = owners.get(id(weight), 0) + 1
    return {weight for weight, count in owners.items() if count > 1}


class _WeightTracer(TorchFunctionMode):
    """Records every use of a weight outside of the forward of a module that contains it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.outside: set[tuple[int, int]] = set()  # (module, weight)
        self._running: set[int] = set()
        self._containers: dict[int, list[int]] = {}  # weight -> modules that contain it, at any depth
        for module in model.modules():
            for weight in module.parameters():
                self._containers.setdefault(id(weight), []).append(id(module))
        self._hooks = [hook for module in model.modules() for hook in self._add_hooks(module)]

    def _add_hooks(self, module: nn.Module) -> Sequence[torch.utils.hooks.RemovableHandle]:
        def enter(entered: nn.Module, inputs: Any) -> None:
            self._running.add(id(entered))

        def leave(left: nn.Module, inputs: Any, output: Any) -> None:
            self._running.discard(id(left))

        return module.register_forward_pre_hook(enter), module.register_forward_hook(leave)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in (*args, *(kwargs or {}).values()):
            for tensor in value if isinstance(value, list | tuple) else (value,):
                if isinstance(tensor, Tensor):
                    self._record(id(tensor))
        return func(*args, **(kwargs or {}))

    def _record(self, weight: int) -> None:
        self.outside |= {(module, weight) for module in self._containers.get(weight, ()) if module not in self._running}

    def close(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()
