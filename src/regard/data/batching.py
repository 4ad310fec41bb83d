"""From token rows to batches: padding, and the plan of an epoch under a budget of padded tokens."""

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
SHARD_PAIRS = 4_000_000  # pairs that are planned at once: of a larger corpus, an epoch is one chapter of that size


class PairBatch(NamedTuple):
    """Source rows `w1 … wn end`, target rows `start w1 … wn end`."""

    source: Padded
    target: Padded


class LengthSelection(NamedTuple):
    """The numbers of the examples that fit the limits, and of those that are too long."""

    selected: Indices
    too_long: Indices


def pad(rows: Sequence[Sequence[int] | NDArray[np.integer]], pad_id: int = SpecialTokens.pad) -> Padded:
    """Rows of any length -> one tensor (b s) filled up with `mark`, and the lengths."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    tokens = np.full((len(rows), int(lengths.max(initial=0))), pad_id, dtype=np.int64)
    for i, row in enumerate(rows):
        tokens[i, : len(row)] = row
    return Padded(torch.from_numpy(tokens), torch.from_numpy(lengths))


def select_by_length(source: Lengths, target: Lengths, *, max_length: int, budget: int) -> LengthSelection:
    """Lengths of both sides -> the examples within `longest` and `budget`, and those that are not."""
    width = np.maximum(source, target)
    if not len(width):
        raise DataError("there is no sentence pair with text on both sides")
    fits = width <= min(max_length, budget)
    if not fits.any():
        smallest = int(width.min())
        setting = f"tokens={budget}" if budget <= max_length else f"longest={max_length}"
        raise DataError(f"no sentence pair fits {setting}; the shortest of {len(width)} needs {smallest} tokens")
    return LengthSelection(np.flatnonzero(fits), np.flatnonzero(~fits))


def epoch_batches(
    source: Lengths, target: Lengths, *, candidates: Indices, budget: int, seed: int, epoch: int
) -> list[Indices]:
    """Lengths of both sides -> the epoch's batches of example numbers, the same for the same seed and epoch.

    A batch of n rows holds at most `budget` padded tokens on its larger side: n · max(longest source, longest target).
    Pairs whose larger side is equally long stand together, inside that those whose sides differ alike, and the order of
    the differences turns round from one length to the next (as a snake), so that neighbours are alike at the seams too.
    """
    random = np.random.default_rng(combine_seeds(seed, epoch))
    candidates = random.permutation(candidates)
    s, t = source[candidates], target[candidates]
    width, difference = np.maximum(s, t), s - t
    if len(width) and width.max() > budget:
        raise DataError(f"a sentence pair of {width.max()} tokens is over the budget tokens={budget}; leave it out")
    order = np.lexsort((np.where(width % 2 == 0, difference, -difference), width))
    batches = _cut(candidates[order], width[order], budget=budget)
    return [batches[i] for i in random.permutation(len(batches))]


def epoch_shard(pairs: int, *, epoch: int, seed: int) -> tuple[int, int]:
    """First pair and end of what an epoch goes through: all, or one chapter of a large corpus. Every chapter comes once
    before any comes again."""
    chapters = -(-pairs // SHARD_PAIRS)
    if chapters <= 1:
        return 0, pairs
    turn, place = divmod(epoch, chapters)
    number = int(np.random.default_rng([seed, turn]).permutation(chapters)[place])
    return pairs * number // chapters, pairs * (number + 1) // chapters


def batches_by_length(lengths: Lengths, *, budget: int, max_rows: int | None = None) -> list[Indices]:
    """Lengths -> row numbers in batches of like length, longest first: at most `budget` padded tokens and `most` rows
    in a batch, but at least one row."""
    order = np.argsort(-lengths, kind="stable")
    return _cut(order, lengths[order], budget=budget, most=max_rows)


def _cut(examples: Indices, width: Lengths, *, budget: int, most: int | None = None) -> list[Indices]:
    """Examples in order and their widths -> consecutive batches, each as large as the budget allows."""
    edges = [0]
    while edges[-1] < len(width):
        start = edges[-1]
        rows = min(max(1, budget // max(1, int(width[start]))), most or len(width), len(width) - start)
        padded = np.maximum.accumulate(width[start : start + rows]) * np.arange(1, rows + 1)
        edges.append(start + max(1, int(np.searchsorted(padded, budget, side="right"))))
    return [examples[a:b] for a, b in pairwise(edges)]


def padding_fraction(source: Lengths, target: Lengths, batches: list[Indices]) -> float:
    """Batches -> the share of their positions, on both sides together, that is padding."""
    total = sum(len(b) * (int(source[b].max()) + int(target[b].max())) for b in batches)
    real = sum(int(source[b].sum() + target[b].sum()) for b in batches)
    return 1 - real / total
