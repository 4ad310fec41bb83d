"""The grid encoding: one token (a pitch or a rest) per voice and time step, S1 A1 T1 B1 S2 ….

Tokens do not distinguish held and repeated notes, as in the published chorale set: equal neighbours are played as one
note. For pieces that were read from a file, the onsets are stored next to the grid.
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
from regard.data.music.melody import is_one_line, skyline, voices_by_pitch
from regard.data.music.metre import Metre, Timing
from regard.data.music.notes import Note, ParsedNotes, filter_pitch_range

Voices = NDArray[np.int16]  # (steps voices): MIDI pitches, -1 if a voice is silent
REST = SpecialTokens.eos + 1  # the token of a rest; pitches follow
SILENT = -1
VOICE_NAMES = ("Soprano", "Alto", "Tenor", "Bass")


@dataclass(frozen=True)
class GridEncoding:
    """Four voices between two pitches, `resolution` steps per quarter; `tempo` only affects files and audio."""

    low: int = 36
    high: int = 81
    resolution: int = 4
    tempo: float = 90.0  # quarters per minute
    measure: int = 16  # steps
    metres: tuple[Metre, ...] = (Metre(),)  # of written files

    name = "grid"
    voices = VOICE_NAMES
    tokens_per_step = len(VOICE_NAMES)
    program = 52  # a choir that sings "ah"
    default_seconds = 120.0  # the longest chorales

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 127:
            raise ConfigError(f"low={self.low}, high={self.high}: pitches must lie in 0 … 127, low below high")
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
        """Convert seconds to time steps, at least one."""
        return max(1, round(seconds / self.step_seconds))

    def read_notes(self, path: Path, data: bytes | None = None) -> ParsedNotes:
        """Read a MIDI or MusicXML file, or the bytes of a MIDI file, as notes in quarters of any pitch."""
        if data is not None:
            return midi.parse(data, "quarter", where=str(path))
        return musicxml.read(path) if path.suffix.lower() in musicxml.SUFFIXES else midi.read(path, "quarter")

    def open(self, path: Path, data: bytes | None = None) -> LoadedPiece:
        parsed = self.read_notes(path, data)
        in_range = filter_pitch_range(parsed.notes, self.low, self.high, where=str(path))
        if not in_range.notes:
            raise DataError(f"{path}: no note lies in {self.low} … {self.high}, the range of this grid; transpose it")
        voices, remarks = self.to_grid(in_range.notes, where=str(path), names=parsed.voice_names)
        onsets = self.onsets(voices, in_range.notes)
        num_lost = self.count_lost(voices, parsed.notes)
        return LoadedPiece(voices, parsed.remarks, parsed, onsets, (*in_range.remarks, *remarks), num_lost)

    def count_lost(self, grid: Voices, notes: Sequence[Note]) -> int:
        """Return the number of notes in quarters that do not start in a grid: out of range, or too many at once."""
        starts = (_steps(note, self.resolution)[0] for note in notes)
        return sum(
            start >= len(grid) or not (grid[start] == note.pitch).any()
            for start, note in zip(starts, notes, strict=True)
        )

    def to_grid(
        self, notes: Sequence[Note], where: str = "piece", *, names: Sequence[str] = ()
    ) -> tuple[Voices, tuple[str, ...]]:
        """Notes in quarters -> grid of four voices and remarks.

        Four parts become the voices, ordered from the highest to the lowest. One line is the soprano. Otherwise notes
        are assigned by pitch. A note without duration lasts a step.
        """
        step = 1 / self.resolution
        notes = [note._replace(end=max(note.end, note.start + step)) for note in notes]
        if is_one_line(notes):
            line = self.melody_line(skyline(notes))
            silent = np.full((len(line), len(VOICE_NAMES) - 1), SILENT, dtype=np.int16)
            return np.concatenate([line[:, None], silent], axis=1), ()
        timed = [(*_steps(note, self.resolution), note) for note in notes]
        length = max(end for _, end, _ in timed)
        parts = voices_by_pitch(notes, names)
        if len(parts) == len(VOICE_NAMES):
            grid = np.full((length, len(VOICE_NAMES)), SILENT, dtype=np.int16)
            conflicts = np.zeros(length, dtype=bool)
            for start, end, note in sorted(timed, key=lambda item: (item[0], item[2].pitch)):
                cells = grid[start:end, parts.index(note.voice)]
                conflicts[start:end] |= (cells != SILENT) & (cells != note.pitch)
                cells[:] = note.pitch
            remark = f"{where}: {conflicts.sum()} steps have several notes in one part; one of them is used"
            return grid, (remark,) if conflicts.any() else ()
        sounding: list[set[int]] = [set() for _ in range(length)]
        for start, end, note in timed:
            for step in range(start, end):
                sounding[step].add(note.pitch)
        crowded = sum(len(pitches) > len(VOICE_NAMES) for pitches in sounding)
        remark = f"{where}: {crowded} steps have more than four notes; the outer two and two inner ones are used"
        return _assign_by_pitch(sounding), (remark,) if crowded else ()

    def onsets(self, grid: Voices, notes: Sequence[Note]) -> NDArray[np.bool_]:
        """A grid and its notes in quarters -> (steps voices) True where a note starts."""
        onsets = np.zeros(grid.shape, dtype=bool)
        for note in notes:
            start, _ = _steps(note, self.resolution)
            onsets[start] |= grid[start] == note.pitch
        return onsets

    def melody_line(self, melody: Sequence[Note]) -> NDArray[np.int16]:
        """Melody in quarters -> its pitch at each step; notes out of range are moved by octaves."""
        steps = [_steps(note, self.resolution) for note in melody]
        line = np.full(max((end for _, end in steps), default=0), SILENT, dtype=np.int16)
        for (start, end), note in zip(steps, melody, strict=True):
            line[start:end] = self._fold_octave(note.pitch)
        return line

    def _fold_octave(self, pitch: int) -> int:
        """Move a pitch by octaves into the range, or to its edge if the range is narrower than an octave."""
        moved = pitch - 12 * max(0, -(-(pitch - self.high) // 12)) + 12 * max(0, -(-(self.low - pitch) // 12))
        return min(max(moved, self.low), self.high)

    def encode(self, content: Voices) -> TokenArray:
        flat = np.asarray(content, dtype=np.int64).reshape(-1)
        outside = flat[(flat != SILENT) & ((flat < self.low) | (flat > self.high))]
        if len(outside):
            raise DataError(f"pitch {outside[0]} lies outside {self.low} … {self.high}, the range of this grid")
        tokens: TokenArray = np.where(flat == SILENT, REST, flat - self.low + REST + 1)
        return tokens

    def decode(self, tokens: TokenArray) -> Voices:
        tokens = np.asarray(tokens, dtype=np.int64)
        complete = tokens[: len(tokens) // len(VOICE_NAMES) * len(VOICE_NAMES)]
        pitches = np.where(complete <= REST, SILENT, complete - REST - 1 + self.low)
        return pitches.reshape(-1, len(VOICE_NAMES)).astype(np.int16)

    def notes(self, content: Voices, onsets: NDArray[np.bool_] | None = None) -> list[Note]:
        """Content -> notes in seconds; `onsets` (steps voices) separates repeated notes."""
        notes = []
        for voice, line in enumerate(np.asarray(content).T):
            changes = np.diff(line, prepend=SILENT - 1, append=SILENT - 1) != 0
            if onsets is not None:
                length = min(len(line), len(onsets))
                changes[:length] |= onsets[:length, voice]
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
        max_length = len(prefix) + self.max_tokens(seconds)
        min_length = len(prefix) + self.max_tokens(min(min_seconds, seconds))
        return GridGrammar(self.size, prefix_length=len(prefix), max_length=max_length, min_length=min_length)

    def max_tokens(self, seconds: float) -> int:
        return self.num_steps(seconds) * len(VOICE_NAMES)

    def label(self, token: int, position: int) -> str:
        voice = VOICE_NAMES[position % len(VOICE_NAMES)]
        return f"{voice[0]} {'rest' if token <= REST else pitch_name(token - REST - 1 + self.low)}"

    def piano_roll_points(self, tokens: TokenArray) -> list[PianoRollPoint | None]:
        points: list[PianoRollPoint | None] = []
        for position, token in enumerate(tokens.tolist()):
            middle = (position // len(VOICE_NAMES) + 0.5) * self.step_seconds
            points.append(None if token <= REST else PianoRollPoint(middle, token - REST - 1 + self.low))
        return points

    def settings(self) -> dict[str, Any]:
        return {"name": self.name, **{name: value for name, value in asdict(self).items() if name != "metres"}}


class GridGrammar:
    """Complete time steps, then EOS: possible between two steps from `min_length` tokens on, and required at
    `max_length`. At positions with a forced token only that token is allowed."""

    def __init__(
        self, size: int, *, prefix_length: int, max_length: int, min_length: int, forced_tokens: Tensor | None = None
    ) -> None:
        self.prefix_length, self.max_length, self.min_length = prefix_length, max_length, min_length  # in tokens
        self.forced_tokens = forced_tokens  # (positions) tokens of the entire piece, 0 for a free position; or None
        self.notes = torch.arange(size) >= REST
        self.ending = torch.arange(size) == SpecialTokens.eos

    def allowed(self, history: Tensor) -> Tensor:
        position = self.prefix_length + history.shape[1]
        between_steps = position % len(VOICE_NAMES) == 0
        allowed = self.ending if position >= self.max_length and between_steps else self.notes
        if self.forced_tokens is not None and position < len(self.forced_tokens) and self.forced_tokens[position]:
            allowed = torch.arange(len(allowed)) == self.forced_tokens[position]
        elif position >= self.min_length and between_steps:
            allowed = allowed | self.ending
        return allowed.to(history.device).expand(history.shape[0], -1)


def _steps(note: Note, resolution: int) -> tuple[int, int]:
    start = round(note.start * resolution)
    return start, max(start + 1, round(note.end * resolution))


def _assign_by_pitch(sounding: Sequence[set[int]]) -> Voices:
    """Sounding pitches per step -> four voices: outer pitches to the outer voices, others to the nearest voice."""
    grid = np.full((len(sounding), len(VOICE_NAMES)), SILENT, dtype=np.int16)
    previous = [72, 65, 57, 48]  # usual pitches of the voices
    for step, pitches in enumerate(sounding):
        for voice, pitch in _assign_voices(sorted(pitches, reverse=True), previous).items():
            grid[step, voice] = previous[voice] = pitch
    return grid


def _assign_voices(pitches: list[int], previous: Sequence[int]) -> dict[int, int]:
    """Pitches from high to low -> {voice: pitch} for at most four of them."""
    if len(pitches) >= 4:
        middle = len(pitches) // 2
        return dict(enumerate([pitches[0], pitches[middle - 1], pitches[middle], pitches[-1]]))
    if len(pitches) == 3:
        inner = min((1, 2), key=lambda voice: abs(previous[voice] - pitches[1]))
        return {0: pitches[0], inner: pitches[1], 3: pitches[2]}
    if len(pitches) == 2:
        return {0: pitches[0], 3: pitches[1]}
    return {min(range(4), key=lambda voice: abs(previous[voice] - pitches[0])): pitches[0]} if pitches else {}


def four_voice_grid(reading: ParsedNotes, resolution: int) -> Voices | None:
    """Notes in quarters -> the grid if there are exactly four voices; otherwise None, as it is not a chorale."""
    if len({note.voice for note in reading.notes}) != len(VOICE_NAMES):
        return None
    return GridEncoding(low=0, high=127, resolution=resolution).to_grid(reading.notes, names=reading.voice_names)[0]
