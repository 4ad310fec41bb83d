"""A small synthesiser, good enough to judge by ear: decaying partials, struck and damped, as 16-bit WAV."""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.data.music.notes import Note

RATE = 22050
PARTIALS = 8
ATTACK = 0.004  # seconds to full loudness
RELEASE = 0.12  # seconds to silence after the key is let go
INHARMONICITY = 4e-4  # how far partials are sharp: strings are not ideal
Samples = NDArray[np.float32]


def render(notes: Sequence[Note]) -> bytes:
    """Notes in seconds -> the bytes of a WAV file, one channel."""
    if not notes:
        raise DataError("there are no notes to play; let the piece be longer")
    loudest = np.abs(mixed := mix(notes)).max()
    samples = (mixed / max(loudest, 1e-9) * 0.9 * 32767).astype("<i2")
    packed = io.BytesIO()
    with wave.open(packed, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())
    return packed.getvalue()


def mix(notes: Sequence[Note]) -> Samples:
    """Notes -> their sum, as samples at RATE."""
    total = np.zeros(int((max(note.end for note in notes) + RELEASE) * RATE) + 2, dtype=np.float32)
    for note in notes:
        sound = tone(note.pitch, note.end - note.start, velocity=note.velocity)
        start = int(note.start * RATE)
        room = total[start : start + len(sound)]
        room += sound[: len(room)]
    return total


def tone(pitch: int, seconds: float, *, velocity: int = 80) -> Samples:
    """One note: partials that fade the sooner the higher they are, softer and duller when struck softly."""
    time = np.arange(int((seconds + RELEASE) * RATE) + 1, dtype=np.float32) / RATE
    base = 440.0 * 2 ** ((pitch - 69) / 12)
    force = velocity / 127
    sound = np.zeros_like(time)
    for number in range(1, PARTIALS + 1):
        frequency = number * base * (1 + INHARMONICITY * number**2) ** 0.5
        if frequency > 0.45 * RATE:
            break  # what a sampled sound cannot hold
        fade = (0.7 + 0.35 * number) * (base / 262.0) ** 0.5
        strength = number ** -(2.2 - force)
        sound += strength * np.exp(-fade * time) * np.sin(2 * np.pi * frequency * time)
    rise = np.minimum(time / ATTACK, 1.0)
    fall = np.clip((seconds + RELEASE - time) / RELEASE, 0.0, 1.0)
    shaped: Samples = (sound * rise * fall * force**1.5).astype(np.float32)
    return shaped
