"""Music: pieces as tokens and nats per note token. The same for the chorales' grid and for performances."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from torch import Tensor

from regard.core import files
from regard.core.errors import CheckpointError, ConfigError, DataError, nearest
from regard.core.protocols import Indices, Loss, Padded
from regard.core.sizes import Marks, Text
from regard.data import batching
from regard.data.music import pieces
from regard.data.music.encoding import Encoding, Tokens
from regard.data.music.events import Events
from regard.data.music.grid import Grid
from regard.data.music.key import find_key, mode_of, shift_key
from regard.data.music.pieces import Collection, Piece
from regard.layers.loss import linear_cross_entropy
from regard.tasks import _crops
from regard.tasks._classes import Classes, Condition, classes_of
from regard.tasks._crops import Crop, Shape
from regard.tasks._evaluating import evaluating

FILE = "music.json"
DEFAULTS: dict[str, Any] = {
    "model": {"name": "music_transformer", "dropout": 0.2},
    "training": {"minutes": 15.0, "optimizer": {"lr": 1e-3}, "schedule": {"warmup": 200}},
    "decoding": {"name": "sample"},
}


@dataclass(frozen=True)
class Config:
    """Which pieces, which tokens, which crops. Without a path, the Bach chorales inside music21."""

    path: Path | None = None
    encoding: Literal["grid", "events"] = "grid"
    limit: int | None = None  # pieces read, of each split that is given
    crop: int = 512  # tokens of a training example
    window: int = 512  # tokens that evaluation sees at once; 0: whole pieces
    rows: int = 8  # crops in a batch
    transpose: int = 6  # semitones at most, up or down, inside the range
    tempo: float = 0.0  # events only: at most so much slower or faster, as a share
    longest: int = 4096  # tokens the model remembers, primer and continuation together
    conditions: tuple[Condition, ...] = ()
    drop: float = 0.2  # how often a condition is not told in training, so that it need not be given later
    seed: int = 1  # of splits that are not given

    def __post_init__(self) -> None:
        if min(self.crop, self.rows) < 1 or min(self.window, self.transpose) < 0:
            raise ConfigError("crop and rows must be at least 1, window and transpose at least 0")
        if not 0 <= self.tempo < 1 or not 0 <= self.drop <= 1:
            raise ConfigError(f"tempo={self.tempo}, drop={self.drop}: shares lie in 0 … 1")
        if self.tempo and self.encoding == "grid":
            raise ConfigError(f"tempo={self.tempo}: the grid has no tempo; use encoding='events', or tempo=0")
        if self.longest < max(self.crop, self.window):
            raise ConfigError(f"longest={self.longest} is less than crop={self.crop} or window={self.window}; raise it")
        if self.encoding == "grid" and (self.crop % Grid().bar or self.window % Grid().bar):
            raise ConfigError(
                f"crop={self.crop}, window={self.window}: the grid needs multiples of {Grid().bar}, a bar"
            )


class MusicBatch(NamedTuple):
    """Conditions (class tokens) and token rows, each a piece's `start n1 … nn end` or a part of it."""

    source: Padded
    target: Padded


