"""New pieces from a model: from nothing, from a primer, or around a given soprano. Every one is a valid piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.core.evaluating import evaluating
from regard.core.protocols import Decoder, Grammar
from regard.core.sizes import Notes
from regard.core.task import Answer
from regard.core.tree import map_tensors
from regard.data.music import midi, roll, sound, statistics
from regard.data.music.encoding import Encoding, Tokens
from regard.data.music.grid import NAMES, SILENT, Grid, GridGrammar
from regard.data.music.notes import Note
from regard.decoding import Decoding, optimised
from regard.tasks._classes import Classes


class Beginning(NamedTuple):
    """Where a piece begins, and what may follow."""

    tokens: Tokens  # given
    grammar: Grammar
    limit: int  # tokens that may follow
    seconds: float  # that the given tokens last


class Composition(NamedTuple):
    """A piece and what the model thinks of it."""

    notes: list[Note]  # in seconds
    tokens: Tokens
    score: float  # log probability of what is new
    given: float  # seconds that came from the primer


def continuing(primer: Any | None, encoding: Encoding, *, keep: float | None, seconds: float) -> Beginning:
    """The content of a file, or None -> the first `keep` seconds of it, to be continued by so many seconds."""
    if primer is None:
        tokens, given = np.zeros(0, dtype=np.int64), 0.0
    else:
        content = primer if keep is None else encoding.beginning(primer, keep)
        tokens = encoding.encode(content)
        given = max((note.end for note in encoding.notes(content)), default=0.0)
    return Beginning(tokens, encoding.grammar(tokens, seconds=seconds), encoding.longest(seconds), given)


def harmonising(content: Any, encoding: Encoding, *, seconds: float, where: object) -> Beginning:
    """The content of a file -> a piece in which its highest voice is fixed and the others are new."""
    if not isinstance(encoding, Grid):
        raise DataError(f"{where}: only a model of the grid encoding has voices to harmonise; use --prompt")
    line = highest(content)
    steps = min(len(line), max(1, round(seconds / encoding.step)))
    voices = np.repeat(line[:steps, None], len(NAMES), axis=1)
    fixed = torch.from_numpy(encoding.encode(voices)).view(-1, len(NAMES))[:, 0]
    end = steps * len(NAMES)
    grammar = GridGrammar(encoding.size, before=0, end=end, fixed=fixed)
    return Beginning(np.zeros(0, dtype=np.int64), grammar, end, 0.0)


def highest(grid: NDArray[np.int16]) -> NDArray[np.int16]:
    """(steps voices) -> the first voice, or where it is silent throughout the highest one that sounds."""
    first = grid[:, 0]
    top: NDArray[np.int16] = grid.max(axis=1)
    return top if (first == SILENT).all() else first


class Composer(NamedTuple):
    """Makes pieces with a model: the encoding, classes and sizes it was trained with."""

    encoding: Encoding
    classes: Classes
    sizes: Notes

    def from_nothing(self, model: Decoder, decoding: Decoding, *, seconds: float) -> list[Composition]:
        """New pieces of so many seconds, best first."""
        return self.compose(model, continuing(None, self.encoding, keep=None, seconds=seconds), decoding)

    def compose(
        self, model: Decoder, beginning: Beginning, decoding: Decoding, *, like: Sequence[str] = ()
    ) -> list[Composition]:
        """A beginning and what the piece should be like -> pieces, best first, as many as the decoder gives."""
        given, longest, marks = beginning.tokens, self.sizes.longest, self.sizes.marks
        if beginning.limit > longest - len(given) - 1:
            raise DataError(
                f"the primer has {len(given)} tokens and {beginning.limit} more are asked for, but the model remembers "
                f"{longest}; ask for fewer seconds, keep less of the primer, or set data.longest in training"
            )
        with evaluating(model) as device:
            model = optimised(model)
            tokens = torch.from_numpy(np.concatenate([[marks.start], given]))[None].to(device)
            state = model.start(map_tensors(self.classes.ask(like), lambda x: x.to(device)))
            if tokens.shape[1] > 1:
                _, state = model.features(tokens[:, :-1], state)
            limits = torch.tensor([beginning.limit], device=device)
            (hypotheses,) = decoding(
                model, state, marks=marks, limits=limits, first=tokens[:, -1], grammar=beginning.grammar
            )
        wholes = [np.concatenate([given, np.array(each.tokens, dtype=np.int64)]) for each in hypotheses]
        notes = [self.encoding.notes(self.encoding.decode(whole)) for whole in wholes]
        scores = [hypothesis.score for hypothesis in hypotheses]
        return [Composition(*piece, beginning.seconds) for piece in zip(notes, wholes, scores, strict=True)]


def answer(piece: Composition, encoding: Encoding, *, title: str, remarks: tuple[str, ...]) -> Answer:
    """A piece -> how long it is, and what makes files of it: MIDI, sound, a picture, a drawing for a terminal."""
    notes, given = piece.notes, piece.given
    last = max((note.end for note in notes), default=0.0)
    text = f"{last:.1f} s, {len(notes)} notes, {len(piece.tokens)} tokens, log p {piece.score:.1f}"
    rendered: dict[str, Callable[[], bytes]] = {
        ".mid": lambda: midi.render(notes, tempo=encoding.tempo, names=encoding.voices),
        ".wav": lambda: sound.render(notes),
        ".png": lambda: roll.render(notes, title=title, names=encoding.voices, given=given),
        ".txt": lambda: roll.draw(notes, given=given).encode(),
    }
    return Answer(text, piece.score, piece.score, value=piece, files=rendered, remarks=remarks)


def compare(pieces: Sequence[Composition], real: Sequence[Any], encoding: Encoding) -> dict[str, float]:
    """New pieces beside the content of real ones -> the same numbers of both, and how far their histograms differ."""
    drawn = [piece.notes for piece in pieces]
    heard = [encoding.notes(content) for content in real]
    numbers = {
        "pitch_distance": statistics.distance(statistics.pitch_histogram(drawn), statistics.pitch_histogram(heard)),
        "interval_distance": statistics.distance(
            statistics.interval_histogram(drawn), statistics.interval_histogram(heard)
        ),
    }
    if isinstance(encoding, Grid):
        tables = {
            "samples": statistics.describe([encoding.decode(piece.tokens) for piece in pieces]),
            "data": statistics.describe(real),
        }
    else:
        tables = {"samples": statistics.texture(drawn), "data": statistics.texture(heard)}
    return numbers | {f"{name}_{whose}": value for whose, table in tables.items() for name, value in table.items()}
