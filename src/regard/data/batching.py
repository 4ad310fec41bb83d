"""Padding of token rows, and batches of an epoch under a budget of padded tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.core.data_specs import SpecialTokens
from regard.core.errors import DataError
from regard.core.protocols import Indices, Padded
from regard.core.seed import combine_seeds

Lengths = NDArray[np.int64]
SHARD_PAIRS = 4_000_000  # pairs that are batched together: an epoch of a larger corpus is one shard of this size


class PairBatch(NamedTuple):
    """Source rows `w1 … wn EOS` and target rows `BOS w1 … wn EOS`."""

    source: Padded
    target: Padded


class LengthSelection(NamedTuple):
    """Indices of the examples within the limits, and of those that are too long."""

    selected: Indices
    too_long: Indices


def pad(rows: Sequence[Sequence[int] | NDArray[np.integer]], pad_id: int = SpecialTokens.pad) -> Padded:
    """Rows of any length -> one tensor (b s) padded with `pad_id`, and the lengths."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    tokens = np.full((len(rows), int(lengths.max(initial=0))), pad_id, dtype=np.int64)
    for i, row in enumerate(rows):
        tokens[i, : len(row)] = row
    return Padded(torch.from_numpy(tokens), torch.from_numpy(lengths))


def select_by_length(source: Lengths, target: Lengths, *, max_length: int, budget: int) -> LengthSelection:
    """Lengths of both sides -> the examples within `max_length` and `budget`, and the others."""
    width = np.maximum(source, target)
    if not len(width):
        raise DataError("there is no sentence pair with text on both sides")
    fits = width <= min(max_length, budget)
    if not fits.any():
        smallest = int(width.min())
        setting = f"max_batch_tokens={budget}" if budget <= max_length else f"max_length={max_length}"
        raise DataError(f"no sentence pair fits {setting}; the shortest of {len(width)} needs {smallest} tokens")
    return LengthSelection(np.flatnonzero(fits), np.flatnonzero(~fits))


def epoch_batches(
    source: Lengths, target: Lengths, *, candidates: Indices, budget: int, seed: int, epoch: int
) -> list[Indices]:
    """Lengths of both sides -> the epoch's batches of example indices, determined by seed and epoch.

    A batch of n rows has at most `budget` padded tokens on its larger side: n · max(longest source, longest target).
    Pairs are sorted by the length of their larger side, then by the difference of both sides. The order of the
    differences alternates from one length to the next (like a snake), so that pairs at the seams are similar too.
    """
    random = np.random.default_rng(combine_seeds(seed, epoch))
    candidates = random.permutation(candidates)
    s, t = source[candidates], target[candidates]
    width, difference = np.maximum(s, t), s - t
    if len(width) and width.max() > budget:
        raise DataError(
            f"a sentence pair of {width.max()} tokens is over the budget max_batch_tokens={budget}; remove it"
        )
    order = np.lexsort((np.where(width % 2 == 0, difference, -difference), width))
    batches = _cut(candidates[order], width[order], budget=budget)
    return [batches[i] for i in random.permutation(len(batches))]


def epoch_shard(pairs: int, *, epoch: int, seed: int) -> tuple[int, int]:
    """Return start and stop of the pairs of an epoch: all pairs, or one shard of a large corpus.

    Every shard is used once before any shard is used again.
    """
    num_shards = -(-pairs // SHARD_PAIRS)
    if num_shards <= 1:
        return 0, pairs
    cycle, position = divmod(epoch, num_shards)
    shard = int(np.random.default_rng([seed, cycle]).permutation(num_shards)[position])
    return pairs * shard // num_shards, pairs * (shard + 1) // num_shards


def batches_by_length(lengths: Lengths, *, budget: int, max_rows: int | None = None) -> list[Indices]:
    """Lengths -> batches of row indices of similar length, longest first.

    A batch has at most `budget` padded tokens and `max_rows` rows, but at least one row.
    """
    order = np.argsort(-lengths, kind="stable")
    return _cut(order, lengths[order], budget=budget, max_rows=max_rows)


def padding_fraction(source: Lengths, target: Lengths, batches: list[Indices]) -> float:
    """Batches -> the fraction of their positions, both sides together, that is padding."""
    total = sum(len(b) * (int(source[b].max()) + int(target[b].max())) for b in batches)
    real = sum(int(source[b].sum() + target[b].sum()) for b in batches)
    return 1 - real / total


def _cut(examples: Indices, width: Lengths, *, budget: int, max_rows: int | None = None) -> list[Indices]:
    """Ordered examples and their widths -> consecutive batches, each as large as the budget allows."""
    edges = [0]
    while edges[-1] < len(width):
        start = edges[-1]
        num_rows = min(max(1, budget // max(1, int(width[start]))), max_rows or len(width), len(width) - start)
        padded = np.maximum.accumulate(width[start : start + num_rows]) * np.arange(1, num_rows + 1)
        edges.append(start + max(1, int(np.searchsorted(padded, budget, side="right"))))
    return [examples[a:b] for a, b in pairwise(edges)]
