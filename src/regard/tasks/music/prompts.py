"""Prompts of music generation: an empty prompt, a prefix to continue, a melody to harmonize, or gaps to fill."""

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
from regard.data.music.melody import CHORALE_PARTS, extract_melody, is_one_line
from regard.data.music.notes import Note, in_seconds

MAX_GRID_OFFSET = 0.1  # in steps: a note that starts farther from the grid was not meant to be on it


class MusicFile(NamedTuple):
    """A parsed music file."""

    path: Path
    parsed: LoadedPiece


def open_music_file(path: Path, encoding: Encoding, *, melody_only: bool = False) -> MusicFile:
    """Parse a file; with `melody_only` return its notes without fitting them to the grid."""
    if melody_only and isinstance(encoding, GridEncoding):
        return MusicFile(path, LoadedPiece(None, parsed=encoding.read_notes(path)))
    return MusicFile(path, encoding.open(path))


class Length(NamedTuple):
    """Length of a new piece."""

    seconds: float | None  # maximum; None: the default of the encoding, or the length of the file
    exact: bool = False  # exactly this length, even if the model predicts an earlier end


class Prompt(NamedTuple):
    """The start of a piece, and constraints on its continuation."""

    encoding: Encoding  # with the tempo and metres of the piece
    tokens: TokenArray  # the first tokens of the piece
    grammar: Grammar
    limit: int  # maximum number of new tokens
    seconds: float = 0.0  # duration of `tokens`
    visible_tokens: TokenArray | None = None  # the fixed tokens of the entire piece, 0 at positions to generate
    onsets: NDArray[np.bool_] | None = None  # (steps voices) starts of the notes of the prompt on the grid
    melody: Sequence[Note] = ()  # in seconds: the notes of the highest voice, returned unchanged
    remarks: tuple[str, ...] = ()


