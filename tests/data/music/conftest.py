"""Small pieces, as notes and as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from regard.data.music import midi
from regard.data.music.notes import Note

SCALE = [Note(i * 0.5, i * 0.5 + 0.5, 60 + i, 70 + i) for i in range(8)]


@pytest.fixture
def scale() -> list[Note]:
    """Return eight ascending notes of half a second each."""
    return list(SCALE)


@pytest.fixture
def write(tmp_path: Path):
    """Return a function that writes notes in seconds to a MIDI file."""

    def write_midi(notes: Sequence[Note], name: str = "piece.mid", **timing: Any) -> Path:
        path = tmp_path / name
        path.write_bytes(midi.render(notes, **timing))
        return path

    return write_midi
