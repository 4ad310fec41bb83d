"""Statistics that compare generated music with the data: pitches, intervals, voice leading, repetition."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.data.music import self_similarity
from regard.data.music.grid_encoding import SILENT, Voices
from regard.data.music.notes import Note

Histogram = NDArray[np.float64]
MAX_INTERVAL = 12  # semitones: larger leaps are counted as this
BAR_STEPS = 16  # time steps


def pitch_histogram(pieces: Sequence[Sequence[Note]]) -> Histogram:
    """Pieces -> (128) the fraction of sounding time of each pitch."""
    durations = np.zeros(128)
    for piece in pieces:
        for note in piece:
            durations[note.pitch] += note.end - note.start
    return _normalize(durations)


def interval_histogram(pieces: Sequence[Sequence[Note]]) -> Histogram:
    """Pieces -> (2·12+1) the fraction of each melodic interval between successive notes of a voice, -12 … 12."""
    counts = np.zeros(2 * MAX_INTERVAL + 1)
    for piece in pieces:
        for voice in {note.voice for note in piece}:
            line = [note.pitch for note in sorted(piece) if note.voice == voice]
            leaps = np.clip(np.diff(line), -MAX_INTERVAL, MAX_INTERVAL) + MAX_INTERVAL
            counts += np.bincount(leaps, minlength=len(counts))
    return _normalize(counts)


def total_variation(first: Histogram, second: Histogram) -> float:
    """Return the total variation distance of two histograms: 0 if they are equal, 1 if they are disjoint."""
    return float(np.abs(first - second).sum() / 2)


def crossing(grid: Voices) -> float:
    """Return the fraction of sounding pairs of adjacent voices in which the lower voice is above the upper one."""
    upper, lower = grid[:, :-1], grid[:, 1:]
    both_sound = (upper != SILENT) & (lower != SILENT)
    return _ratio((both_sound & (upper < lower)).sum(), both_sound.sum())


def parallels(grid: Voices, interval: int) -> float:
    """Return the fraction of moves of two voices that go from a fifth (7) or octave (0) to the same interval."""
    parallel = moves = 0
    for high in range(grid.shape[1]):
        for low in range(high + 1, grid.shape[1]):
            pair = grid[:, [high, low]].astype(np.int64)
            pair = pair[(pair != SILENT).all(axis=1)]
            step = np.diff(pair, axis=0)
            moved = (step != 0).all(axis=1)
            at_interval = (pair[:, 0] - pair[:, 1]) % 12 == interval
            moves += int(moved.sum())
            parallel += int((moved & at_interval[:-1] & at_interval[1:]).sum())
    return _ratio(parallel, moves)


def cadence(grid: Voices) -> float:
    """Return 1 if the last chord is a triad with its root in the bass, possibly without its fifth; else 0."""
    last = grid[(grid != SILENT).any(axis=1)][-1:] if len(grid) else grid
    sounding = [int(pitch) for pitch in last.flatten() if pitch != SILENT]
    if not sounding or last[0, -1] == SILENT:
        return 0.0
    intervals = {(pitch - int(last[0, -1])) % 12 for pitch in sounding}
    return float(intervals in ({0, 4}, {0, 3}, {0, 4, 7}, {0, 3, 7}, {0, 7}))


def repetition(grid: Voices) -> float:
    """Return the fraction of bars that equal an earlier bar of the piece."""
    bars = [grid[i : i + BAR_STEPS].tobytes() for i in range(0, len(grid) - BAR_STEPS + 1, BAR_STEPS)]
    return _ratio(len(bars) - len(set(bars)), len(bars))


def held_note_rate(grid: Voices) -> float:
    """Return the fraction of tokens that repeat the previous token of their voice."""
    return _ratio((grid[1:] == grid[:-1]).sum(), grid[1:].size)


def describe(grids: Sequence[Voices]) -> dict[str, float]:
    """Chorales -> the mean of each statistic over the pieces."""
    measures: dict[str, Callable[[Voices], float]] = {
        "voice_crossing": crossing,
        "parallel_fifths": lambda grid: parallels(grid, 7),
        "parallel_octaves": lambda grid: parallels(grid, 0),
        "repeated_bars": repetition,
        "best_earlier_bar": lambda grid: self_similarity.best_earlier(self_similarity.grid_bars(grid)),
        "final_triad": cadence,
        "held": held_note_rate,
        "rests": lambda grid: _ratio((grid == SILENT).sum(), grid.size),
    }
    return {name: float(np.mean([measure(grid) for grid in grids])) for name, measure in measures.items()}


def texture(pieces: Sequence[Sequence[Note]]) -> dict[str, float]:
    """Performances -> notes per second, means of length and velocity of a note, similarity to earlier windows."""
    notes = [note for piece in pieces for note in piece]
    similarity = [self_similarity.best_earlier(self_similarity.performance_bars(piece)) for piece in pieces]
    seconds = sum(max((note.end for note in piece), default=0.0) for piece in pieces)
    return {
        "notes_per_second": _ratio(len(notes), seconds),
        "note_seconds": float(np.mean([note.end - note.start for note in notes])) if notes else 0.0,
        "velocity": float(np.mean([note.velocity for note in notes])) if notes else 0.0,
        "best_earlier_window": float(np.mean(similarity)) if similarity else 0.0,
    }


def _normalize(counts: Histogram) -> Histogram:
    return counts / max(float(counts.sum()), 1e-12)


def _ratio(part: float, total: float) -> float:
    return float(part) / float(total) if total else 0.0
