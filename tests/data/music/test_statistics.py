"""Statistics of music with known properties."""

import numpy as np
import pytest

from regard.data.music import statistics
from regard.data.music.notes import Note


def test_histograms_are_normalized():
    piece = [Note(0, 3, 60), Note(3, 4, 64), Note(4, 5, 62), Note(0, 5, 40, voice=1)]
    pitches = statistics.pitch_histogram([piece])
    assert pitches.sum() == pytest.approx(1)
    assert pitches[60] == pytest.approx(0.3)
    intervals = statistics.interval_histogram([piece])
    assert intervals[12 + 4] == intervals[12 - 2] == 0.5
    assert statistics.total_variation(pitches, pitches) == 0
    assert statistics.total_variation(pitches, statistics.pitch_histogram([[Note(0, 1, 99)]])) == pytest.approx(1)


def test_voice_crossing():
    straight, crossed = [72, 65, 57, 48], [60, 65, 57, 48]
    assert statistics.crossing(np.array([straight] * 4, dtype=np.int16)) == 0
    assert statistics.crossing(np.array([straight, crossed], dtype=np.int16)) == pytest.approx(1 / 6)
    assert statistics.crossing(np.array([[-1, 65, -1, 70]], dtype=np.int16)) == 0  # silent voices do not cross


def test_parallel_fifths_and_octaves():
    fifths = np.array([[67, -1, -1, 60], [69, -1, -1, 62], [69, -1, -1, 62], [65, -1, -1, 62]], dtype=np.int16)
    assert statistics.parallels(fifths, 7) == 1
    assert statistics.parallels(fifths, 0) == 0
    octaves = fifths.copy()
    octaves[:, 0] = octaves[:, 3] + 12
    assert statistics.parallels(octaves, 0) == 1
    contrary = np.array([[67, -1, -1, 60], [65, -1, -1, 62]], dtype=np.int16)
    assert statistics.parallels(contrary, 7) == 0


def test_repeated_bars_and_held_notes():
    bar = np.arange(64, dtype=np.int16).reshape(16, 4)
    assert statistics.repetition(np.concatenate([bar, bar, bar + 1])) == pytest.approx(1 / 3)
    assert statistics.repetition(bar[:5]) == 0
    assert statistics.held_note_rate(np.array([[60] * 4] * 3, dtype=np.int16)) == 1


def test_every_piece_has_the_same_weight():
    quiet, loud = np.full((20, 4), -1, dtype=np.int16), np.full((2, 4), 60, dtype=np.int16)
    assert statistics.describe([quiet, loud])["rests"] == 0.5
    texture = statistics.texture([[Note(0, 2, 60, 100), Note(2, 4, 60, 50)]])
    assert texture == {"notes_per_second": 0.5, "note_seconds": 2.0, "velocity": 75.0, "best_earlier_window": 1.0}
    assert set(statistics.texture([[]]).values()) == {0.0}


def test_a_piece_ends_on_a_triad_or_not():
    for chord, ends in (
        ([72, 67, 64, 48], 1.0),
        ([72, 67, 63, 48], 1.0),
        ([72, 67, 60, 52], 0.0),
        ([72, 67, 64, -1], 0.0),
    ):
        assert statistics.cadence(np.array([[60, 60, 60, 60], chord, [-1] * 4], dtype=np.int16)) == ends
    assert statistics.cadence(np.zeros((0, 4), dtype=np.int16)) == 0.0
