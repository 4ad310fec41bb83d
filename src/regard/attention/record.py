"""Looking at attention from outside: `with record(model) as maps:`. No model or decoder mentions it.

The fast path runs as always and its output is untouched; for each use of attention the weights are computed once more by
`Weigh`, the definition, only for the modules, heads and rows asked for, in chunks of bounded memory.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.attend import CHUNK, Attend, fold
from regard.attention.masks import Mask
from regard.core.errors import RegardError


class AttentionMap(NamedTuple):
    """The weights of one attention module, before dropout."""

    weights: Tensor  # (b h t s); the steps of a recurrent decoder are joined along t
    queries: str  # what the rows are: "target", "source", "image" …
    keys: str  # what the columns are


@contextmanager
def record(
    model: nn.Module, *, only: str = "*", heads: Sequence[int] | None = None, rows: slice | None = None
) -> Iterator[dict[str, AttentionMap]]:
    """Maps by module path, of the modules whose path matches `only`; filled while the block runs.

    `heads` and `rows` (a slice of the queries of each call) limit what is computed. Recording nothing is an error.
    """
    maps: dict[str, AttentionMap] = {}
    taken = {name.removesuffix(".attend"): x for name, x in model.named_modules() if isinstance(x, Attend)}
    chosen = {name: module for name, module in taken.items() if fnmatch.fnmatch(name, only) or fnmatch.fnmatch(f".{name}", only)}
    if not chosen:
        known = ", ".join(taken) or "none: this model has no attention"
        raise RegardError(f"record: no attention matches only={only!r}; the model's attention modules are: {known}")
    hooks = [_watch(name, module, maps, heads, rows) for name, module in chosen.items()]
    try:
        yield maps
    finally:
        for hook in hooks:
            hook.remove()
    if not maps:
        raise RegardError(
            "record: nothing was recorded; call the model itself inside the block (a compiled or replaced model runs unseen)"
        )


def _watch(
    name: str, module: Attend, maps: dict[str, AttentionMap], heads: Sequence[int] | None, rows: slice | None
) -> torch.utils.hooks.RemovableHandle:
    def note(_: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> None:
        q, k = inputs[0], inputs[1]
        mask = inputs[3] if len(inputs) > 3 else kwargs.get("mask", Mask())
        weights = weights_of(module, q, k, mask, heads=heads, rows=rows)
        before = maps.get(name)
        if before is not None:
            weights = _join(before.weights, weights)
        maps[name] = AttentionMap(weights, module.queries, module.keys)

    return module.register_forward_hook(note, with_kwargs=True)


@torch.no_grad()
def weights_of(
    module: Attend, q: Tensor, k: Tensor, mask: Mask, *, heads: Sequence[int] | None = None, rows: slice | None = None
) -> Tensor:
    """(b h t s) weights of one call, the heads and rows asked for, computed in chunks of rows."""
    if q.shape[0] != k.shape[0]:
        q = fold(q, k, mask)
    (b, h, t, _), s = q.shape, k.shape[-2]
    low, high, step = (rows or slice(None)).indices(t)
    size = max(1, CHUNK // max(1, b * h * s * module.weigh.score.inner))
    kept = []
    for start in range(low, high, size):
        stop = min(start + size, high)
        part = module.weigh(q[:, :, start:stop], k, mask.part(start, stop, keys=s), s - t + start)
        kept.append(part if heads is None else part[:, list(heads)])
    joined = torch.cat(kept, dim=2) if kept else q.new_zeros(b, h if heads is None else len(heads), 0, s)
    return joined[:, :, ::step]


def _join(before: Tensor, after: Tensor) -> Tensor:
    """Two calls of one module, one after the other: rows are joined, keys that were not there yet get zero."""
    missing = after.shape[-1] - before.shape[-1]
    before = nn.functional.pad(before, (0, max(0, missing)))
    after = nn.functional.pad(after, (0, max(0, -missing)))
    return torch.cat([before, after], dim=2)
