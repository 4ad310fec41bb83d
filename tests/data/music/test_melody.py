"""Melody extraction returns every note of the melody, alone and among other parts."""

import numpy as np
import pytest

from regard.data.music import dataset
from regard.data.music.grid_encoding import GridEncoding
from regard.data.music.melody import extract_melody, skyline, voices_by_pitch
from regard.data.music.notes import Note


def timed(notes):
    return [(note.start, note.end, note.pitch) for note in notes]


def test_a_single_line_keeps_its_repeated_notes():
    line = [Note(i, i + 1, pitch) for i, pitch in enumerate((60, 62, 62, 62, 40, 90, 60))]
    assert timed(extract_melody(line)) == timed(line)


def test_legato_notes_keep_their_starts():
    line = [Note(0, 1.1, 64), Note(1, 2.1, 60), Note(2, 3, 67)]
    assert timed(extract_melody(line)) == [(0, 1, 64), (1, 2, 60), (2, 3, 67)]


def test_without_four_parts_the_melody_is_the_highest_note():
    notes = [Note(0, 4, 60, voice=0), Note(1, 2, 72, voice=1), Note(0, 4, 48, voice=2)]
    assert timed(extract_melody(notes)) == [(0, 1, 60), (1, 2, 72), (2, 4, 60)]


def test_the_highest_of_four_parts_is_the_melody_even_if_another_crosses_it():
    parts = [Note(0, 4, 40 + 10 * part, voice=part) for part in range(4)]
    assert timed(extract_melody([*parts, Note(4, 5, 72, voice=3), Note(4, 5, 80, voice=2)])) == [(0, 4, 70), (4, 5, 72)]
    assert voices_by_pitch(parts) == [3, 2, 1, 0]
    assert skyline([]) == []
    assert voices_by_pitch(parts, ("Soprano", "Alto", "Tenor ", "BASS")) == [0, 1, 2, 3]
    assert voices_by_pitch(parts, ("Soprano", "Alto", "Alto", "Bass")) == [3, 2, 1, 0]


def test_the_sopranos_of_the_chorales_are_extracted():
    """From one line, and from four parts with the bass first."""
    grid = GridEncoding()
    for name, voices in sorted(dataset.chorales().items())[::4]:
        notes = grid.notes(voices)
        soprano = timed(note for note in notes if note.voice == 0)
        quarters = [note._replace(start=note.start * 1.5, end=note.end * 1.5) for note in notes]
        line = [note for note in quarters if note.voice == 0]
        assert [pitch for _, _, pitch in timed(extract_melody(line))] == [pitch for _, _, pitch in soprano], name
        end = round(line[-1].end * 4)
        assert grid.melody_line(extract_melody(line)).tolist() == voices[:end, 0].tolist(), name
        if len(voices_by_pitch(quarters)) == 4:
            reversed_parts = [note._replace(voice=3 - note.voice) for note in quarters]
            assert timed(extract_melody(reversed_parts)) == timed(line), name
            steps = grid.to_grid(reversed_parts)[0].tolist()
            assert steps == np.asarray(voices).tolist()[: len(steps)], name


@pytest.mark.parametrize("start", [0.0, 0.3])
def test_the_order_of_equal_parts_is_that_of_the_file(start):
    assert voices_by_pitch([Note(start, 1, 60, voice=1), Note(0, 1, 60, voice=0)]) == [0, 1]
