import numpy as np
import pytest

from regard.data.builtin import word_lists
from regard.tasks.embeddings import metrics
from regard.tasks.embeddings.metrics import analogy, similarity
from regard.tasks.embeddings.word_space import WordSpace


def random_space(words, seed=0, dim=16):
    return WordSpace(list(words), np.random.default_rng(seed).normal(size=(len(words), dim)).astype(np.float32))


def test_vectors_that_agree_with_the_list_score_one(monkeypatch):
    angles = {"a": 0.0, "b": 0.1, "c": 0.3, "d": 0.7, "e": 1.2, "f": 1.5, "g": 2.0}
    space = WordSpace(list(angles), np.array([[np.cos(x), np.sin(x)] for x in angles.values()], dtype=np.float32))
    pairs = [("a", word, 10 - angle) for word, angle in list(angles.items())[1:]]
    monkeypatch.setattr(word_lists, "similarities", lambda: [*pairs, ("a", "unknown", 1.0)])
    assert similarity(space) == pytest.approx({"similarity": 1.0, "similarity_covered": 6 / 7})
    monkeypatch.setattr(word_lists, "similarities", lambda: [(a, b, -x) for a, b, x in pairs])
    assert similarity(space)["similarity"] == pytest.approx(-1)


def test_analogies_are_solved_if_vectors_are_sums_of_parts(monkeypatch):
    random = np.random.default_rng(0)
    kinds, stems = random.normal(size=(2, 32)), random.normal(size=(6, 32))
    words = [f"{stem}{kind}" for stem in range(6) for kind in range(2)]
    vectors = np.array([stems[int(word[0])] + kinds[int(word[1])] for word in words], dtype=np.float32)
    questions = [("00", "01", f"{i}0", f"{i}1") for i in range(1, 6)]
    monkeypatch.setattr(word_lists, "analogies", lambda: {"x": [*questions, ("00", "01", "no", "such")]})
    assert analogy(WordSpace(words, vectors)) == pytest.approx({"analogy": 1.0, "analogy_covered": 5 / 6})
    assert analogy(WordSpace(words, random.normal(size=(12, 32)).astype(np.float32)))["analogy"] < 1


def test_lists_of_unknown_words_have_no_score():
    space = random_space(["king", "queen"])
    assert set(similarity(space)) == {"similarity_covered"} and set(analogy(space)) == {"analogy_covered"}


def test_rare_words_are_not_candidates_for_the_answer(monkeypatch):
    monkeypatch.setattr(metrics, "MAX_ANALOGY_WORDS", 4)
    space = random_space([word for pair in word_lists.similarities() for word in pair[:2]][:40])
    questions = [(a, b, c, d) for a, b, c, d in zip(*(space.words[i : i + 6] for i in (0, 6, 12, 18)), strict=True)]
    monkeypatch.setattr(word_lists, "analogies", lambda: {"x": questions})
    assert analogy(space)["analogy"] == 0
