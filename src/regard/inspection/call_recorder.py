"""Record the inputs of every attention call while a model runs: queries, keys, values and mask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from regard.attention.masks import NO_MASK, Mask
from regard.attention.record import attention_modules
from regard.attention.score import ProjectedKeys
from regard.inspection.map_tiles import BoolArray


class AttentionCall(NamedTuple):
    """Inputs of one attention call."""

    q: Tensor  # (b h t d)
    k: Tensor  # (b h s d), projected by the score
    v: Tensor  # (b h s e)
    mask: Mask = NO_MASK

    @staticmethod
    def from_inputs(q: Tensor, k: Tensor | ProjectedKeys, v: Tensor, mask: Mask = NO_MASK) -> AttentionCall:
        """Create it from the arguments of an `Attend`."""
        return AttentionCall(q, k.tensor if isinstance(k, ProjectedKeys) else k, v, mask)

    def attention_mask(self, batch: int) -> BoolArray:
        """Return the mask (1 or h, t, s) of one batch row; True: the query may attend to the key."""
        t, s = self.q.shape[-2], self.k.shape[-2]
        dense = self.mask.dense(t, s, device=self.q.device)
        if dense is None:
            return np.ones((1, t, s), dtype=np.bool_)
        row = dense[min(batch, len(dense) - 1)]
        return np.asarray(row.expand(-1, t, s).cpu().numpy(), dtype=np.bool_)


@contextmanager
def record_calls(model: nn.Module) -> Iterator[dict[str, list[AttentionCall]]]:
    """Record every attention call inside the block, by module path, in order."""
    calls: dict[str, list[AttentionCall]] = {name: [] for name in attention_modules(model)}
    hooks = [
        module.register_forward_hook(_append_to(calls[name]), with_kwargs=True)
        for name, module in attention_modules(model).items()
    ]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _append_to(calls: list[AttentionCall]) -> Callable[..., None]:
    def hook(_: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> None:
        calls.append(AttentionCall.from_inputs(*inputs, **kwargs))

    return hook


def combined_mask(recorded_calls: Sequence[AttentionCall], batch: int, size: tuple[int, int]) -> BoolArray | None:
    """Return the mask (1 or h, t, s) of all calls, concatenated over queries; None if nothing is masked."""
    rows, columns = size
    parts = [call.attention_mask(batch) for call in recorded_calls]
    heads, num_keys = max(len(part) for part in parts), max(part.shape[-1] for part in parts)
    padded = [
        np.pad(np.broadcast_to(part, (heads, *part.shape[1:])), ((0, 0), (0, 0), (0, num_keys - part.shape[-1])))
        for part in parts
    ]
    bits = np.concatenate(padded, axis=1)[:, :rows, :columns]
    return None if bits.all() else bits
