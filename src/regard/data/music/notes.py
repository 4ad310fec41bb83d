"""Notes, and the operations on them before encoding: sustain pedals, overlaps, pitch range."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from regard.data.music.metre import Timing


class Note(NamedTuple):
    """One note; times are in seconds or in quarter notes, depending on the function that returns it."""

    start: float
    end: float
    pitch: int  # MIDI: 60 is middle C
    velocity: int = 80
    voice: int = 0


class Pedal(NamedTuple):
    """An interval in which the sustain pedal is down."""

    start: float
    end: float


class ParsedNotes(NamedTuple):
    """Notes in order of time, with remarks on corrected input, one line each."""

    notes: list[Note]
    remarks: tuple[str, ...] = ()
    timing: Timing = Timing()  # tempo and metres of the file
    voice_names: tuple[str, ...] = ()  # names in the file, by voice index


def in_seconds(notes: Sequence[Note], tempo: float) -> list[Note]:
    """Convert notes from quarters to seconds at a tempo."""
    quarter = 60 / tempo
    return [note._replace(start=note.start * quarter, end=note.end * quarter) for note in notes]


def sustain(notes: Sequence[Note], pedals: Sequence[Pedal]) -> list[Note]:
    """Extend notes that end while the pedal is down until it is released or the pitch is played again."""
    ordered = sorted(pedals)
    starts = [pedal.start for pedal in ordered]

    def extend(note: Note) -> Note:
        last = bisect_right(starts, note.end) - 1
        return note._replace(end=max(note.end, ordered[last].end)) if last >= 0 else note

    return _trim_overlaps([extend(note) for note in notes])[0]


def resolve_overlaps(notes: Sequence[Note], where: str) -> ParsedNotes:
    """End notes where the next note of the same pitch and voice starts; of equal starts the longest note is kept."""
    trimmed, num_trimmed = _trim_overlaps(notes)
    remark = f"{where}: {num_trimmed} notes overlap another of the same pitch; each is cut where the next starts"
    return ParsedNotes(trimmed, (remark,) if num_trimmed else ())


def _trim_overlaps(notes: Sequence[Note]) -> tuple[list[Note], int]:
    """Return the notes without overlaps, and the number of overlaps."""
    trimmed: list[Note] = []
    last: dict[tuple[int, int], int] = {}
    num_trimmed = 0
    for note in sorted(notes, key=lambda n: (n.start, n.pitch, n.voice, -n.end)):
        previous = last.get((note.pitch, note.voice))
        if previous is not None and trimmed[previous].end > note.start:
            num_trimmed += 1
            if trimmed[previous].start == note.start:
                continue  # the longer of two notes that start together comes first
            trimmed[previous] = trimmed[previous]._replace(end=note.start)
        last[note.pitch, note.voice] = len(trimmed)
        trimmed.append(note)
    return trimmed, num_trimmed


def filter_pitch_range(notes: Sequence[Note], low: int, high: int, *, where: str) -> ParsedNotes:
    """Return the notes whose pitch lies in low … high, with a remark on the number of dropped notes."""
    in_range = [note for note in notes if low <= note.pitch <= high]
    dropped = [note.pitch for note in notes if not low <= note.pitch <= high]
    example = dropped[0] if dropped else 0
    remark = f"{where}: {len(dropped)} notes lie outside {low} … {high} (such as {example}) and are skipped"
    return ParsedNotes(in_range, (remark,) if dropped else ())
