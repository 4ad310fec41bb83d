"""Training crops of pieces, with transposition, tempo changes, dropped conditions and fixed tokens.

An example id encodes a crop: piece, start, transposition, tempo and dropped conditions.

With `visible_prob`, some voices or all but a gap of a crop are fixed tokens. The model attends to them in advance, and
they do not count in the loss. So it learns to harmonize melodies and to fill gaps with lookahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.data_specs import SpecialTokens
from regard.core.protocols import Decoder, Indices, Loss, Padded
from regard.core.protocols.music import MusicCondition
from regard.core.seed import combine_seeds
from regard.data import batching
from regard.data.music.dataset import Piece
from regard.data.music.encoding import Encoding, TokenArray
from regard.data.music.key import find_key, shift_key
from regard.tasks.music.conditions import Condition, ConditionClasses, piece_classes

MAX_STARTS, MAX_SHIFTS, MAX_TEMPI, MAX_DROPS = 2**20, 2**8, 2**4, 2**4  # ranges of the fields of an example id
TEMPO_STEPS = 5  # tempi from slowest to fastest; the middle one is the original tempo
# Probability that entire voices are visible, and then that only the highest is; otherwise all but a gap is visible.
MELODY_PROBABILITY = 0.5


class Crop(NamedTuple):
    """One training example."""

    piece: int
    start: int  # index of its first input token: the start of a bar
    shift: int = 0  # semitones
    tempo: int = TEMPO_STEPS // 2
    dropped_conditions: int = 0  # bit i: condition i is dropped


def pack(crop: Crop) -> int:
    """A crop -> its example id."""
    example_id = crop.piece * MAX_STARTS + crop.start
    example_id = example_id * MAX_SHIFTS + crop.shift + MAX_SHIFTS // 2
    return (example_id * MAX_TEMPI + crop.tempo) * MAX_DROPS + crop.dropped_conditions


def unpack(example_id: int) -> Crop:
    """An example id -> its crop."""
    example_id, dropped = divmod(example_id, MAX_DROPS)
    example_id, tempo = divmod(example_id, MAX_TEMPI)
    example_id, shift = divmod(example_id, MAX_SHIFTS)
    piece, start = divmod(example_id, MAX_STARTS)
    return Crop(piece, start, shift - MAX_SHIFTS // 2, tempo, dropped)


class CropSpec(NamedTuple):
    """Settings of crops."""

    length: int  # tokens
    bar: int  # tokens of a bar; crops start at multiples of it
    batch_size: int  # crops in a batch
    transpose: int  # maximum transposition in semitones, up or down
    tempo: float  # maximum relative change of tempo
    conditions: tuple[Condition, ...]
    condition_dropout: float  # probability that a condition is dropped
    visible_prob: float = 0.0  # probability that a crop has fixed tokens
    voices: int = 0  # tokens of a time step


class PieceBatch(NamedTuple):
    """Conditions of pieces, and rows `BOS n1 … nn EOS` or crops of them."""

    source: Padded | MusicCondition
    target: Padded


def crop_batches(
    lengths: Sequence[int], ranges: Sequence[tuple[int, int]], *, spec: CropSpec, seed: int, epoch: int
) -> list[Indices]:
    """Lengths of pieces (tokens to predict) and their transposable ranges -> an epoch's batches of crops.

    Every token of every piece is in at least one crop; a piece shorter than a crop is one.
    """
    random = np.random.default_rng(combine_seeds(seed, epoch))
    example_ids: list[int] = []
    for piece, (length, (down, up)) in enumerate(zip(lengths, ranges, strict=True)):
        for start in _crop_starts(length, spec, random):
            shift = int(random.integers(max(down, -spec.transpose), min(up, spec.transpose) + 1))
            tempo = int(random.integers(TEMPO_STEPS)) if spec.tempo > 0 else TEMPO_STEPS // 2
            is_dropped = random.random(len(spec.conditions)) < spec.condition_dropout
            dropped = sum(1 << i for i, drop in enumerate(is_dropped) if drop)
            example_ids.append(pack(Crop(piece, start, shift, tempo, dropped)))
    is_short = np.array([lengths[unpack(example_id).piece] < spec.length for example_id in example_ids])
    order = random.permutation(len(example_ids))
    order = order[np.argsort(is_short[order], kind="stable")]  # short pieces together, so that padding is rare
    ordered = np.array(example_ids, dtype=np.int64)[order]
    batches = [ordered[i : i + spec.batch_size] for i in range(0, len(ordered), spec.batch_size)]
    return [batches[i] for i in random.permutation(len(batches))]


def _crop_starts(length: int, spec: CropSpec, random: np.random.Generator) -> list[int]:
    """Return the starts of adjacent crops from a random phase; the outer ones are moved to the edges of the piece."""
    last = -(-max(0, length - spec.length) // spec.bar) * spec.bar  # the last crop reaches the end
    phase = int(random.integers(0, max(1, spec.length // spec.bar))) * spec.bar
    starts = range(phase - spec.length, length, max(spec.bar, spec.length // spec.bar * spec.bar))
    return sorted({min(max(0, start), last) for start in starts if start + spec.length > 0})


class TrainingPieces:
    """Training pieces: encoded once per tempo, cut into crops and transposed, with the classes of their conditions."""

    def __init__(
        self, pieces: Sequence[Piece], encoding: Encoding, classes: ConditionClasses, *, spec: CropSpec
    ) -> None:
        self.pieces, self.encoding, self.classes, self.spec = pieces, encoding, classes, spec
        self._encoded: dict[tuple[int, int], TokenArray] = {}

    def tokens(self, piece: int, tempo: int = TEMPO_STEPS // 2) -> TokenArray:
        """A piece at a tempo -> BOS, its tokens, EOS."""
        if (piece, tempo) not in self._encoded:
            content = self.pieces[piece].content
            factor = tempo_factor(tempo, self.spec.tempo)
            if factor != 1:
                content = [note._replace(start=note.start * factor, end=note.end * factor) for note in content]
            self._encoded[piece, tempo] = add_special_tokens(self.encoding.encode(content))
        return self._encoded[piece, tempo]

    @cached_property
    def _ranges(self) -> list[tuple[int, int]]:
        return [self.encoding.transpose_range(self.tokens(piece)) for piece in range(len(self.pieces))]

    @cached_property
    def _keys(self) -> list[str]:
        return find_keys(self.pieces, self.encoding, self.spec.conditions)

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """Return the epoch's batches of crops, as example ids."""
        lengths = [len(self.tokens(piece)) - 1 for piece in range(len(self.pieces))]
        return crop_batches(lengths, self._ranges, spec=self.spec, seed=seed, epoch=epoch)

    def collate(self, examples: Indices) -> PieceBatch:
        """Example ids -> conditions with fixed tokens, and crops of one token more than the inputs."""
        crops = [unpack(int(example_id)) for example_id in examples]
        rows = []
        for crop in crops:
            row = self.tokens(crop.piece, crop.tempo)[crop.start : crop.start + self.spec.length + 1]
            rows.append(self.encoding.transpose(row, crop.shift))
        classes, target = batching.pad([self._class_tokens(crop) for crop in crops]), batching.pad(rows)
        if not self.spec.visible_prob:
            return PieceBatch(classes, target)
        fixed = [self._fixed_tokens(int(example_id), row[1:]) for example_id, row in zip(examples, rows, strict=True)]
        return PieceBatch(MusicCondition(*classes, batching.pad(fixed)), target)

    def _fixed_tokens(self, example_id: int, labels: TokenArray) -> TokenArray:
        """Return the fixed tokens of a crop, seeded by its example id; 0: not fixed."""
        random = np.random.default_rng(example_id)
        if random.random() >= self.spec.visible_prob:
            return np.zeros_like(labels)
        return visible_tokens(labels, random, voices=self.spec.voices, bar=self.spec.bar)

    def _class_tokens(self, crop: Crop) -> list[int]:
        key = self._keys[crop.piece]
        conditions = [name for i, name in enumerate(self.spec.conditions) if not crop.dropped_conditions >> i & 1]
        shifted = shift_key(key, crop.shift) if key else ""
        return self.classes.encode(piece_classes(conditions, composer=self.pieces[crop.piece].composer, key=shifted))