def continuation_prompt(
    file: MusicFile | None, encoding: Encoding, *, prompt_seconds: float | None, length: Length
) -> Prompt:
    """Return a prompt with the first `prompt_seconds` of a file, or an empty one without a file."""
    tokens, duration, onsets = np.zeros(0, dtype=np.int64), 0.0, None
    remarks: tuple[str, ...] = ()
    if file is not None:
        encoding = encoding.with_timing(file.parsed.parsed.timing)
        content = (
            file.parsed.content if prompt_seconds is None else encoding.crop_start(file.parsed.content, prompt_seconds)
        )
        tokens, onsets = encoding.encode(content), file.parsed.onsets
        remarks = file.parsed.remarks + file.parsed.loss_remarks
        duration = max((note.end for note in encoding.notes(content)), default=0.0)
        remarks += _off_grid_remarks(file, encoding)
        if isinstance(encoding, GridEncoding):
            remarks += _silent_remarks(file, content, "--harmonise gives them notes")
        encoding = encoding.with_timing(encoding.timing.truncate(duration * (encoding.timing.tempo or 0.0) / 60))
    seconds = length.seconds or encoding.default_seconds
    grammar = encoding.grammar(tokens, seconds=seconds, min_seconds=seconds if length.exact else 0.0)
    onsets = None if onsets is None else onsets[: len(tokens) // len(VOICE_NAMES)]
    return Prompt(encoding, tokens, grammar, encoding.max_tokens(seconds), duration, onsets=onsets, remarks=remarks)


def harmonization_prompt(file: MusicFile, encoding: Encoding, *, seconds: float | None) -> Prompt:
    """Return a prompt that fixes the melody of a file, note by note, and leaves the other voices to generate."""
    parsed = file.parsed.parsed
    encoding = _as_grid(file, encoding, "harmonise").with_timing(parsed.timing)
    melody = extract_melody(parsed.notes, parsed.voice_names)
    line = encoding.melody_line(melody)[: None if seconds is None else encoding.num_steps(seconds)]
    end = np.inf if seconds is None else len(line) / encoding.resolution
    encoding = encoding.with_timing(parsed.timing.truncate(end))
    notes = in_seconds([note._replace(end=min(note.end, end)) for note in melody if note.start < end], encoding.tempo)
    free = np.ones((len(line), len(VOICE_NAMES)), dtype=bool)
    free[:, 0] = False
    content = np.repeat(line[:, None], len(VOICE_NAMES), axis=1)
    prompt = _fill_prompt(content, free, encoding)
    return prompt._replace(melody=notes, remarks=(*parsed.remarks, *_accompaniment_remarks(file, melody)))


def _accompaniment_remarks(file: MusicFile, melody: Sequence[Note]) -> tuple[str, ...]:
    """Report notes of a file that are not part of the melody."""
    num_dropped = len(file.parsed.parsed.notes) - len(melody)
    if len({note.voice for note in file.parsed.parsed.notes}) == CHORALE_PARTS or num_dropped <= 0:
        return ()
    return (f"{file.path}: the highest notes are the melody; {num_dropped} below it are left out",)


def infilling_prompt(file: MusicFile, encoding: Encoding, *, voices: Sequence[str], bars: str | None) -> Prompt:
    """Return a prompt that leaves some voices, some bars, or some voices of some bars of a file to generate."""
    encoding = _as_grid(file, encoding, "infill").with_timing(file.parsed.parsed.timing)
    content = file.parsed.content
    free = np.zeros(content.shape, dtype=bool)
    free[np.ix_(_steps_of(bars, encoding, len(content)), _voice_indices(voices))] = True
    prompt = _fill_prompt(content, free, encoding)
    visible = np.where(free.any(axis=0), 0, content)  # a voice of which a part is generated is not silent
    remarks = (
        *file.parsed.remarks,
        *file.parsed.loss_remarks,
        *_off_grid_remarks(file, encoding),
        *_silent_remarks(file, visible, "name them in --voices to generate them"),
        *_replaced_note_remarks(file, free),
    )
    return prompt._replace(onsets=file.parsed.onsets & ~free, remarks=remarks)


def _off_grid_remarks(file: MusicFile, encoding: Encoding) -> tuple[str, ...]:
    """Report notes of a file that do not fit the grid, such as triplets."""
    if not isinstance(encoding, GridEncoding):
        return ()
    count = sum(
        abs(remainder(note.start * encoding.resolution, 1)) > MAX_GRID_OFFSET for note in file.parsed.parsed.notes
    )
    if not count:
        return ()
    return (f"{file.path}: {pluralize(count, 'note')} between two 16ths moved to the nearest",)


def _silent_remarks(file: MusicFile, content: NDArray[np.int16], remedy: str) -> tuple[str, ...]:
    """Report voices without any note in the content (steps voices) of a file."""
    silent = [name for name, line in zip(VOICE_NAMES, content.T, strict=True) if (line == SILENT).all()]
    num_parts = len({note.voice for note in file.parsed.parsed.notes})
    if not silent or len(silent) == len(VOICE_NAMES) or num_parts == CHORALE_PARTS:
        return ()
    start = "one voice, read as the soprano; " if is_one_line(file.parsed.parsed.notes) else ""
    *first, last = (name.lower() for name in silent)
    names = f"{', '.join(first)} and {last}" if first else last
    verb, remedy = ("are", remedy) if first else ("is", remedy.replace("them", "it"))
    return (f"{file.path}: {start}{names} {verb} silent; {remedy}",)


def _replaced_note_remarks(file: MusicFile, free: NDArray[np.bool_]) -> tuple[str, ...]:
    """Report notes that are replaced in a file without four parts, whose voices were assigned by pitch."""
    num_parts = len({note.voice for note in file.parsed.parsed.notes})
    num_steps = int((free & (file.parsed.content != SILENT)).any(axis=1).sum())
    if num_parts == CHORALE_PARTS or free.all(axis=1).any() or not num_steps:
        return ()
    assigned = "voices are assigned by pitch"
    if is_one_line(file.parsed.parsed.notes):
        assigned = "it is the soprano"
    return (
        f"{file.path}: {pluralize(num_parts, 'part')}, not four, so {assigned}; in "
        f"{pluralize(num_steps, 'step')} a note of the file is in a voice to generate and is replaced",
    )


def _fill_prompt(content: NDArray[np.int16], free: NDArray[np.bool_], encoding: GridEncoding) -> Prompt:
    """A grid (steps voices) and its free cells -> a prompt of that length; leading fixed tokens are its prefix."""
    fixed = np.where(free.reshape(-1), 0, encoding.encode(content))
    first, end = int(np.argmax(fixed == 0)), len(fixed)
    grammar = GridGrammar(
        encoding.size, prefix_length=first, max_length=end, min_length=end, forced_tokens=torch.from_numpy(fixed)
    )
    return Prompt(encoding, fixed[:first], grammar, end - first, visible_tokens=fixed)


def _as_grid(file: MusicFile, encoding: Encoding, verb: str) -> GridEncoding:
    if not isinstance(encoding, GridEncoding):
        raise DataError(f"{file.path}: only a model of the grid encoding has voices to {verb}; use --prompt")
    return encoding


def _voice_indices(voices: Sequence[str]) -> list[int]:
    """Names of voices, or their first letters -> their indices; no names -> all voices."""
    indices = {name.lower(): index for index, name in enumerate(VOICE_NAMES)}
    indices |= {name[0]: index for name, index in indices.items()}
    for voice in voices:
        if voice.lower() not in indices:
            hint = did_you_mean(voice.lower(), list(indices)[: len(VOICE_NAMES)])
            raise ConfigError(f"voices: there is no voice {voice!r}; {hint}")
    return sorted({indices[voice.lower()] for voice in voices}) or list(range(len(VOICE_NAMES)))


def _steps_of(bars: str | None, encoding: GridEncoding, num_steps: int) -> list[int]:
    """Bars such as '5-8' or '3,9' -> their steps; None -> all steps. The first full bar is 1, an upbeat before it 0."""
    if bars is None:
        return list(range(num_steps))
    bar_starts = encoding.timing.bar_starts(num_steps / encoding.resolution)
    starts = [round(start * encoding.resolution) for start in bar_starts]
    first = 0 if encoding.timing.upbeat else 1
    last = first + len(starts) - 1
    steps: set[int] = set()
    for part in bars.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?", part)
        if match is None:
            raise ConfigError(f"bars={bars!r}: not a list of bars; give 5-8 or 3,9, the first full bar is 1")
        low, high = int(match[1]), int(match[2] or match[1])
        if not first <= low <= high <= last:
            upbeat = "" if first else " (the upbeat)"
            raise ConfigError(f"bars={bars!r}: the piece has bars {first}{upbeat} to {last}")
        steps |= set(range(starts[low - first], [*starts, num_steps][high - first + 1]))
    return sorted(steps)
