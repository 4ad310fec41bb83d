"""Decoder states are values: nested tuples of tensors with the batch in dimension 0.

What belongs to a hypothesis (a key-value cache, an RNN state) stands bare and is reordered by `select`.
What belongs to a source sentence (encoder memory, cross-attention keys) is wrapped in `Shared`: it is kept once per
source, however many hypotheses look at it, and attention folds the hypotheses of a source into its queries.
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
    """The same tree with every tensor changed, those inside `Shared` too."""
    changed: T = _walk(tree, fn, fn)
    return changed


def select(state: T, rows: Tensor) -> T:
    """The state of the hypotheses in `rows` (indices or a bool mask): beam reordering, for any model."""
    if rows.dtype == torch.bool:
        rows = rows.nonzero().flatten()
    selected: T = _walk(state, lambda x: x.index_select(0, rows), lambda x: x)  # on a CPU 4 times as fast as x[rows]
    return selected


def select_sources(state: T, sources: Tensor, *, width: int = 1) -> T:
    """The state of some sources (indices), with all `width` hypotheses of each."""
    rows = (sources[:, None] * width + torch.arange(width, device=sources.device)).flatten()
    selected: T = _walk(state, lambda x: x.index_select(0, rows), lambda x: x.index_select(0, sources))
    return selected


def repeat_rows(state: T, repeats: int) -> T:
    """Each hypothesis `width` times, its copies side by side; what is shared stays as it is."""
    copied: T = _walk(state, lambda x: x.repeat_interleave(repeats, dim=0), lambda x: x)
    return copied


def concat_states(first: T, second: T) -> T:
    """The rows of two states one below the other. Caches and masks of unequal length know themselves how to be joined
    (`_join`); any other tensors must agree in all but the batch."""
    joined: T = _join(first, second, shared=False)
    return joined


def _join(first: Any, second: Any, *, shared: bool) -> Any:
    if isinstance(first, Tensor):
        return torch.cat([first, second])
    if isinstance(first, Shared):
        return Shared(_join(first.value, second.value, shared=True))
    if hasattr(first, "_join"):  # a value that has a length of its own: a cache, a mask
        return first._join(second, shared=shared)
    if isinstance(first, tuple):
        parts = [_join(a, b, shared=shared) for a, b in zip(first, second, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    if first == second:
        return first
    raise ValueError(f"two states cannot be joined: one holds {first!r}, the other {second!r}")


def batch_size(state: Any) -> int:
    """How many hypotheses a state holds."""
    sizes: list[int] = []

    def note(x: Tensor) -> Tensor:
        sizes.append(x.shape[0])
        return x

    _walk(state, note, lambda x: x)
    return sizes[0]


def _walk(tree: Any, own: Callable[[Tensor], Tensor], shared: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(tree, Tensor):
        return own(tree)
    if isinstance(tree, Shared):
        return Shared(_walk(tree.value, shared, shared))
    if hasattr(tree, "_walk_tensors"):  # a value with its own storage, such as a growing cache
        return tree._walk_tensors(own)
    if isinstance(tree, tuple):
        parts = [_walk(part, own, shared) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree
    raise TypeError(f"a state holds {type(tree).__name__}; states are tuples of tensors and plain values")
