"""Excerpts are described by numbers that tell composers apart; what samples are taken for is a table."""

import numpy as np
import pytest
import results_page

from regard.data.music.notes import Note

composer_similarity = pytest.importorskip("composer_similarity", reason="needs scikit-learn")


def line(pitches: list[int], *, wait: float, velocity: int) -> list[Note]:
    return [Note(index * wait, index * wait + wait, pitch, velocity) for index, pitch in enumerate(pitches)]


def test_a_piece_is_cut_into_excerpts_and_those_with_few_notes_are_left_out():
    notes = line([60, 62, 64, 65] * 20, wait=0.5, velocity=60)  # 40 seconds
    assert len(composer_similarity.excerpts(notes, 15)) == 3  # the last one has 20 notes
    assert len(composer_similarity.excerpts(notes[:70], 15)) == 2


def test_what_is_described_does_not_depend_on_key_or_length():
    calm = composer_similarity.describe(line([60, 62, 64, 65] * 8, wait=0.5, velocity=60))
    assert np.isfinite(calm).all()
    longer = composer_similarity.describe(line([60, 62, 64, 65] * 32, wait=0.5, velocity=60))
    assert np.abs(calm - longer).max() < 0.1
    wild = composer_similarity.describe(line([40, 80, 45, 90] * 8, wait=0.1, velocity=110))
    assert np.abs(calm - wild).max() > 5


def test_the_table_has_a_row_for_each_that_was_told():
    assigned = {"Bach": {"Bach": 0.75, "Chopin": 0.25}, "none": {"Bach": 0.5, "Chopin": 0.5}}
    text = results_page.likeness({"accuracy": 0.8, "excerpts": 40, "seconds": 20.0, "each": 8, "taken": assigned})
    assert "80% of 40 real excerpts" in text and "| Bach | 75% | 25% |" in text
