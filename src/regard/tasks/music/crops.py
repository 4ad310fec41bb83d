"""Parts of pieces: crops for training, excerpts for evaluation.

A crop is an example number: piece, place, transposition, tempo and what is left unsaid.

What is shown of a piece beforehand: in training some voices or all but a gap, so that tunes can be harmonised and
gaps filled with what comes next in view; and the loss, which counts only what is not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.inference_mode import eval_mode
from regard.core.progress import track
from regard.core.protocols import Decoder, Indices, Loss, Padded
from regard.core.protocols.music import MusicCondition
from regard.core.seed import combine_seeds
from regard.data import batching
from regard.data.music.dataset import Piece
from regard.data.music.encoding import Encoding, TokenArray
from regard.data.music.key import find_key, mode_of, shift_key
from regard.tasks._shared.teacher_forcing import gather_log_probs, log_probabilities
from regard.tasks.music.conditions import Condition, ConditionClasses

PLACES, SHIFTS, TEMPI, DROPS = 2**20, 2**8, 2**4, 2**4  # how many of each an example number can tell apart
TEMPO_STEPS = 5  # tempi tried, from slowest to fastest; the middle one is the piece's own


class Crop(NamedTuple):
    """One training example."""

    piece: int
    start: int  # of its first input token: a whole number of bars
    shift: int = 0  # semitones
    tempo: int = TEMPO_STEPS // 2
    dropped_conditions: int = 0  # bit i: condition i is not told


def pack(crop: Crop) -> int:
    """A crop -> its example number."""
    number = crop.piece * PLACES + crop.start
    number = number * SHIFTS + crop.shift + SHIFTS // 2
    return (number * TEMPI + crop.tempo) * DROPS + crop.dropped_conditions


def unpack(example_id: int) -> Crop:
    """An example number -> its crop."""
    example_id, dropped = divmod(example_id, DROPS)
    example_id, tempo = divmod(example_id, TEMPI)
    example_id, shift = divmod(example_id, SHIFTS)
    piece, place = divmod(example_id, PLACES)
    return Crop(piece, place, shift - SHIFTS // 2, tempo, dropped)


class CropSpec(NamedTuple):
    """How crops are made."""

    length: int  # tokens
    bar: int  # places are multiples of it
    batch_size: int  # crops in a batch
    transpose: int  # semitones at most, up or down
    tempo: float  # at most so much slower or faster, as a share
    conditions: tuple[Condition, ...]
    condition_dropout: float  # how often a condition is not told
    visible_prob: float = 0.0  # how often some of the crop is shown beforehand
    voices: int = 0  # tokens of a time step


def crop_batches(
    lengths: Sequence[int], ranges: Sequence[tuple[int, int]], *, spec: CropSpec, seed: int, epoch: int
) -> list[Indices]:
    """Lengths of pieces (tokens to be predicted) and their transposable ranges -> an epoch's batches of crops.

    Every token of every piece is in at least one crop; a piece shorter than a crop is one.
    """
    random = np.random.default_rng(combine_seeds(seed, epoch))
    numbers: list[int] = []
    for piece, (length, (down, up)) in enumerate(zip(lengths, ranges, strict=True)):
        for place in _places(length, spec, random):
            shift = int(random.integers(max(down, -spec.transpose), min(up, spec.transpose) + 1))
            tempo = int(random.integers(TEMPO_STEPS)) if spec.tempo > 0 else TEMPO_STEPS // 2
            hidden = random.random(len(spec.conditions)) < spec.condition_dropout
            dropped = sum(1 << i for i, hide in enumerate(hidden) if hide)
            numbers.append(pack(Crop(piece, place, shift, tempo, dropped)))
    short = np.array([min(spec.length, lengths[unpack(number).piece]) < spec.length for number in numbers])
    order = random.permutation(len(numbers))
    order = order[np.argsort(short[order], kind="stable")]  # short pieces together, so that padding is rare
    ordered = np.array(numbers, dtype=np.int64)[order]
    batches = [ordered[i : i + spec.batch_size] for i in range(0, len(ordered), spec.batch_size)]
    return [batches[i] for i in random.permutation(len(batches))]


def _places(length: int, shape: CropSpec, random: np.random.Generator) -> list[int]:
    """Where the crops of a piece begin: side by side from a random phase, the outer ones moved to the piece's edges."""
    last = -(-max(0, length - shape.length) // shape.bar) * shape.bar  # the last crop reaches the end
    phase = int(random.integers(0, max(1, shape.length // shape.bar))) * shape.bar
    starts = range(phase - shape.length, length, max(shape.bar, shape.length // shape.bar * shape.bar))
    return sorted({min(max(0, start), last) for start in starts if start + shape.length > 0})


class TrainingPieces:
    """Pieces to train on: encoded once for each tempo, cut into crops and transposed, with classes that are told."""

    def __init__(
        self, pieces: Sequence[Piece], encoding: Encoding, classes: ConditionClasses, *, spec: CropSpec
    ) -> None:
        self.pieces, self.encoding, self.classes, self.spec = pieces, encoding, classes, spec
        self._encoded: dict[tuple[int, int], TokenArray] = {}

    def tokens(self, piece: int, tempo: int = TEMPO_STEPS // 2) -> TokenArray:
        """A piece at a tempo -> start, its tokens, end."""
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
        """The key of each piece, where it is asked for."""
        if not {"key", "mode"} & set(self.spec.conditions):
            return [""] * len(self.pieces)
        return [find_key(self.encoding.notes(piece.content)) for piece in self.pieces]

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """The epoch's batches of crops, each an example number."""
        lengths = [len(self.tokens(piece)) - 1 for piece in range(len(self.pieces))]
        return crop_batches(lengths, self._ranges, spec=self.spec, seed=seed, epoch=epoch)

    def collate(self, examples: Indices) -> PieceBatch:
        """Example numbers -> conditions and what is shown, and crops with one label more than inputs."""
        crops = [unpack(int(number)) for number in examples]
        rows = []
        for crop in crops:
            row = self.tokens(crop.piece, crop.tempo)[crop.start : crop.start + self.spec.length + 1]
            rows.append(self.encoding.transpose(row, crop.shift))
        told, target = batching.pad([self._told(crop) for crop in crops]), batching.pad(rows)
        if not self.spec.visible_prob:
            return PieceBatch(told, target)
        given = [self._shown(int(number), row[1:]) for number, row in zip(examples, rows, strict=True)]
        return PieceBatch(MusicCondition(*told, batching.pad(given)), target)

    def _shown(self, number: int, labels: TokenArray) -> TokenArray:
        """What is shown of a crop; its number decides."""
        random = np.random.default_rng(number)
        if random.random() >= self.spec.visible_prob:
            return np.zeros_like(labels)
        return visible_tokens(labels, random, voices=self.spec.voices, bar=self.spec.bar)

    def _told(self, crop: Crop) -> list[int]:
        key, values = self._keys[crop.piece], {"composer": self.pieces[crop.piece].composer}
        if key:
            shifted = shift_key(key, crop.shift)
            values |= {"key": shifted, "mode": mode_of(shifted)}
        told = [name for i, name in enumerate(self.spec.conditions) if not crop.dropped_conditions >> i & 1]
        return self.classes.encode([f"{name}:{values[name]}" for name in told if values[name]])


def add_special_tokens(tokens: TokenArray) -> TokenArray:
    """Tokens between a start and an end mark."""
    return np.concatenate([[SpecialTokens.bos], tokens, [SpecialTokens.eos]])


class Excerpt(NamedTuple):
    """A part of a piece for evaluation: tokens begin … end are read, those from `counted` on are scored."""

    start: int
    score_start: int
    end: int


def excerpts(length: int, size: int, bar: int) -> list[Excerpt]:
    """Every token of a piece scored once, in excerpts of `size`: beyond the first, each sees at least half of one."""
    hop = max(bar, size // 2 // bar * bar)
    parts = [Excerpt(0, 0, min(size, length))]
    while parts[-1].end < length:
        begin = parts[-1].start + hop
        parts.append(Excerpt(begin, parts[-1].end, min(begin + size, length)))
    return parts


def tempo_factor(step: int, max_change: float) -> float:
    """Tempo number -> how many times slower the piece is played."""
    factors: NDArray[np.float64] = np.linspace(1 - max_change, 1 + max_change, TEMPO_STEPS)
    return float(factors[step])


def no_condition(tokens: Tensor) -> Padded:
    """Rows of tokens -> no class is told of any."""
    return Padded(tokens.new_full((len(tokens), 1), SpecialTokens.pad), tokens.new_ones(len(tokens)))


def note_nats(
    model: Decoder,
    rows: Sequence[TokenArray],
    *,
    window: int,
    bar: int,
    budget: int,
    condition: Callable[[Tensor], Padded | MusicCondition] = no_condition,
) -> list[NDArray[np.float64]]:
    """Rows `start n1 … nn end` -> -log p of their note tokens; `window` 0 reads pieces whole, and `told` says what is
    told beforehand of rows of tokens."""
    nats = [np.zeros(len(row) - 2) for row in rows]
    cuts = [excerpts(len(row) - 1, window or len(row), bar) for row in rows]
    parts = [(i, part) for i, cut in enumerate(cuts) for part in cut]
    lengths = np.array([part.end - part.start for _, part in parts])
    with eval_mode(model) as device:
        for batch in track(batching.batches_by_length(lengths, budget=budget), total=len(parts), size=len):
            chosen = [parts[number] for number in batch]
            tokens = batching.pad([rows[i][part.begin : part.end + 1] for i, part in chosen]).tokens.to(device)
            scores = (
                gather_log_probs(log_probabilities(model, condition(tokens), tokens), tokens).double().cpu().numpy()
            )
            for (i, part), row in zip(chosen, scores, strict=True):
                last = min(part.end, len(nats[i]))  # the end mark is no note
                nats[i][part.counted : last] = -row[part.counted - part.begin : last - part.begin]
    return nats


MELODY_PROBABILITY = (
    0.5  # how often voices are shown, and how often only the highest of them; else all but a gap is shown
)


class PieceBatch(NamedTuple):
    """What is told of pieces beforehand, and rows `start n1 … nn end` or crops of such."""

    source: Padded | MusicCondition
    target: Padded


def crop_loss(model: Decoder, batch: PieceBatch, *, pad: int) -> Loss:
    """A batch -> the cross entropy of its tokens and end marks, summed; padding and what was shown is not counted."""
    features, _ = model.features(batch.target.tokens[:, :-1], model.start(batch.source))
    labels = batch.target.tokens[:, 1:]
    wanted = labels != pad
    if isinstance(batch.source, MusicCondition):
        wanted = wanted & (batch.source.fixed_tokens.tokens == 0)
    return Loss(model.readout.loss(features[wanted], labels[wanted]), int(wanted.sum()))


def visible_tokens(labels: TokenArray, random: np.random.Generator, *, voices: int, bar: int) -> TokenArray:
    """The tokens of a crop -> those that are shown, 0 where one is not; `bar` is in tokens."""
    steps = -(-len(labels) // voices)
    shown = sample_visibility(steps, random, voices=voices, bar=bar // voices).reshape(-1)[: len(labels)]
    return np.where(shown & (labels > SpecialTokens.eos), labels, 0)


def sample_visibility(steps: int, random: np.random.Generator, *, voices: int, bar: int) -> NDArray[np.bool_]:
    """(steps voices): some whole voices, or everything but some bars of all or some of them."""
    some = random.permutation(voices)[: int(random.integers(1, voices))]
    if random.random() < MELODY_PROBABILITY:
        shown = np.zeros((steps, voices), dtype=bool)
        shown[:, [0] if random.random() < MELODY_PROBABILITY else some] = True
        return shown
    shown = np.ones((steps, voices), dtype=bool)
    bars = -(-steps // bar)
    first = int(random.integers(bars))
    last = int(random.integers(first, min(bars, first + max(1, bars // 2)))) + 1
    shown[first * bar : last * bar, some if random.random() < MELODY_PROBABILITY else slice(None)] = False
    return shown


def melody_condition(tokens: Tensor, *, voices: int) -> MusicCondition:
    """Rows (b t+1) of tokens, the first of which is given -> their highest voice shown, and no class told."""
    labels = tokens[:, 1:]
    tune = (torch.arange(labels.shape[1], device=tokens.device) % voices == 0) & (labels > SpecialTokens.eos)
    lengths = (labels != SpecialTokens.pad).sum(dim=1)
    return MusicCondition(*no_condition(tokens), Padded(labels * tune, lengths))
