"""What if: heads switched off, tokens forbidden, attention made warmer or colder, from outside, for a block of code.

Nothing in a model knows of it. A head is switched off by zeroing what it mixed; a token is forbidden by one more mask;
the temperature divides the scores inside the normaliser, so it is right for every score and position scheme.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.attention.record import attentions
from regard.core.errors import RegardError, nearest


@dataclass(frozen=True)
class Changes:
    """What is changed; the default changes nothing."""

    off: tuple[tuple[str, int], ...] = ()  # (attention module, head)
    forbid: tuple[int, ...] = ()  # source tokens, counted from 0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not 0.01 <= self.temperature <= 100:
            raise RegardError(f"temperature={self.temperature} must lie between 0.01 and 100")


class Tempered(nn.Module):
    """A normaliser whose scores are divided by a temperature first."""

    def __init__(self, normalizer: nn.Module, temperature: float) -> None:
        super().__init__()
        self.normalizer = normalizer
        self.temperature = temperature

    def forward(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        weights: Tensor = self.normalizer(scores / self.temperature, allowed)
        return weights


@contextmanager
def changed(model: nn.Module, changes: Changes) -> Iterator[None]:
    """The model behaves as changed inside the block, and as always after it."""
    found = attentions(model)
    with ExitStack() as undo:
        for name, head in changes.off:
            if name not in found:
                raise RegardError(f"no attention module {name!r} to switch a head off in; {nearest(name, found)}")
            undo.callback(found[name].register_forward_hook(_silence(name, head)).remove)
        for module in found.values():
            if changes.forbid and module.keys == "source":
                hook = module.register_forward_pre_hook(_forbid(changes.forbid), with_kwargs=True)
                undo.callback(hook.remove)
            if changes.temperature != 1:
                undo.enter_context(_tempered(module, changes.temperature))
        yield


@contextmanager
def _tempered(module: Attend, temperature: float) -> Iterator[None]:
    usual = module.weigh.normalizer
    module.weigh.normalizer = Tempered(usual, temperature)
    try:
        yield
    finally:
        module.weigh.normalizer = usual


def _silence(name: str, head: int) -> Any:
    def hook(_: nn.Module, inputs: tuple[Any, ...], mixed: Tensor) -> Tensor:
        heads = mixed.shape[1]
        if not 0 <= head < heads:
            raise RegardError(f"{name} has no head {head}; its heads are 0 to {heads - 1}")
        kept = torch.arange(heads, device=mixed.device) != head
        return mixed * kept[:, None, None]  # (b h t e)

    return hook


def _forbid(tokens: tuple[int, ...]) -> Any:
    def hook(_: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        keys = inputs[1].shape[-2]
        present = torch.ones(1, keys, dtype=torch.bool, device=inputs[1].device)
        for token in tokens:
            if not 0 <= token < keys:
                raise RegardError(f"cannot forbid token {token}: the source has tokens 0 to {keys - 1}")
            present[0, token] = False
        mask = inputs[3] if len(inputs) > 3 else kwargs.get("mask", Mask())
        return inputs[:3], {"mask": mask & Mask.present(present)}

    return hook
