"""Looking at attention from outside: `with record(model) as maps:`. No model or decoder mentions it.

The fast path runs as always and its output is untouched; for each use of attention the weights are computed once more
by `Weigh`, the definition, only for the modules and rows asked for, in chunks of bounded memory. A random normaliser
cannot be asked twice: what it gave is taken where it is made.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils.hooks import RemovableHandle

from regard.attention.attend import Attend, fold_hypotheses, unfold_hypotheses
from regard.attention.kernels.chunked import queries_per_chunk
from regard.attention.masks import NO_MASK, Mask
from regard.attention.normalizers import Softmax
from regard.attention.score import ProjectedKeys
from regard.core.errors import RegardError


class AttentionMap(NamedTuple):
    """The weights of one attention module, before dropout."""

    weights: Tensor  # (b h t s); the steps of a recurrent decoder are joined along t
    queries: str  # what the rows are: "target", "source", "image" …
    keys: str  # what the columns are


class Selection(NamedTuple):
    """What is kept of each call."""

    heads: Sequence[int] | None
    rows: slice | None

    def take(self, weights: Tensor) -> Tensor:
        """(b h t s) -> the heads and rows that are wanted."""
        if self.heads is not None and not set(self.heads) <= set(range(weights.shape[1])):
            raise RegardError(f"record: heads={list(self.heads)} but there are {weights.shape[1]}; count from 0")
        weights = weights if self.heads is None else weights[:, list(self.heads)]
        return weights if self.rows is None else weights[:, :, self.rows]


SELECT_ALL = Selection(None, None)


def attention_modules(model: nn.Module) -> dict[str, Attend]:
    """Every use of attention in a model, by the path of the layer it belongs to: decoder.layers.0.cross_attn."""
    named = model.named_modules()
    return {name.removesuffix(".attend"): module for name, module in named if isinstance(module, Attend)}


@contextmanager
def record(
    model: nn.Module, *, only: str = "*", heads: Sequence[int] | None = None, rows: slice | None = None
) -> Iterator[dict[str, AttentionMap]]:
    """Maps by module path, of the modules whose path matches `only`; filled while the block runs.

    `heads` and `rows` (a slice of the queries of each call) limit what is kept. Recording nothing is an error.
    """
    if rows is not None and (rows.step or 1) < 1:
        raise RegardError(f"record: rows={rows} runs backwards; give a step of at least 1")
    maps: dict[str, AttentionMap] = {}
    modules = attention_modules(model)
    chosen = {name: module for name, module in modules.items() if _matches(name, only)}
    if not chosen:
        names = ", ".join(modules) or "none: this model has no attention"
        raise RegardError(f"record: no attention matches only={only!r}; the model's attention modules are: {names}")
    wanted = Selection(heads, rows)
    hooks = [hook for name, module in chosen.items() for hook in _watch(name, module, maps, wanted)]
    try:
        yield maps
    finally:
        for hook in hooks:
            hook.remove()
    if not maps:
        raise RegardError(
            "record: nothing was recorded; call the model itself inside the block (a compiled copy runs unseen)"
        )


def _matches(name: str, only: str) -> bool:
    return fnmatch.fnmatchcase(name, only) or fnmatch.fnmatchcase(f".{name}", only)


def _watch(name: str, module: Attend, maps: dict[str, AttentionMap], wanted: Selection) -> list[RemovableHandle]:
    chunks: list[Tensor] = []  # weights of the call under way, by chunk, where they cannot be made again

    def begin(*_: Any) -> None:
        chunks.clear()

    def keep(_: nn.Module, __: Any, weights: Tensor) -> None:
        chunks.append(weights.detach())

    def note(_: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> None:
        q, k, mask = _call(*inputs, **kwargs)
        weights = _joined(chunks, q, k, wanted) if chunks else attention_weights(module, q, k, mask, selection=wanted)
        before = maps.get(name)
        maps[name] = AttentionMap(
            weights if before is None else _join(name, before.weights, weights), module.queries, module.keys
        )
        chunks.clear()

    hooks = [module.register_forward_hook(note, with_kwargs=True)]
    if not isinstance(module.weigh.normalizer, Softmax):
        hooks += [module.register_forward_pre_hook(begin), module.weigh.register_forward_hook(keep)]
    return hooks


def _call(q: Tensor, k: Tensor | ProjectedKeys, v: Tensor, mask: Mask = NO_MASK) -> tuple[Tensor, Tensor, Mask]:
    """What is needed of the arguments of Attend, however they were given."""
    return q, k.tensor if isinstance(k, ProjectedKeys) else k, mask


@torch.no_grad()
def attention_weights(module: Attend, q: Tensor, k: Tensor, mask: Mask, *, selection: Selection = SELECT_ALL) -> Tensor:
    """(b h t s) weights of one call, of the heads and rows wanted, computed in chunks of rows."""
    b, s = q.shape[0], k.shape[-2]
    if b != k.shape[0]:  # hypotheses that share a source: no place matters, so rows may be taken first
        q = q if selection.rows is None else q[:, :, selection.rows]
        folded = attention_weights(
            module, fold_hypotheses(q, k, mask), k, mask, selection=selection._replace(rows=None)
        )
        return unfold_hypotheses(folded, b)
    t = q.shape[-2]
    low, high, step = slice(None).indices(t) if selection.rows is None else selection.rows.indices(t)
    size = queries_per_chunk(q, s, module.weigh.score.elements_per_pair)
    kept = [selection.take(q.new_zeros(*q.shape[:2], 0, s))]
    for start in range(low, high, size):
        stop = min(start + size, high)
        part = module.weigh(q[:, :, start:stop], k, mask.submask(start, stop, keys=s), s - t + start)
        skip = -(start - low) % step
        kept.append(selection._replace(rows=slice(skip, None, step)).take(part))
    return torch.cat(kept, dim=2)


def _joined(chunks: list[Tensor], q: Tensor, k: Tensor, wanted: Selection) -> Tensor:
    """The chunks of one call as (b h t s); a causal chunk left out the keys ahead of it."""
    weights = torch.cat([pad(part, (0, k.shape[-2] - part.shape[-1])) for part in chunks], dim=2)
    return wanted.take(weights if q.shape[0] == k.shape[0] else unfold_hypotheses(weights, q.shape[0]))


def _join(name: str, before: Tensor, after: Tensor) -> Tensor:
    """Two calls of one module, one after the other: rows are joined, keys that were not there yet get zero."""
    if before.shape[:2] != after.shape[:2]:
        raise RegardError(
            f"record: {name} was called with batches of {before.shape[0]} and {after.shape[0]}; "
            "record one batch at a time"
        )
    longest = max(before.shape[-1], after.shape[-1])
    return torch.cat([pad(x, (0, longest - x.shape[-1])) for x in (before, after)], dim=2)
