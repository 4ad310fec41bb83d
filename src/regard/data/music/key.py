"""Key detection from pitch classes: Krumhansl and Schmuckler's correlation with the profiles of major and minor."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from regard.data.music.notes import Note

TONICS = ("C", "C#", "D", "Eb", "E", "F", "F#", "G", "Ab", "A", "Bb", "B")
MODES = ("major", "minor")
# goodness-of-fit ratings of the scale degrees (Krumhansl and Kessler 1982)
MAJOR = (6.35, 2.23, 3.48, 2.33, 4.38, 4.09, 2.52, 5.19, 2.39, 3.66, 2.29, 2.88)
MINOR = (6.33, 2.68, 3.52, 5.38, 2.60, 3.53, 2.54, 4.75, 3.98, 2.69, 3.34, 3.17)


def pitch_name(pitch: int) -> str:
    """A MIDI pitch -> 'C4' for middle C."""
    return f"{TONICS[pitch % 12]}{pitch // 12 - 1}"


def find_key(notes: Iterable[Note]) -> str:
    """Notes -> 'G minor': the key whose profile correlates best with the durations of the pitch classes."""
    durations = np.zeros(12)
    for note in notes:
        durations[note.pitch % 12] += note.end - note.start
    profiles = np.array([np.roll(profile, tonic) for profile in (MAJOR, MINOR) for tonic in range(12)])
    correlations = (profiles - profiles.mean(axis=1, keepdims=True)) @ (durations - durations.mean())
    best = int(np.argmax(correlations / profiles.std(axis=1)))
    return f"{TONICS[best % 12]} {MODES[best // 12]}"


def shift_key(key: str, semitones: int) -> str:
    """'G minor' two semitones up -> 'A minor'."""
    tonic, _, mode = key.partition(" ")
    return f"{TONICS[(TONICS.index(tonic) + semitones) % 12]} {mode}"


def mode_of(key: str) -> str:
    """'G minor' -> 'minor'."""
    return key.partition(" ")[2]