class Music:
    """Pieces as a task: crops, loss, nats per note token."""

    better = "nats"

    def __init__(self, config: Config, encoding: Encoding, classes: Classes, *, read: Callable[[], Collection]) -> None:
        self.config, self.encoding, self.classes = config, encoding, classes
        self.marks = Marks()
        self._read = read
        self.sizes = Text(source=classes.size, target=encoding.size, longest=config.longest, marks=self.marks)

    @cached_property
    def collection(self) -> Collection:
        """The pieces of each split; read when first asked for."""
        return self._read()

    def notes(self) -> list[str]:
        """What a user should know of the data: files that were mended or left out, and why."""
        return list(self.collection.remarks)

    def split(self, name: str) -> list[Piece]:
        """The pieces of a split."""
        found = self.collection.splits
        if name not in found:
            raise DataError(f"the data has no split {name!r}; {nearest(name, found)}")
        if not found[name]:
            raise DataError(f"the split {name!r} has no pieces; give more data")
        return found[name]

    @cached_property
    def _encoded(self) -> dict[tuple[int, int], Tokens]:
        return {}

    def _tokens(self, piece: int, tempo: int = _crops.TEMPO_STEPS // 2) -> Tokens:
        """A training piece at a tempo -> start, its tokens, end."""
        if (piece, tempo) not in self._encoded:
            content = self.split("train")[piece].content
            factor = _crops.tempo_factor(tempo, self.config.tempo)
            if factor != 1:
                content = [note._replace(start=note.start * factor, end=note.end * factor) for note in content]
            self._encoded[piece, tempo] = self.marked(self.encoding.encode(content))
        return self._encoded[piece, tempo]

    def marked(self, tokens: Tokens) -> Tokens:
        """Tokens between a start and an end mark."""
        return np.concatenate([[self.marks.start], tokens, [self.marks.end]])

    @cached_property
    def _labels(self) -> list[str]:
        """The key of each training piece, where it is asked for."""
        if not {"key", "mode"} & set(self.config.conditions):
            return [""] * len(self.split("train"))
        return [find_key(self.encoding.notes(piece.content)) for piece in self.split("train")]

    def plan(self, epoch: int, seed: int) -> list[Indices]:
        """The epoch's batches of crops, each an example number; the same on every process."""
        config, count = self.config, len(self.split("train"))
        shape = Shape(
            length=config.crop,
            bar=self.encoding.bar,
            rows=config.rows,
            transpose=config.transpose,
            tempo=config.tempo > 0,
            conditions=len(config.conditions),
            drop=config.drop,
        )
        lengths = [len(self._tokens(i)) - 1 for i in range(count)]
        return _crops.plan(lengths, self._rooms, shape=shape, seed=seed, epoch=epoch)

    @cached_property
    def _rooms(self) -> list[tuple[int, int]]:
        return [self.encoding.room(self._tokens(i)) for i in range(len(self.split("train")))]

    def batch(self, examples: Indices) -> MusicBatch:
        """Example numbers -> conditions and crops of `crop` inputs with one label more."""
        crops = [_crops.unpack(int(number)) for number in examples]
        rows = []
        for crop in crops:
            row = self._tokens(crop.piece, crop.tempo)[crop.place : crop.place + self.config.crop + 1]
            rows.append(self.encoding.shift(row, crop.shift))
        return MusicBatch(batching.pad([self._told(crop) for crop in crops]), batching.pad(rows))

    def _told(self, crop: Crop) -> list[int]:
        key, composer = self._labels[crop.piece], self.split("train")[crop.piece].composer
        known = {"composer": composer}
        if key:
            shifted = shift_key(key, crop.shift)
            known |= {"key": shifted, "mode": mode_of(shifted)}
        told = [name for i, name in enumerate(self.config.conditions) if not crop.dropped >> i & 1]
        return self.classes.row([f"{name}:{known[name]}" for name in told if known[name]])

    def loss(self, model: Any, batch: MusicBatch) -> Loss:
        """The training loss: cross entropy summed over note tokens and end marks; padding is never counted."""
        features, _ = model.features(batch.target.tokens[:, :-1], model.start(batch.source))
        labels = batch.target.tokens[:, 1:]
        real = labels != self.marks.pad
        total = linear_cross_entropy(features[real], model.readout.weight, model.readout.bias, labels[real], 0.0)
        return Loss(total, int(real.sum()))

    def evaluate(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        """`nats`: mean -log p of every note token of a split, each counted once; marks and padding are not.

        Pieces are whole and untransposed, no condition is told. They are read in windows of `window` tokens that
        overlap by half: every token but those of a piece's first window sees at least half a window before it.
        """
        total, count = 0.0, 0
        for values in self.token_nats(model, split, window=self.config.window):
            total, count = total + float(values.sum()), count + len(values)
        return {"nats": total / count}

    def token_nats(self, model: Any, split: str, *, window: int) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
        """For each piece of a split -log p of its note tokens, in order; `window` 0 reads pieces whole."""
        rows = [self.marked(self.encoding.encode(piece.content)) for piece in self.split(split)]
        found = [np.zeros(len(row) - 2) for row in rows]
        parts = [
            (i, part)
            for i, row in enumerate(rows)
            for part in _crops.windows(len(row) - 1, window or len(row), self.encoding.bar)
        ]
        parts.sort(key=lambda item: item[1].begin - item[1].end)
        with evaluating(model) as device:
            for batch in _budgeted(parts, self.config.rows * max(self.config.crop, window)):
                padded = batching.pad([rows[i][part.begin : part.end + 1] for i, part in batch])
                nats = self._nats(model, padded.tokens.to(device)).double().cpu().numpy()
                for (i, part), values in zip(batch, nats, strict=True):
                    last = min(part.end, len(found[i]))  # the end mark is no note
                    found[i][part.counted : last] = values[part.counted - part.begin : last - part.begin]
        return found

    def _nats(self, model: Any, tokens: Tensor) -> Tensor:
        """(b t+1) -> -log p of each token but the first (b t)."""
        none = Padded(tokens.new_zeros(len(tokens), 1), tokens.new_ones(len(tokens)))
        logits, _ = model(tokens[:, :-1], model.start(none))
        found: Tensor = -logits.float().log_softmax(dim=-1).gather(-1, tokens[:, 1:, None])[..., 0]
        return found

    def compare(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        """Free-running pieces beside those of a split: pitches, intervals, voice leading, repetition."""
        from regard.tasks._compose import compare  # it is built upon this file

        return compare(self, model, split=split)

    def signatures(self) -> dict[str, str]:
        """How each score is computed, for others to repeat it."""
        seen = f"windows of {self.config.window} overlapping by half" if self.config.window else "whole pieces"
        return {"nats": f"mean -log p per note token (rests included; marks and padding not), {seen}, untransposed"}

    def save(self, folder: Path) -> None:
        """Write the encoding and the classes, from which `load` makes the task."""
        table = {"encoding": self.encoding.settings(), "size": self.encoding.size, "classes": self.classes.names}
        files.write_text(folder / FILE, json.dumps(table, indent=1, ensure_ascii=False) + "\n")


Parts = list[tuple[int, _crops.Window]]


def _budgeted(parts: Parts, budget: int) -> Iterator[Parts]:
    """Parts, longest first -> batches within a budget of padded tokens."""
    while parts:
        rows = max(1, budget // max(1, parts[0][1].end - parts[0][1].begin))
        yield parts[:rows]
        parts = parts[rows:]


def build(config: Config, folder: Path | None = None) -> Music:
    """A config -> the task with the classes of the training data, or those of a run folder."""
    if folder is not None:
        return load(config, folder)
    encoding: Encoding = Grid() if config.encoding == "grid" else Events()
    found = _read(config, encoding)
    composers = {piece.composer for piece in found.splits["train"]}
    return Music(config, encoding, classes_of(config.conditions, composers), read=lambda: found)


def _read(config: Config, encoding: Encoding) -> Collection:
    return pieces.collect(config.path, encoding, limit=config.limit, seed=config.seed)


def load(config: Config, folder: Path) -> Music:
    """A config and a run folder -> the task of that run; the data is not needed until it is asked for."""
    path = folder / FILE
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        settings = dict(table["encoding"])
        encoding: Encoding = {"grid": Grid, "events": Events}[settings.pop("name")](**settings)
        size, classes = int(table["size"]), Classes(tuple(table["classes"]))
    except (OSError, ValueError, KeyError, TypeError) as wrong:
        raise CheckpointError(f"{path}: missing or damaged ({wrong!r}); copy it from the original run") from None
    if encoding.size != size:
        raise CheckpointError(
            f"{path}: its encoding had {size} tokens, this one has {encoding.size}; install the miditok it was made by"
        )
    return Music(config, encoding, classes, read=lambda: _read(config, encoding))
