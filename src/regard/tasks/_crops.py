"""Crops of pieces for training, each an example number: piece, place, transposition, tempo and what is left unsaid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.protocols import Indices
from regard.core.seed import mix

PLACES, SHIFTS, TEMPI, DROPS = 2**20, 2**8, 2**4, 2**4  # how many of each an example number can tell apart
TEMPO_STEPS = 5  # tempi tried, from slowest to fastest; the middle one is the piece's own


class Crop(NamedTuple):
    """One training example."""

    piece: int
    place: int  # of its first input token: a whole number of bars
    shift: int = 0  # semitones
    tempo: int = TEMPO_STEPS // 2
    dropped: int = 0  # bit i: condition i is not told


def pack(crop: Crop) -> int:
    """A crop -> its example number."""
    number = crop.piece * PLACES + crop.place
    number = number * SHIFTS + crop.shift + SHIFTS // 2
    return (number * TEMPI + crop.tempo) * DROPS + crop.dropped


def unpack(number: int) -> Crop:
    """An example number -> its crop."""
    number, dropped = divmod(number, DROPS)
    number, tempo = divmod(number, TEMPI)
    number, shift = divmod(number, SHIFTS)
    piece, place = divmod(number, PLACES)
    return Crop(piece, place, shift - SHIFTS // 2, tempo, dropped)


class Shape(NamedTuple):
    """How crops are made."""

    length: int  # tokens
    bar: int  # places are multiples of it
    rows: int  # crops in a batch
    transpose: int  # semitones at most, up or down
    tempo: bool
    conditions: int
    drop: float  # how often a condition is not told


def plan(
    lengths: Sequence[int], rooms: Sequence[tuple[int, int]], *, shape: Shape, seed: int, epoch: int
) -> list[Indices]:
    """Lengths of pieces (tokens to be predicted) and their room to be transposed -> an epoch's batches of crops.

    Every token of every piece is in at least one crop; a piece shorter than a crop is one.
    """
    random = np.random.default_rng(mix(seed, epoch))
    numbers: list[int] = []
    for piece, (length, (down, up)) in enumerate(zip(lengths, rooms, strict=True)):
        for place in _places(length, shape, random):
            shift = int(random.integers(max(down, -shape.transpose), min(up, shape.transpose) + 1))
            tempo = int(random.integers(TEMPO_STEPS)) if shape.tempo else TEMPO_STEPS // 2
            hidden = random.random(shape.conditions) < shape.drop
            dropped = sum(1 << i for i, hide in enumerate(hidden) if hide)
            numbers.append(pack(Crop(piece, place, shift, tempo, dropped)))
    short = np.array([min(shape.length, lengths[unpack(number).piece]) < shape.length for number in numbers])
    order = random.permutation(len(numbers))
    order = order[np.argsort(short[order], kind="stable")]  # short pieces together, so that padding is rare
    made = np.array(numbers, dtype=np.int64)[order]
    batches = [made[i : i + shape.rows] for i in range(0, len(made), shape.rows)]
    return [batches[i] for i in random.permutation(len(batches))]


def _places(length: int, shape: Shape, random: np.random.Generator) -> list[int]:
    """Where the crops of a piece begin: side by side from a random phase, the outer ones moved to the piece's edges."""
    last = -(-max(0, length - shape.length) // shape.bar) * shape.bar  # the last crop reaches the end
    phase = int(random.integers(0, max(1, shape.length // shape.bar))) * shape.bar
    starts = range(phase - shape.length, length, max(shape.bar, shape.length // shape.bar * shape.bar))
    return sorted({min(max(0, start), last) for start in starts if start + shape.length > 0})


class Window(NamedTuple):
    """A part of a piece for evaluation: tokens begin … end are read, those from `counted` on are scored."""

    begin: int
    counted: int
    end: int


def windows(length: int, size: int, bar: int) -> list[Window]:
    """Every token of a piece scored once, in windows of `size`: beyond the first, each sees at least half a window."""
    hop = max(bar, size // 2 // bar * bar)
    found = [Window(0, 0, min(size, length))]
    while found[-1].end < length:
        begin = found[-1].begin + hop
        found.append(Window(begin, found[-1].end, min(begin + size, length)))
    return found


def tempo_factor(step: int, most: float) -> float:
    """Tempo number -> how many times slower the piece is played."""
    factors: NDArray[np.float64] = np.linspace(1 - most, 1 + most, TEMPO_STEPS)
    return float(factors[step])
