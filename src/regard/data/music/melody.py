"""The tune of a piece: the line that people would sing, with every note as it was given."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from regard.data.music.notes import Note

VOICE_NAMES = ("soprano", "alto", "tenor", "bass")
CHORALE_PARTS = 4  # a piece of so many parts has a soprano
MAX_OVERLAP_QUARTERS = (
    0.25  # quarters: notes of one line that overlap by less are one after the other, played without a gap
)


def extract_melody(notes: Sequence[Note], names: Sequence[str] = ()) -> list[Note]:
    """Notes in quarters -> the tune: of four parts the highest, of any other number the highest note that sounds."""
    parts = voices_by_pitch(notes, names)
    return skyline([note for note in notes if note.voice == parts[0]] if len(parts) == CHORALE_PARTS else notes)


def voices_by_pitch(notes: Sequence[Note], names: Sequence[str] = ()) -> list[int]:
    """The parts of a piece from the highest to the lowest, whatever their order in the file: by name where they are
    called soprano, alto, tenor and bass, else by how high they lie."""
    parts: dict[int, list[int]] = {}
    for note in notes:
        parts.setdefault(note.voice, []).append(note.pitch)
    called = {names[part].strip().lower(): part for part in parts if part < len(names)}
    if len(parts) == CHORALE_PARTS and called.keys() == set(VOICE_NAMES):
        return [called[name] for name in VOICE_NAMES]
    return sorted(parts, key=lambda part: (-float(np.mean(parts[part])), part))


def skyline(notes: Sequence[Note]) -> list[Note]:
    """Notes -> one line: at every time the highest that sounds. A line alone comes back as it is."""
    coming = _side_by_side(sorted(notes))
    edges = sorted({edge for note in coming for edge in (note.start, note.end)})
    sounding: list[tuple[int, float, int]] = []  # the highest first, of one pitch the latest
    line: list[Note] = []
    number, last = 0, -1
    for now, after in pairwise(edges):
        while number < len(coming) and coming[number].start <= now:
            heapq.heappush(sounding, (-coming[number].pitch, -coming[number].start, number))
            number += 1
        while sounding and coming[sounding[0][2]].end <= now:
            heapq.heappop(sounding)
        if not sounding:
            continue
        top = sounding[0][2]
        if top == last and line[-1].end == now:
            line[-1] = line[-1]._replace(end=after)
        else:
            line.append(coming[top]._replace(start=now, end=after, voice=0))
        last = top
    return line


def _side_by_side(notes: Sequence[Note]) -> list[Note]:
    """Notes in order of time; one that reaches slightly into the next ends where that begins."""
    cut = list(notes)
    for i, (note, following) in enumerate(pairwise(notes)):
        over = note.end - following.start
        if following.start > note.start and 0 < over < min(MAX_OVERLAP_QUARTERS, (note.end - note.start) / 2):
            cut[i] = note._replace(end=following.start)
    return cut
