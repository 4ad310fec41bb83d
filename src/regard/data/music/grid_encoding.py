"""The grid encoding: a token for each voice at each time step, S1 A1 T1 B1 S2 …; a pitch, or a rest.

Tokens do not tell held and repeated notes apart, as in the published chorale set: equal neighbours are one note when
heard. Where a file was read, it is known beside the grid which notes were struck again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.errors import ConfigError, DataError
from regard.data.music import midi, musicxml
from regard.data.music.encoding import LoadedPiece, PianoRollPoint, TokenArray
from regard.data.music.key import pitch_name
from regard.data.music.melody import voices_by_pitch
from regard.data.music.metre import Metre, Timing
from regard.data.music.notes import Note, ParsedNotes, filter_pitch_range

Voices = NDArray[np.int16]  # (steps voices): MIDI pitches, -1 where a voice is silent
REST = SpecialTokens.eos + 1  # the token of a rest; pitches follow
SILENT = -1
VOICE_NAMES = ("Soprano", "Alto", "Tenor", "Bass")


@dataclass(frozen=True)
class GridEncoding:
    """Four voices between two pitches, `resolution` steps a quarter; `tempo` is for the ear only."""

    low: int = 36
    high: int = 81
    resolution: int = 4
    tempo: float = 90.0  # quarters a minute
    measure: int = 16  # steps
    metres: tuple[Metre, ...] = (Metre(),)  # in files

    name = "grid"
    voices = VOICE_NAMES
    tokens_per_step = len(VOICE_NAMES)
    program = 52  # a choir that sings "ah"
    default_seconds = 120.0  # the longest chorales

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 127:
            raise ConfigError(f"low={self.low}, high={self.high}: pitches lie in 0 … 127, low below high")
        if self.resolution < 1 or self.tempo <= 0 or self.measure < 1:
            raise ConfigError("resolution and measure must be at least 1, tempo above 0")

    @property
    def size(self) -> int:
        return REST + 1 + self.high - self.low + 1

    @property
    def tokens_per_bar(self) -> int:
        return self.measure * len(VOICE_NAMES)

    @property
    def step_seconds(self) -> float:
        """Seconds of a time step."""
        return 60 / self.tempo / self.resolution

    @property
    def timing(self) -> Timing:
        return Timing(self.tempo, self.metres)

    def with_timing(self, timing: Timing) -> GridEncoding:
        return replace(self, tempo=timing.tempo or self.tempo, metres=timing.metres)

    def num_steps(self, seconds: float) -> int:
        """How many time steps so many seconds are, at least one."""
        return max(1, round(seconds / self.step_seconds))

    def read_notes(self, path: Path, data: bytes | None = None) -> ParsedNotes:
        """A MIDI or MusicXML file, or the bytes of a MIDI file -> its notes in quarters, wherever they lie."""
        if data is not None:
            return midi.parse(data, "quarter", where=str(path))
        return musicxml.read(path) if path.suffix.lower() in musicxml.SUFFIXES else midi.read(path, "quarter")

    def open(self, path: Path, data: bytes | None = None) -> LoadedPiece:
        read = self.read_notes(path, data)
        inside = filter_pitch_range(read.notes, self.low, self.high, where=str(path))
        if not inside.notes:
            raise DataError(f"{path}: no note lies in {self.low} … {self.high}, what this grid holds; transpose it")
        voices, remarks = self.to_grid(inside.notes, where=str(path), names=read.voice_names)
        struck = self.onsets(voices, inside.notes)
        return LoadedPiece(voices, (*read.remarks, *inside.remarks, *remarks), read, struck)

    def to_grid(
        self, notes: Sequence[Note], where: str = "piece", *, names: Sequence[str] = ()
    ) -> tuple[Voices, tuple[str, ...]]:
        """Notes in quarters -> steps of four voices: a voice for each part if there are four, from the highest to the
        lowest whatever their order; else by pitch."""
        placed = [(*_steps(note, self.resolution), note) for note in notes]
        length = max(end for _, end, _ in placed)
        parts = voices_by_pitch(notes, names)
        if len(parts) == len(VOICE_NAMES):
            grid = np.full((length, len(VOICE_NAMES)), SILENT, dtype=np.int16)
            several = np.zeros(length, dtype=bool)
            for start, end, note in sorted(placed, key=lambda item: (item[0], item[2].pitch)):
                cells = grid[start:end, parts.index(note.voice)]
                several[start:end] |= (cells != SILENT) & (cells != note.pitch)
                cells[:] = note.pitch
            remark = f"{where}: {several.sum()} steps have several notes in one part; one of them is kept"
            return grid, (remark,) if several.any() else ()
        sounding: list[set[int]] = [set() for _ in range(length)]
        for start, end, note in placed:
            for step in range(start, end):
                sounding[step].add(note.pitch)
        crowded = sum(len(pitches) > len(VOICE_NAMES) for pitches in sounding)
        remark = f"{where}: {crowded} steps have more than four notes; the outer ones and two between are kept"
        return _by_pitch(sounding), (remark,) if crowded else ()

    def onsets(self, grid: Voices, notes: Sequence[Note]) -> NDArray[np.bool_]:
        """A grid and the notes in quarters that it was laid out of -> (steps voices) where one of them begins."""
        struck = np.zeros(grid.shape, dtype=bool)
        for note in notes:
            start, _ = _steps(note, self.resolution)
            struck[start] |= grid[start] == note.pitch
        return struck

    def melody_line(self, tune: Sequence[Note]) -> NDArray[np.int16]:
        """A tune in quarters -> its pitch at each step; what lies too high or too low is told in another octave."""
        steps = [_steps(note, self.resolution) for note in tune]
        line = np.full(max((end for _, end in steps), default=0), SILENT, dtype=np.int16)
        for (start, end), note in zip(steps, tune, strict=True):
            line[start:end] = self._folded(note.pitch)
        return line

    def _folded(self, pitch: int) -> int:
        """A pitch moved by octaves into the range, or to its edge where that is narrower than an octave."""
        moved = pitch - 12 * max(0, -(-(pitch - self.high) // 12)) + 12 * max(0, -(-(self.low - pitch) // 12))
        return min(max(moved, self.low), self.high)

    def encode(self, content: Voices) -> TokenArray:
        flat = np.asarray(content, dtype=np.int64).reshape(-1)
        outside = flat[(flat != SILENT) & ((flat < self.low) | (flat > self.high))]
        if len(outside):
            raise DataError(f"pitch {outside[0]} lies outside {self.low} … {self.high}, what this grid holds")
        tokens: TokenArray = np.where(flat == SILENT, REST, flat - self.low + REST + 1)
        return tokens

    def decode(self, tokens: TokenArray) -> Voices:
        tokens = np.asarray(tokens, dtype=np.int64)
        whole = tokens[: len(tokens) // len(VOICE_NAMES) * len(VOICE_NAMES)]
        pitches = np.where(whole <= REST, SILENT, whole - REST - 1 + self.low)
        return pitches.reshape(-1, len(VOICE_NAMES)).astype(np.int16)

    def notes(self, content: Voices, onsets: NDArray[np.bool_] | None = None) -> list[Note]:
        """Content -> notes in seconds; in the steps that `struck` tells of, a note that was struck again is two."""
        notes = []
        for voice, line in enumerate(np.asarray(content).T):
            changes = np.diff(line, prepend=SILENT - 1, append=SILENT - 1) != 0
            if onsets is not None:
                known = min(len(line), len(onsets))
                changes[:known] |= onsets[:known, voice]
            edges = np.flatnonzero(changes)
            for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
                if line[start] != SILENT:
                    notes.append(
                        Note(start * self.step_seconds, end * self.step_seconds, int(line[start]), voice=voice)
                    )
        return sorted(notes)

    def crop_start(self, content: Voices, seconds: float) -> Voices:
        return content[: self.num_steps(seconds)]

    def transpose(self, tokens: TokenArray, semitones: int) -> TokenArray:
        return np.where(tokens > REST, tokens + semitones, tokens)

    def transpose_range(self, tokens: TokenArray) -> tuple[int, int]:
        pitches = tokens[tokens > REST]
        if not len(pitches):
            return 0, 0
        return REST + 1 - int(pitches.min()), self.size - 1 - int(pitches.max())

    def grammar(self, prefix: TokenArray, *, seconds: float, min_seconds: float) -> GridGrammar:
        end, first = (len(prefix) + self.max_tokens(length) for length in (seconds, min(min_seconds, seconds)))
        return GridGrammar(self.size, prefix_length=len(prefix), max_length=end, min_length=first)

    def max_tokens(self, seconds: float) -> int:
        return self.num_steps(seconds) * len(VOICE_NAMES)

    def label(self, token: int, position: int) -> str:
        return f"{VOICE_NAMES[position % len(VOICE_NAMES)][0]} {'rest' if token <= REST else pitch_name(token - REST - 1 + self.low)}"

    def piano_roll_points(self, tokens: TokenArray) -> list[PianoRollPoint | None]:
        spots: list[PianoRollPoint | None] = []
        for place, token in enumerate(tokens.tolist()):
            middle = (place // len(VOICE_NAMES) + 0.5) * self.step_seconds
            spots.append(None if token <= REST else PianoRollPoint(middle, token - REST - 1 + self.low))
        return spots

    def settings(self) -> dict[str, Any]:
        return {"name": self.name, **{name: value for name, value in asdict(self).items() if name != "metres"}}


class GridGrammar:
    """Whole time steps, then the end mark: between two steps from `least` tokens on, and at `end` at the latest. Where
    a token is given, that and no other."""

    def __init__(
        self, size: int, *, prefix_length: int, max_length: int, min_length: int, forced_tokens: Tensor | None = None
    ) -> None:
        self.prefix_length, self.max_length, self.min_length = prefix_length, max_length, min_length  # in tokens
        self.forced_tokens = forced_tokens  # (places) tokens of the whole piece, 0 where any may come; or none
        self.notes = torch.arange(size) >= REST
        self.ending = torch.arange(size) == SpecialTokens.eos

    def allowed(self, history: Tensor) -> Tensor:
        place = self.prefix_length + history.shape[1]
        between = place % len(VOICE_NAMES) == 0
        may = self.ending if place >= self.max_length and between else self.notes
        if self.forced_tokens is not None and place < len(self.forced_tokens) and self.forced_tokens[place]:
            may = torch.arange(len(may)) == self.forced_tokens[place]
        elif place >= self.min_length and between:
            may = may | self.ending
        return may.to(history.device).expand(history.shape[0], -1)


def _steps(note: Note, resolution: int) -> tuple[int, int]:
    start = round(note.start * resolution)
    return start, max(start + 1, round(note.end * resolution))


def _by_pitch(sounding: Sequence[set[int]]) -> Voices:
    """Sounding pitches at each step -> four voices: outer ones outside, others where they were nearest before."""
    grid = np.full((len(sounding), len(VOICE_NAMES)), SILENT, dtype=np.int16)
    before = [72, 65, 57, 48]  # where the voices usually are
    for step, pitches in enumerate(sounding):
        for voice, pitch in _seats(sorted(pitches, reverse=True), before).items():
            grid[step, voice] = before[voice] = pitch
    return grid


def _seats(pitches: list[int], before: Sequence[int]) -> dict[int, int]:
    """At most four pitches from high to low, each with its voice."""
    if len(pitches) >= 4:
        middle = len(pitches) // 2
        return dict(enumerate([pitches[0], pitches[middle - 1], pitches[middle], pitches[-1]]))
    if len(pitches) == 3:
        inner = min((1, 2), key=lambda voice: abs(before[voice] - pitches[1]))
        return {0: pitches[0], inner: pitches[1], 3: pitches[2]}
    if len(pitches) == 2:
        return {0: pitches[0], 3: pitches[1]}
    return {min(range(4), key=lambda voice: abs(before[voice] - pitches[0])): pitches[0]} if pitches else {}


def four_voice_grid(reading: ParsedNotes, resolution: int) -> Voices | None:
    """Notes in quarters -> the grid if there are just four voices, else None: not a chorale."""
    if len({note.voice for note in reading.notes}) != len(VOICE_NAMES):
        return None
    return GridEncoding(low=0, high=127, resolution=resolution).to_grid(reading.notes, names=reading.voice_names)[0]
