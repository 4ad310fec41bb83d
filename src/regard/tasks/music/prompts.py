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
from regard.data.music.encoding import Encoding, LoadedPiece, TokenArray
from regard.data.music.grid_encoding import SILENT, VOICE_NAMES, GridEncoding, GridGrammar
from regard.data.music.melody import CHORALE_PARTS, extract_melody
from regard.data.music.notes import Note, in_seconds

MAX_GRID_OFFSET = 0.1  # of a step: what begins farther from it was not meant to be there


class MusicFile(NamedTuple):
    """A file that was opened."""

    path: Path
    parsed: LoadedPiece


def open_music_file(path: Path, encoding: Encoding, *, melody_only: bool = False) -> MusicFile:
    """A file -> its content; of one that has a tune to be harmonised its notes alone, wherever they lie."""
    if melody_only and isinstance(encoding, GridEncoding):
        return MusicFile(path, LoadedPiece(None, parsed=encoding.read_notes(path)))
    return MusicFile(path, encoding.open(path))


class Length(NamedTuple):
    """How long a new piece is."""

    seconds: float | None  # at most; None: what the encoding finds usual, or what the file has
    exact: bool = False  # just so long, whether the piece wants to end or not


class Prompt(NamedTuple):
    """Where a piece begins, and what may follow."""

    encoding: Encoding  # at the pace of the piece
    tokens: TokenArray  # given: the piece begins with them
    grammar: Grammar
    limit: int  # tokens that may follow
    seconds: float = 0.0  # that the given tokens last
    visible_tokens: TokenArray | None = None  # what is given of the whole piece, place by place, 0 where it is free
    onsets: NDArray[np.bool_] | None = None  # (steps voices) where given notes of the grid begin
    melody: Sequence[Note] = ()  # in seconds: these very notes are the highest voice
    remarks: tuple[str, ...] = ()


