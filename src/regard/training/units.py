"""Which parts of a model can be sharded each for itself: those whose weights are used only inside their own forward.

FSDP gathers the weights of a part when its forward is called. A part that is also used by another door (keys projected
once, before decoding starts) must be taken apart further, or left to the root. Which ones these are is found by
watching one example go through the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.training.hardware import blocks

SMALLEST = 256  # weights; less is left to the root, as every unit costs a message


def units(model: nn.Module, work: Callable[[], Any]) -> list[nn.Module]:
    """The largest parts of the model's blocks that `work` enters by their forward only, inner ones first."""
    watcher = _Watcher(model)
    with watcher:
        work()
    watcher.close()
    shared = _shared(model)
    return [unit for block in blocks(model) for unit in _closed(block, watcher.outside, shared)]


def _closed(part: nn.Module, outside: set[tuple[int, int]], shared: set[int]) -> list[nn.Module]:
    weights = list(part.parameters())
    if sum(weight.numel() for weight in weights) < SMALLEST:
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
