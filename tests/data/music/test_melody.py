"""The tune of a file: every note of a line comes back, whatever it is beside."""

import numpy as np
import pytest

from regard.data.music import dataset
from regard.data.music.grid_encoding import GridEncoding
from regard.data.music.melody import extract_melody, skyline, voices_by_pitch
from regard.data.music.notes import Note


def timed(notes):
    return [(note.start, note.end, note.pitch) for note in notes]


def test_a_line_alone_comes_back_with_its_repeats():
    line = [Note(i, i + 1, pitch) for i, pitch in enumerate((60, 62, 62, 62, 40, 90, 60))]
    assert timed(extract_melody(line)) == timed(line)


def test_notes_that_are_played_without_a_gap_keep_their_beginning():
    line = [Note(0, 1.1, 64), Note(1, 2.1, 60), Note(2, 3, 67)]
    assert timed(extract_melody(line)) == [(0, 1, 64), (1, 2, 60), (2, 3, 67)]


def test_of_fewer_or_more_than_four_parts_the_highest_note_is_the_tune():
    over = [Note(0, 4, 60, voice=0), Note(1, 2, 72, voice=1), Note(0, 4, 48, voice=2)]
    assert timed(extract_melody(over)) == [(0, 1, 60), (1, 2, 72), (2, 4, 60)]


def test_of_four_parts_the_highest_is_the_tune_though_another_crosses_it():
    parts = [Note(0, 4, 40 + 10 * part, voice=part) for part in range(4)]
    assert timed(extract_melody([*parts, Note(4, 5, 72, voice=3), Note(4, 5, 80, voice=2)])) == [(0, 4, 70), (4, 5, 72)]
    assert voices_by_pitch(parts) == [3, 2, 1, 0]
    assert skyline([]) == []
    assert voices_by_pitch(parts, ("Soprano", "Alto", "Tenor ", "BASS")) == [0, 1, 2, 3]
    assert voices_by_pitch(parts, ("Soprano", "Alto", "Alto", "Bass")) == [3, 2, 1, 0]


def test_the_sopranos_of_all_chorales_come_back():
    """As one line, and among their four parts with the bass first."""
    grid = GridEncoding()
    for name, voices in dataset.chorales().items():
        notes = grid.notes(voices)
        own = timed(note for note in notes if note.voice == 0)
        quarters = [note._replace(start=note.start * 1.5, end=note.end * 1.5) for note in notes]
        line = [note for note in quarters if note.voice == 0]
        assert [pitch for _, _, pitch in timed(extract_melody(line))] == [pitch for _, _, pitch in own], name
        ends = round(line[-1].end * 4)
        assert grid.melody_line(extract_melody(line)).tolist() == voices[:ends, 0].tolist(), name
        if len(voices_by_pitch(quarters)) == 4:
            turned = [note._replace(voice=3 - note.voice) for note in quarters]
            assert timed(extract_melody(turned)) == timed(line), name
            assert grid.to_grid(turned)[0].tolist() == np.asarray(voices).tolist()[: len(grid.to_grid(turned)[0])], name


@pytest.mark.parametrize("start", [0.0, 0.3])
def test_the_order_of_equal_parts_is_that_of_the_file(start):
    assert voices_by_pitch([Note(start, 1, 60, voice=1), Note(0, 1, 60, voice=0)]) == [0, 1]
