"""The translation memory: ranking, exclusion of a text itself, storage."""

import sys

import pytest

from regard.core.errors import CheckpointError, MissingExtra
from regard.data.text import translation_memory
from regard.data.text.translation_memory import TranslationMemory

PAIRS = [
    ("the cat sleeps", "Die Katze schläft"),
    ("the dog sleeps in the garden", "Der Hund schläft im Garten"),
    ("the cat sleeps", "Die Katze schläft."),
    ("a train to Paris", "Ein Zug nach Paris"),
]


def test_the_most_similar_source_is_first():
    memory = TranslationMemory(PAIRS)
    assert memory.targets(["a train to Rome", "the dog sleeps"], count=2)[0][0] == "Ein Zug nach Paris"
    assert memory.nearest(["the dog sleeps"])[0] == [1]


def test_a_text_is_not_its_own_neighbor_in_training():
    memory = TranslationMemory(PAIRS)
    assert memory.nearest(["the cat sleeps"], count=2) == [[0, 2]]
    assert memory.nearest(["the cat sleeps"], count=2, exclude_same=True) == [[1, 3]]
    assert memory.nearest(["the cat sleeps"], count=9, exclude_same=True)[0][:1] == [1]


def test_similarities_are_cosines():
    ((same, other),) = TranslationMemory(PAIRS[1:]).matches(["the cat sleeps"], count=2)
    assert same[:2] == PAIRS[2] and same.similarity == pytest.approx(1, abs=1e-5)
    assert other[:2] == PAIRS[1] and 0 < other.similarity < 0.9


def test_a_memory_is_bounded_and_reports_a_missing_package_early(monkeypatch):
    monkeypatch.setattr(translation_memory, "MAX_PAIRS", 2)
    memory = TranslationMemory(PAIRS)
    assert memory.pairs == PAIRS[::2]
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    with pytest.raises(MissingExtra):
        memory.prepare()


def test_it_is_stored_with_a_run(tmp_path):
    TranslationMemory(PAIRS).save(tmp_path)
    assert translation_memory.load(tmp_path).pairs == PAIRS


def test_a_damaged_file(tmp_path):
    (tmp_path / "memory.json").write_text("[[1]]")
    with pytest.raises(CheckpointError, match=r"memory\.json: the translation memory cannot be read"):
        translation_memory.load(tmp_path)
