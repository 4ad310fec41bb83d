"""Reorder, repeat and concatenate the tensors of a decoder state (KV caches, RNN states) along the batch.

A state is a nested tuple of tensors with the batch in dimension 0.

Tensors that belong to a hypothesis (a KV cache, an RNN state) are plain leaves and are reordered by `select`.
Tensors that belong to a source (encoder output, cross-attention keys) are wrapped in `Shared`. They are stored once per
source for all its hypotheses, and attention folds the hypotheses of a source into its queries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


class Shared(NamedTuple, Generic[T]):
    """A part of a state with one row per source, not per hypothesis."""

    value: T


def map_tensors(tree: T, fn: Callable[[Tensor], Tensor]) -> T:
    """Apply `fn` to every tensor of the tree, also inside `Shared`."""
    mapped: T = _map(tree, fn, fn)
    return mapped


def map_rows(state: T, fn: Callable[[Tensor], Tensor]) -> T:
    """Apply `fn` to every tensor with one row per hypothesis; shared parts are unchanged."""
    mapped: T = _map(state, fn, lambda x: x)
    return mapped


def select(state: T, rows: Tensor) -> T:
    """Return the state of the hypotheses in `rows` (indices or a bool mask): beam reordering for any model."""
    if rows.dtype == torch.bool:
        rows = rows.nonzero().flatten()
    selected: T = _map(state, lambda x: x.index_select(0, rows), lambda x: x)  # on a CPU 4 times as fast as x[rows]
    return selected


def select_sources(state: T, sources: Tensor, *, width: int = 1) -> T:
    """Return the state of these sources (indices), with all `width` hypotheses of each."""
    rows = (sources[:, None] * width + torch.arange(width, device=sources.device)).flatten()
    selected: T = _map(state, lambda x: x.index_select(0, rows), lambda x: x.index_select(0, sources))
    return selected


def repeat_rows(state: T, repeats: int) -> T:
    """Repeat each hypothesis `repeats` times, copies adjacent; shared parts are unchanged."""
    repeated: T = _map(state, lambda x: x.repeat_interleave(repeats, dim=0), lambda x: x)
    return repeated


def concat_states(first: T, second: T) -> T:
    """Concatenate two states along the batch.

    Caches and masks of unequal length implement `_join`, which pads them. All other tensors must have equal shapes
    apart from the batch.
    """
    joined: T = _join(first, second, shared=False)
    return joined


def batch_size(state: Any) -> int:
    """Return the number of hypotheses in a state."""
    sizes: list[int] = []

    def append_size(x: Tensor) -> Tensor:
        sizes.append(x.shape[0])
        return x

    _map(state, append_size, lambda x: x)
    return sizes[0]


def _join(first: Any, second: Any, *, shared: bool) -> Any:
    if isinstance(first, Tensor):
        return torch.cat([first, second])
    if isinstance(first, Shared):
        return Shared(_join(first.value, second.value, shared=True))
    if hasattr(first, "_join"):  # a value of variable length: a cache, a mask
        return first._join(second, shared=shared)
    if isinstance(first, tuple):
        parts = [_join(a, b, shared=shared) for a, b in zip(first, second, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    if first == second:
        return first
    raise ValueError(f"two states cannot be joined: one holds {first!r}, the other {second!r}")


def _map(tree: Any, fn: Callable[[Tensor], Tensor], shared_fn: Callable[[Tensor], Tensor]) -> Any:
    """Apply `fn` to the tensors of hypotheses and `shared_fn` to those inside `Shared`."""
    if isinstance(tree, Tensor):
        return fn(tree)
    if isinstance(tree, Shared):
        return Shared(_map(tree.value, shared_fn, shared_fn))
    if hasattr(tree, "_walk_tensors"):  # a value that manages its storage, such as a growing cache
        return tree._walk_tensors(fn)
    if isinstance(tree, tuple):
        parts = [_map(part, fn, shared_fn) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree
    raise TypeError(f"a state holds {type(tree).__name__}; states are tuples of tensors and plain values")
