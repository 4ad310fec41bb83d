"""Base of the encodings of performances: notes in seconds between two pitches, in equal time steps.

Sustain pedals are converted to longer notes when the file is read (midi.py). Tempo and metres are those of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Self

from regard.core.errors import ConfigError, DataError
from regard.data.music import midi, musicxml
from regard.data.music.encoding import LoadedPiece
from regard.data.music.metre import Timing
from regard.data.music.notes import Note, filter_pitch_range, in_seconds, resolve_overlaps

DEFAULT_TEMPO = 100.0  # quarters per minute of a score without a tempo
MAX_RATE = 1000  # time steps per second
MAX_NOTES_PER_SECOND = 80  # more than any performance has
MAX_TOKENS_PER_NOTE = 3  # and a time shift, but not for every note of a chord


class PerformanceEncoding:
    """Piano performances between two pitches; times are in steps of `1/rate` seconds."""

    tokens_per_bar = 1
    tokens_per_step = 0
    voices = ("Piano",)
    program = 0  # a piano
    default_seconds = 60.0
    tempo = 120.0  # of written files, unless the prompt has one

    def __init__(self, low: int = 21, high: int = 108, *, rate: int = 100, velocities: int = 32) -> None:
        if not 0 <= low < high <= 127:
            raise ConfigError(f"low={low}, high={high}: pitches must lie in 0 … 127, low below high")
        if not 2 <= rate <= MAX_RATE or rate % 2 or not 1 <= velocities <= 127:
            raise ConfigError(
                f"rate={rate}, velocities={velocities}: rate must be even, 2 … {MAX_RATE}; velocities must lie in "
                "1 … 127"
            )
        self.low, self.high, self.rate, self.velocities = low, high, rate, velocities
        self.timing = Timing(self.tempo)  # of written files

    def with_timing(self, timing: Timing) -> Self:
        result = copy(self)
        result.timing = timing._replace(tempo=timing.tempo or self.tempo)
        return result

    def open(self, path: Path, data: bytes | None = None) -> LoadedPiece:
        if data is None and path.suffix.lower() in musicxml.SUFFIXES:
            parsed = musicxml.read(path)
            tempo = parsed.timing.tempo or DEFAULT_TEMPO
            parsed = parsed._replace(notes=in_seconds(parsed.notes, tempo), timing=parsed.timing._replace(tempo=tempo))
        else:
            parsed = midi.read(path, "second") if data is None else midi.parse(data, "second", where=str(path))
        in_range = filter_pitch_range(parsed.notes, self.low, self.high, where=str(path))
        if not in_range.notes:
            raise DataError(
                f"{path}: no note lies in {self.low} … {self.high}, the range of this encoding; transpose it"
            )
        merged = resolve_overlaps([note._replace(voice=0) for note in in_range.notes], str(path))
        num_lost = len(parsed.notes) - len(in_range.notes)
        remarks = (*parsed.remarks, *merged.remarks)
        return LoadedPiece(merged.notes, remarks, parsed, loss_remarks=in_range.remarks, num_lost=num_lost)

    def quantize(self, notes: Sequence[Note]) -> list[tuple[int, int, int, int]]:
        """Notes -> (start, length, pitch, velocity) in steps; notes of one pitch do not overlap."""
        quantized: list[tuple[int, int, int, int]] = []
        last_end: dict[int, int] = {}  # by pitch
        for note in sorted(notes):
            start = max(round(note.start * self.rate), last_end.get(note.pitch, 0))
            length = max(1, round(note.end * self.rate) - start)
            last_end[note.pitch] = start + length
            quantized.append((start, length, note.pitch, max(1, min(127, note.velocity))))
        return quantized

    def notes(self, content: list[Note]) -> list[Note]:
        return content

    def crop_start(self, content: list[Note], seconds: float) -> list[Note]:
        cropped = [note._replace(end=min(note.end, seconds)) for note in content if note.start < seconds]
        if not cropped:
            raise DataError(f"no note of the prompt starts in its first {seconds:g} seconds; use more of it")
        return cropped

    def max_tokens(self, seconds: float) -> int:
        return max(256, round(seconds * MAX_NOTES_PER_SECOND * MAX_TOKENS_PER_NOTE))

    def pitch_settings(self) -> dict[str, int]:
        """Return the arguments of the constructor."""
        return {"low": self.low, "high": self.high, "rate": self.rate, "velocities": self.velocities}
