"""Record attention maps from outside the model: `with record(model) as maps:`. Models and decoders need no changes.

The fast kernels run as usual and their output is unchanged. For each call of attention the weights are computed again
by `Weigh`, the definition, only for the selected modules, heads and queries, in chunks of bounded memory. The weights
of a random normalizer cannot be computed again; they are captured while it runs.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
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


class AttentionMap:
    """The weights of one attention module, before dropout.

    `queries` and `keys` are the names of its axes: "target", "source", "image" … `calls` has the weights (b h t s) of
    each call of the module, in order: one per decoding step. Under beam search the rows of a step are the hypotheses
    of that step; the first step has one row per source.
    """

    def __init__(self, weights: Tensor | Sequence[Tensor], queries: str, keys: str) -> None:
        self.calls = (weights,) if isinstance(weights, Tensor) else tuple(weights)
        self.queries, self.keys = queries, keys

    def __repr__(self) -> str:
        shapes = ", ".join(str(tuple(call.shape)) for call in self.calls[:3])
        more = f" … {len(self.calls)} calls" if len(self.calls) > 3 else ""
        return f"AttentionMap({self.queries} -> {self.keys}: {shapes}{more})"

    @cached_property
    def weights(self) -> Tensor:
        """The weights (b h t s) of all calls, joined along the queries; keys that were not yet present get zero.

        Calls with different batch sizes, as in beam search, have no common rows and cannot be joined.
        """
        rows = sorted({call.shape[0] for call in self.calls})
        if len(rows) > 1:
            raise RegardError(
                f"record: the calls of this attention have {', '.join(map(str, rows))} rows and cannot be joined; beam "
                "search reorders its hypotheses: use map.calls, the weights of each step, or decode with "
                'decoding="greedy"'
            )
        num_keys = max(call.shape[-1] for call in self.calls)
        return torch.cat([pad(call, (0, num_keys - call.shape[-1])) for call in self.calls], dim=2)


class Selection(NamedTuple):
    """The heads and queries that are recorded; None = all."""

    heads: Sequence[int] | None
    rows: slice | None

    def take(self, weights: Tensor) -> Tensor:
        """(b h t s) -> the weights of the selected heads and queries."""
        if self.heads is not None and not set(self.heads) <= set(range(weights.shape[1])):
            raise RegardError(f"record: heads={list(self.heads)} but there are {weights.shape[1]}; count from 0")
        weights = weights if self.heads is None else weights[:, list(self.heads)]
        return weights if self.rows is None else weights[:, :, self.rows]


SELECT_ALL = Selection(None, None)


def attention_modules(model: nn.Module) -> dict[str, Attend]:
    """Return all attention modules of a model by the path of their layer: decoder.layers.0.cross_attn."""
    named = model.named_modules()
    return {name.removesuffix(".attend"): module for name, module in named if isinstance(module, Attend)}


@contextmanager
def record(
    model: nn.Module, *, only: str = "*", heads: Sequence[int] | None = None, rows: slice | None = None
) -> Iterator[dict[str, AttentionMap]]:
    """Yield a dict, module path -> attention map, that is filled while the block runs.

    `only` is a pattern of module paths. `heads` and `rows`, a slice of the queries of each call, select a part of the
    maps. It is an error if nothing is recorded. `maps[name].weights` are the weights of all calls, `maps[name].calls`
    those of each call, which beam search needs.
    """
    if rows is not None and (rows.step or 1) < 1:
        raise RegardError(f"record: rows={rows} runs backwards; give a step of at least 1")
    maps: dict[str, AttentionMap] = {}
    modules = attention_modules(model)
    selected = {name: module for name, module in modules.items() if _matches(name, only)}
    if not selected:
        names = ", ".join(modules) or "none; only attention built with regard's Attend can be recorded"
        raise RegardError(f"record: no attention matches only={only!r}; the model's attention modules are: {names}")
    selection = Selection(heads, rows)
    hooks = [hook for name, module in selected.items() for hook in _add_hooks(name, module, maps, selection)]
    try:
        yield maps
    finally:
        for hook in hooks:
            hook.remove()
    if not maps:
        raise RegardError(
            "record: nothing was recorded; call the model itself inside the block (a compiled copy runs no hooks)"
        )


@torch.no_grad()
def attention_weights(module: Attend, q: Tensor, k: Tensor, mask: Mask, *, selection: Selection = SELECT_ALL) -> Tensor:
    """Return the weights (b h t s) of one call for the selected heads and queries, computed in chunks of queries."""
    b, s = q.shape[0], k.shape[-2]
    if b != k.shape[0]:  # hypotheses of a shared source: positions do not matter, so queries can be selected first
        q = q if selection.rows is None else q[:, :, selection.rows]
        folded = attention_weights(
            module, fold_hypotheses(q, k, mask), k, mask, selection=selection._replace(rows=None)
        )
        return unfold_hypotheses(folded, b)
    t = q.shape[-2]
    low, high, step = slice(None).indices(t) if selection.rows is None else selection.rows.indices(t)
    chunk_size = queries_per_chunk(q, s, module.weigh.score.elements_per_pair)
    parts = [selection.take(q.new_zeros(*q.shape[:2], 0, s))]
    for start in range(low, high, chunk_size):
        stop = min(start + chunk_size, high)
        weights = module.weigh(q[:, :, start:stop], k, mask.submask(start, stop, keys=s), s - t + start)
        skip = -(start - low) % step
        parts.append(selection._replace(rows=slice(skip, None, step)).take(weights))
    return torch.cat(parts, dim=2)


def _matches(name: str, only: str) -> bool:
    return fnmatch.fnmatchcase(name, only) or fnmatch.fnmatchcase(f".{name}", only)


def _add_hooks(name: str, module: Attend, maps: dict[str, AttentionMap], selection: Selection) -> list[RemovableHandle]:
    chunks: list[Tensor] = []  # weights of the current call by chunk, if they cannot be computed again

    def clear_chunks(*_: Any) -> None:
        chunks.clear()

    def capture_chunk(_: nn.Module, __: Any, weights: Tensor) -> None:
        chunks.append(weights.detach())

    def add_map(_: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> None:
        q, k, mask = _arguments(*inputs, **kwargs)
        if chunks:
            weights = _join_chunks(chunks, q, k, selection)
        else:
            weights = attention_weights(module, q, k, mask, selection=selection)
        previous = maps[name].calls if name in maps else ()
        maps[name] = AttentionMap((*previous, weights), module.queries, module.keys)
        chunks.clear()

    hooks = [module.register_forward_hook(add_map, with_kwargs=True)]
    if not isinstance(module.weigh.normalizer, Softmax):
        hooks += [module.register_forward_pre_hook(clear_chunks), module.weigh.register_forward_hook(capture_chunk)]
    return hooks


def _arguments(q: Tensor, k: Tensor | ProjectedKeys, v: Tensor, mask: Mask = NO_MASK) -> tuple[Tensor, Tensor, Mask]:
    """Return queries, keys and mask of a call of `Attend`, whether passed by position or by keyword."""
    return q, k.tensor if isinstance(k, ProjectedKeys) else k, mask


def _join_chunks(chunks: list[Tensor], q: Tensor, k: Tensor, selection: Selection) -> Tensor:
    """Join the chunks of one call to (b h t s); a causal chunk lacks the keys after its last query."""
    weights = torch.cat([pad(chunk, (0, k.shape[-2] - chunk.shape[-1])) for chunk in chunks], dim=2)
    return selection.take(weights if q.shape[0] == k.shape[0] else unfold_hypotheses(weights, q.shape[0]))