def continuation_prompt(
    file: MusicFile | None, encoding: Encoding, *, prompt_seconds: float | None, length: Length
) -> Prompt:
    """A file, or None -> the first `keep` seconds of it, to be continued."""
    tokens, given, struck = np.zeros(0, dtype=np.int64), 0.0, None
    remarks: tuple[str, ...] = ()
    if file is not None:
        encoding = encoding.with_timing(file.parsed.parsed.timing)
        content = (
            file.parsed.content if prompt_seconds is None else encoding.crop_start(file.parsed.content, prompt_seconds)
        )
        tokens, struck, remarks = encoding.encode(content), file.parsed.onsets, file.parsed.remarks
        given = max((note.end for note in encoding.notes(content)), default=0.0)
        remarks += _moved(file, encoding)
        encoding = encoding.with_timing(encoding.timing.truncate(given * (encoding.timing.tempo or 0.0) / 60))
    seconds = length.seconds or encoding.default_seconds
    grammar = encoding.grammar(tokens, seconds=seconds, min_seconds=seconds if length.exact else 0.0)
    known = None if struck is None else struck[: len(tokens) // len(VOICE_NAMES)]
    return Prompt(encoding, tokens, grammar, encoding.max_tokens(seconds), given, onsets=known, remarks=remarks)


def harmonization_prompt(file: MusicFile, encoding: Encoding, *, seconds: float | None) -> Prompt:
    """A file -> a piece in which its tune is kept, note by note, and the other voices are new."""
    read = file.parsed.parsed
    encoding = _grid(file, encoding, "harmonise").with_timing(read.timing)
    tune = extract_melody(read.notes, read.voice_names)
    line = encoding.melody_line(tune)[: None if seconds is None else encoding.num_steps(seconds)]
    lasts = np.inf if seconds is None else len(line) / encoding.resolution
    encoding = encoding.with_timing(read.timing.truncate(lasts))
    kept = in_seconds([note._replace(end=min(note.end, lasts)) for note in tune if note.start < lasts], encoding.tempo)
    free = np.ones((len(line), len(VOICE_NAMES)), dtype=bool)
    free[:, 0] = False
    content = np.repeat(line[:, None], len(VOICE_NAMES), axis=1)
    filled = _filling(content, free, encoding)
    return filled._replace(melody=kept, remarks=(*read.remarks, *_left_out(file, tune)))


def _left_out(file: MusicFile, tune: Sequence[Note]) -> tuple[str, ...]:
    """What of a file is no tune."""
    others = len(file.parsed.parsed.notes) - len(tune)
    if len({note.voice for note in file.parsed.parsed.notes}) == CHORALE_PARTS or others <= 0:
        return ()
    return (f"{file.path}: the highest notes are the tune; {others} below it are left out",)


def infilling_prompt(file: MusicFile, encoding: Encoding, *, voices: Sequence[str], bars: str | None) -> Prompt:
    """A file -> the same piece in which some voices, some bars, or some voices of some bars are new."""
    encoding = _grid(file, encoding, "infill").with_timing(file.parsed.parsed.timing)
    content = file.parsed.content
    free = np.zeros(content.shape, dtype=bool)
    free[np.ix_(_steps_of(bars, encoding, len(content)), _numbers(voices))] = True
    filled = _filling(content, free, encoding)
    remarks = (*file.parsed.remarks, *_moved(file, encoding), *_seated(file, free))
    return filled._replace(onsets=file.parsed.onsets & ~free, remarks=remarks)


def _moved(file: MusicFile, encoding: Encoding) -> tuple[str, ...]:
    """What of a file has no place on the grid: triplets, for one."""
    if not isinstance(encoding, GridEncoding):
        return ()
    between = sum(
        abs(remainder(note.start * encoding.resolution, 1)) > MAX_GRID_OFFSET for note in file.parsed.parsed.notes
    )
    if not between:
        return ()
    return (f"{file.path}: {pluralize(between, 'note')} of it begin between two 16ths, and are moved to the nearest",)


def _seated(file: MusicFile, free: NDArray[np.bool_]) -> tuple[str, ...]:
    """What of a file without four parts is lost, though nobody gave it the voices that are made anew."""
    parts = len({note.voice for note in file.parsed.parsed.notes})
    lost = int((free & (file.parsed.content != SILENT)).any(axis=1).sum())
    if parts == CHORALE_PARTS or free.all(axis=1).any() or not lost:
        return ()
    return (
        f"{file.path}: {pluralize(parts, 'part')}, not four, so voices are told apart by pitch; in "
        f"{pluralize(lost, 'step')} a note of it lies in what is made anew, and goes",
    )


def _filling(content: NDArray[np.int16], free: NDArray[np.bool_], encoding: GridEncoding) -> Prompt:
    """A grid (steps voices) and where it is free -> a piece of that length; what is given first is read at once."""
    given = np.where(free.reshape(-1), 0, encoding.encode(content))
    first, end = int(np.argmax(given == 0)), len(given)
    grammar = GridGrammar(
        encoding.size, prefix_length=first, max_length=end, min_length=end, forced_tokens=torch.from_numpy(given)
    )
    return Prompt(encoding, given[:first], grammar, end - first, visible_tokens=given)


def _grid(file: MusicFile, encoding: Encoding, wish: str) -> GridEncoding:
    if not isinstance(encoding, GridEncoding):
        raise DataError(f"{file.path}: only a model of the grid encoding has voices to {wish}; use --prompt")
    return encoding


def _numbers(voices: Sequence[str]) -> list[int]:
    """Names of voices, or their first letters -> their numbers; none are all."""
    known = {name.lower(): number for number, name in enumerate(VOICE_NAMES)}
    known |= {name[0]: number for name, number in known.items()}
    for voice in voices:
        if voice.lower() not in known:
            raise ConfigError(
                f"voices: there is no voice {voice!r}; {did_you_mean(voice.lower(), list(known)[: len(VOICE_NAMES)])}"
            )
    return sorted({known[voice.lower()] for voice in voices}) or list(range(len(VOICE_NAMES)))


def _steps_of(bars: str | None, encoding: GridEncoding, steps: int) -> list[int]:
    """Bars as '5-8' or '3,9' -> the steps in them; none are all. The first whole bar is 1, an upbeat before it 0."""
    if bars is None:
        return list(range(steps))
    begins = [round(start * encoding.resolution) for start in encoding.timing.bar_starts(steps / encoding.resolution)]
    least = 0 if encoding.timing.upbeat else 1
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
