"""The translation memory returns the target of the nearest source; word by word follows co-occurrence."""

from __future__ import annotations

from regard.tasks.translation.baselines import memory, word_by_word

TRAIN = [("the red house", "das rote haus"), ("a blue car", "ein blaues auto"), ("the red car", "das rote auto")]


def test_the_memory_returns_the_nearest_target():
    assert memory(TRAIN, ["a blue car !", "red house"]) == ["ein blaues auto", "das rote haus"]


def test_words_are_translated_one_by_one_and_unknown_words_stay():
    assert word_by_word(TRAIN, ["house car zebra"]) == ["haus auto zebra"]
