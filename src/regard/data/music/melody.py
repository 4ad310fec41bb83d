"""Melody extraction: the highest part or the highest sounding notes of a piece."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from regard.data.music.notes import Note

VOICE_NAMES = ("soprano", "alto", "tenor", "bass")
CHORALE_PARTS = 4  # pieces with this many parts have a soprano
MAX_OVERLAP_QUARTERS = 0.25  # notes of one line that overlap by less are successive notes played legato


def extract_melody(notes: Sequence[Note], names: Sequence[str] = ()) -> list[Note]:
    """Notes in quarters -> melody: the highest of four parts, or else the highest sounding note."""
    parts = voices_by_pitch(notes, names)
    return skyline([note for note in notes if note.voice == parts[0]] if len(parts) == CHORALE_PARTS else notes)


def voices_by_pitch(notes: Sequence[Note], names: Sequence[str] = ()) -> list[int]:
    """Return the parts of a piece from the highest to the lowest: by name if they are called soprano, alto, tenor and
    bass, else by mean pitch."""
    parts: dict[int, list[int]] = {}
    for note in notes:
        parts.setdefault(note.voice, []).append(note.pitch)
    by_name = {names[part].strip().lower(): part for part in parts if part < len(names)}
    if len(parts) == CHORALE_PARTS and by_name.keys() == set(VOICE_NAMES):
        return [by_name[name] for name in VOICE_NAMES]
    return sorted(parts, key=lambda part: (-float(np.mean(parts[part])), part))


def is_one_line(notes: Sequence[Note]) -> bool:
    """Return True if the notes are of one part and never sound together; legato overlaps do not count."""
    line = _trim_overlaps(sorted(notes))
    return len({note.voice for note in line}) == 1 and all(a.end <= b.start for a, b in pairwise(line))


def skyline(notes: Sequence[Note]) -> list[Note]:
    """Notes -> one line with the highest sounding note at every time. A monophonic line is unchanged."""
    ordered = _trim_overlaps(sorted(notes))
    edges = sorted({edge for note in ordered for edge in (note.start, note.end)})
    sounding: list[tuple[int, float, int]] = []  # heap: the highest pitch first, then the latest start
    line: list[Note] = []
    index, last = 0, -1
    for now, after in pairwise(edges):
        while index < len(ordered) and ordered[index].start <= now:
            heapq.heappush(sounding, (-ordered[index].pitch, -ordered[index].start, index))
            index += 1
        while sounding and ordered[sounding[0][2]].end <= now:
            heapq.heappop(sounding)
        if not sounding:
            continue
        top = sounding[0][2]
        if top == last and line[-1].end == now:
            line[-1] = line[-1]._replace(end=after)
        else:
            line.append(ordered[top]._replace(start=now, end=after, voice=0))
        last = top
    return line


def _trim_overlaps(notes: Sequence[Note]) -> list[Note]:
    """Shorten notes, ordered by time, that overlap slightly with the next one."""
    trimmed = list(notes)
    for i, (note, following) in enumerate(pairwise(notes)):
        overlap = note.end - following.start
        if following.start > note.start and 0 < overlap < min(MAX_OVERLAP_QUARTERS, (note.end - note.start) / 2):
            trimmed[i] = note._replace(end=following.start)
    return trimmed
