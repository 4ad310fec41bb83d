"""Where a new piece begins, and what of it is fixed: nothing, a primer, a tune, or all but some voices and bars."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import remainder
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.core.errors import ConfigError, DataError, did_you_mean, pluralize
from regard.core.protocols import Grammar
from regard.data.music.encoding import Encoding, Opened, Tokens
from regard.data.music.grid_encoding import NAMES, SILENT, Grid, GridGrammar
from regard.data.music.melody import PARTS, tune_of
from regard.data.music.notes import Note, in_seconds

OFF = 0.1  # of a step: what begins farther from it was not meant to be there


class MusicFile(NamedTuple):
    """A file that was opened."""

    path: Path
    opened: Opened


def opening(path: Path, encoding: Encoding, *, tune: bool = False) -> MusicFile:
    """A file -> its content; of one that has a tune to be harmonised its notes alone, wherever they lie."""
    if tune and isinstance(encoding, Grid):
        return MusicFile(path, Opened(None, read=encoding.read(path)))
    return MusicFile(path, encoding.open(path))


class Length(NamedTuple):
    """How long a new piece is."""

    seconds: float | None  # at most; None: what the encoding finds usual, or what the file has
    exactly: bool = False  # just so long, whether the piece wants to end or not


class Prompt(NamedTuple):
    """Where a piece begins, and what may follow."""

    encoding: Encoding  # at the pace of the piece
    tokens: Tokens  # given: the piece begins with them
    grammar: Grammar
    limit: int  # tokens that may follow
    seconds: float = 0.0  # that the given tokens last
    shown: Tokens | None = None  # what is given of the whole piece, place by place, 0 where it is free
    struck: NDArray[np.bool_] | None = None  # (steps voices) where given notes of the grid begin
    tune: Sequence[Note] = ()  # in seconds: these very notes are the highest voice
    remarks: tuple[str, ...] = ()


def continuing(primer: MusicFile | None, encoding: Encoding, *, keep: float | None, length: Length) -> Prompt:
    """A file, or None -> the first `keep` seconds of it, to be continued."""
    tokens, given, struck = np.zeros(0, dtype=np.int64), 0.0, None
    remarks: tuple[str, ...] = ()
    if primer is not None:
        encoding = encoding.at(primer.opened.read.pace)
        content = primer.opened.content if keep is None else encoding.beginning(primer.opened.content, keep)
        tokens, struck, remarks = encoding.encode(content), primer.opened.struck, primer.opened.remarks
        given = max((note.end for note in encoding.notes(content)), default=0.0)
        remarks += _moved(primer, encoding)
        encoding = encoding.at(encoding.pace.until(given * (encoding.pace.tempo or 0.0) / 60))
    seconds = length.seconds or encoding.usual
    grammar = encoding.grammar(tokens, seconds=seconds, least=seconds if length.exactly else 0.0)
    known = None if struck is None else struck[: len(tokens) // len(NAMES)]
    return Prompt(encoding, tokens, grammar, encoding.longest(seconds), given, struck=known, remarks=remarks)


def harmonising(file: MusicFile, encoding: Encoding, *, seconds: float | None) -> Prompt:
    """A file -> a piece in which its tune is kept, note by note, and the other voices are new."""
    read = file.opened.read
    encoding = _grid(file, encoding, "harmonise").at(read.pace)
    tune = tune_of(read.notes, read.names)
    line = encoding.line(tune)[: None if seconds is None else encoding.steps(seconds)]
    lasts = np.inf if seconds is None else len(line) / encoding.resolution
    encoding = encoding.at(read.pace.until(lasts))
    kept = in_seconds([note._replace(end=min(note.end, lasts)) for note in tune if note.start < lasts], encoding.tempo)
    free = np.ones((len(line), len(NAMES)), dtype=bool)
    free[:, 0] = False
    content = np.repeat(line[:, None], len(NAMES), axis=1)
    filled = _filling(content, free, encoding)
    return filled._replace(tune=kept, remarks=(*read.remarks, *_left_out(file, tune)))


def _left_out(file: MusicFile, tune: Sequence[Note]) -> tuple[str, ...]:
    """What of a file is no tune."""
    others = len(file.opened.read.notes) - len(tune)
    if len({note.voice for note in file.opened.read.notes}) == PARTS or others <= 0:
        return ()
    return (f"{file.path}: the highest notes are the tune; {others} below it are left out",)


def infilling(file: MusicFile, encoding: Encoding, *, voices: Sequence[str], bars: str | None) -> Prompt:
    """A file -> the same piece in which some voices, some bars, or some voices of some bars are new."""
    encoding = _grid(file, encoding, "infill").at(file.opened.read.pace)
    content = file.opened.content
    free = np.zeros(content.shape, dtype=bool)
    free[np.ix_(_steps_of(bars, encoding, len(content)), _numbers(voices))] = True
    filled = _filling(content, free, encoding)
    remarks = (*file.opened.remarks, *_moved(file, encoding), *_seated(file, free))
    return filled._replace(struck=file.opened.struck & ~free, remarks=remarks)


def _moved(file: MusicFile, encoding: Encoding) -> tuple[str, ...]:
    """What of a file has no place on the grid: triplets, for one."""
    if not isinstance(encoding, Grid):
        return ()
    between = sum(abs(remainder(note.start * encoding.resolution, 1)) > OFF for note in file.opened.read.notes)
    if not between:
        return ()
    return (f"{file.path}: {pluralize(between, 'note')} of it begin between two 16ths, and are moved to the nearest",)


def _seated(file: MusicFile, free: NDArray[np.bool_]) -> tuple[str, ...]:
    """What of a file without four parts is lost, though nobody gave it the voices that are made anew."""
    parts = len({note.voice for note in file.opened.read.notes})
    lost = int((free & (file.opened.content != SILENT)).any(axis=1).sum())
    if parts == PARTS or free.all(axis=1).any() or not lost:
        return ()
    return (
        f"{file.path}: {pluralize(parts, 'part')}, not four, so voices are told apart by pitch; in "
        f"{pluralize(lost, 'step')} a note of it lies in what is made anew, and goes",
    )


def _filling(content: NDArray[np.int16], free: NDArray[np.bool_], encoding: Grid) -> Prompt:
    """A grid (steps voices) and where it is free -> a piece of that length; what is given first is read at once."""
    given = np.where(free.reshape(-1), 0, encoding.encode(content))
    first, end = int(np.argmax(given == 0)), len(given)
    grammar = GridGrammar(encoding.size, before=first, end=end, least=end, given=torch.from_numpy(given))
    return Prompt(encoding, given[:first], grammar, end - first, shown=given)


def _grid(file: MusicFile, encoding: Encoding, wish: str) -> Grid:
    if not isinstance(encoding, Grid):
        raise DataError(f"{file.path}: only a model of the grid encoding has voices to {wish}; use --prompt")
    return encoding


def _numbers(voices: Sequence[str]) -> list[int]:
    """Names of voices, or their first letters -> their numbers; none are all."""
    known = {name.lower(): number for number, name in enumerate(NAMES)}
    known |= {name[0]: number for name, number in known.items()}
    for voice in voices:
        if voice.lower() not in known:
            raise ConfigError(
                f"voices: there is no voice {voice!r}; {did_you_mean(voice.lower(), list(known)[: len(NAMES)])}"
            )
    return sorted({known[voice.lower()] for voice in voices}) or list(range(len(NAMES)))


def _steps_of(bars: str | None, encoding: Grid, steps: int) -> list[int]:
    """Bars as '5-8' or '3,9' -> the steps in them; none are all. The first whole bar is 1, an upbeat before it 0."""
    if bars is None:
        return list(range(steps))
    begins = [round(start * encoding.resolution) for start in encoding.pace.bars(steps / encoding.resolution)]
    least = 0 if encoding.pace.upbeat else 1
    most = least + len(begins) - 1
    chosen: set[int] = set()
    for part in bars.split(","):
        found = re.fullmatch(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?", part)
        if found is None:
            raise ConfigError(f"bars={bars!r}: give bars as 5-8, or as 3,9; the first whole one is 1")
        low, high = int(found[1]), int(found[2] or found[1])
        if not least <= low <= high <= most:
            upbeat = "" if least else " (the upbeat)"
            raise ConfigError(f"bars={bars!r}: the piece has bars {least}{upbeat} to {most}")
        chosen |= set(range(begins[low - least], [*begins, steps][high - least + 1]))
    return sorted(chosen)
