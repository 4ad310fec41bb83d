"""Notes as plain values, and what is done to them before any encoding: pedal, overlaps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from regard.data.music.metre import Timing


class Note(NamedTuple):
    """One sounding note; times are in seconds or in quarter notes, as the list it is in says."""

    start: float
    end: float
    pitch: int  # MIDI: 60 is middle C
    velocity: int = 80
    voice: int = 0


class Pedal(NamedTuple):
    """The sustain pedal held down."""

    start: float
    end: float


class ParsedNotes(NamedTuple):
    """Notes as they were read, in order of time, and what had to be mended, one line each."""

    notes: list[Note]
    remarks: tuple[str, ...] = ()
    timing: Timing = Timing()  # what the file says of it
    voice_names: tuple[str, ...] = ()  # what the file calls its voices, in the order of their numbers


def in_seconds(notes: Sequence[Note], tempo: float) -> list[Note]:
    """Notes in quarters -> the same in seconds at a tempo."""
    quarter = 60 / tempo
    return [note._replace(start=note.start * quarter, end=note.end * quarter) for note in notes]


def sustain(notes: Sequence[Note], pedals: Sequence[Pedal]) -> list[Note]:
    """Notes and pedals -> notes alone: one that ends under the pedal sounds until it is lifted, or struck again."""
    ordered = sorted(pedals)
    downs = [pedal.start for pedal in ordered]

    def lifted(note: Note) -> Note:
        last = bisect_right(downs, note.end) - 1
        return note._replace(end=max(note.end, ordered[last].end)) if last >= 0 else note

    return _cut([lifted(note) for note in notes])[0]


def resolve_overlaps(notes: Sequence[Note], where: str) -> ParsedNotes:
    """Notes of a pitch and voice that overlap -> each cut where the next begins; of equal starts the longest."""
    kept, mended = _cut(notes)
    remark = f"{where}: {mended} notes overlap another of the same pitch; each is cut where the next begins"
    return ParsedNotes(kept, (remark,) if mended else ())


def _cut(notes: Sequence[Note]) -> tuple[list[Note], int]:
    kept: list[Note] = []
    last: dict[tuple[int, int], int] = {}
    mended = 0
    for note in sorted(notes, key=lambda n: (n.start, n.pitch, n.voice, -n.end)):
        before = last.get((note.pitch, note.voice))
        if before is not None and kept[before].end > note.start:
            mended += 1
            if kept[before].start == note.start:
                continue  # the longer of two that start together is already there
            kept[before] = kept[before]._replace(end=note.start)
        last[note.pitch, note.voice] = len(kept)
        kept.append(note)
    return kept, mended


def filter_pitch_range(notes: Sequence[Note], low: int, high: int, *, where: str) -> ParsedNotes:
    """Notes -> those whose pitch lies in low … high, the others counted in a remark."""
    kept = [note for note in notes if low <= note.pitch <= high]
    gone = [note.pitch for note in notes if not low <= note.pitch <= high]
    remark = (
        f"{where}: {len(gone)} notes lie outside {low} … {high} (such as {gone[0] if gone else 0}) and are left out"
    )
    return ParsedNotes(kept, (remark,) if gone else ())
