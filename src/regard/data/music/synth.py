"""A small synthesizer for listening to results: decaying partials with attack and release, as 16-bit WAV."""

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
RELEASE = 0.12  # seconds to silence after the end of a note
INHARMONICITY = 4e-4  # sharpness of the partials: strings are not ideal
Samples = NDArray[np.float32]


def render(notes: Sequence[Note]) -> bytes:
    """Notes in seconds -> the bytes of a WAV file, one channel."""
    if not notes:
        raise DataError("there are no notes to play; generate a longer piece")
    peak = np.abs(mixed := mix(notes)).max()
    samples = (mixed / max(peak, 1e-9) * 0.9 * 32767).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())
    return buffer.getvalue()


def mix(notes: Sequence[Note]) -> Samples:
    """Return the sum of the notes as samples at RATE."""
    total = np.zeros(int((max(note.end for note in notes) + RELEASE) * RATE) + 2, dtype=np.float32)
    for note in notes:
        sound = tone(note.pitch, note.end - note.start, velocity=note.velocity)
        start = int(note.start * RATE)
        window = total[start : start + len(sound)]
        window += sound[: len(window)]
    return total


def tone(pitch: int, seconds: float, *, velocity: int = 80) -> Samples:
    """Synthesize one note: higher partials decay faster; a low velocity is softer and has weaker high partials."""
    time = np.arange(int((seconds + RELEASE) * RATE) + 1, dtype=np.float32) / RATE
    base = 440.0 * 2 ** ((pitch - 69) / 12)
    force = velocity / 127
    sound = np.zeros_like(time)
    for partial in range(1, PARTIALS + 1):
        frequency = partial * base * (1 + INHARMONICITY * partial**2) ** 0.5
        if frequency > 0.45 * RATE:
            break  # close to the Nyquist frequency
        decay = (0.7 + 0.35 * partial) * (base / 262.0) ** 0.5
        amplitude = partial ** -(2.2 - force)
        sound += amplitude * np.exp(-decay * time) * np.sin(2 * np.pi * frequency * time)
    attack = np.minimum(time / ATTACK, 1.0)
    release = np.clip((seconds + RELEASE - time) / RELEASE, 0.0, 1.0)
    samples: Samples = (sound * attack * release * force**1.5).astype(np.float32)
    return samples