def find_keys(pieces: Sequence[Piece], encoding: Encoding, conditions: Sequence[Condition]) -> list[str]:
    """Return the key of each piece; "" if no condition needs it."""
    if not {"key", "mode"} & set(conditions):
        return [""] * len(pieces)
    return [find_key(encoding.notes(piece.content)) for piece in pieces]


def add_special_tokens(tokens: TokenArray) -> TokenArray:
    """Return the tokens between BOS and EOS."""
    return np.concatenate([[SpecialTokens.bos], tokens, [SpecialTokens.eos]])


def tempo_factor(step: int, max_change: float) -> float:
    """Tempo step -> the factor by which durations are multiplied."""
    factors: NDArray[np.float64] = np.linspace(1 - max_change, 1 + max_change, TEMPO_STEPS)
    return float(factors[step])


def crop_loss(model: Decoder, batch: PieceBatch, *, pad: int) -> Loss:
    """Return the cross entropy, summed over tokens and EOS; padding and fixed tokens are not counted."""
    features, _ = model.features(batch.target.tokens[:, :-1], model.start(batch.source))
    labels = batch.target.tokens[:, 1:]
    is_counted = labels != pad
    if isinstance(batch.source, MusicCondition):
        is_counted = is_counted & (batch.source.fixed_tokens.tokens == 0)
    return Loss(model.readout.loss(features[is_counted], labels[is_counted]), int(is_counted.sum()))


def visible_tokens(labels: TokenArray, random: np.random.Generator, *, voices: int, bar: int) -> TokenArray:
    """The tokens of a crop -> its visible tokens, 0 elsewhere; `bar` is in tokens."""
    steps = -(-len(labels) // voices)
    is_visible = sample_visibility(steps, random, voices=voices, bar=bar // voices).reshape(-1)[: len(labels)]
    return np.where(is_visible & (labels > SpecialTokens.eos), labels, 0)


def sample_visibility(steps: int, random: np.random.Generator, *, voices: int, bar: int) -> NDArray[np.bool_]:
    """Return a mask (steps voices): some entire voices, or everything but a few bars of all or some voices."""
    voice_subset = random.permutation(voices)[: int(random.integers(1, voices))]
    if random.random() < MELODY_PROBABILITY:
        is_visible = np.zeros((steps, voices), dtype=bool)
        is_visible[:, [0] if random.random() < MELODY_PROBABILITY else voice_subset] = True
        return is_visible
    is_visible = np.ones((steps, voices), dtype=bool)
    bars = -(-steps // bar)
    first = int(random.integers(bars))
    last = int(random.integers(first, min(bars, first + max(1, bars // 2)))) + 1
    is_visible[first * bar : last * bar, voice_subset if random.random() < MELODY_PROBABILITY else slice(None)] = False
    return is_visible
