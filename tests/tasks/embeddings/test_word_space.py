import numpy as np
import pytest

from regard.core.errors import DataError
from regard.data.builtin import word_lists
from regard.tasks.embeddings import word_space
from regard.tasks.embeddings.word_space import Term, WordSpace, analogy, similarity


def space(words, seed=0, dim=16):
    return WordSpace(list(words), np.random.default_rng(seed).normal(size=(len(words), dim)).astype(np.float32))


def test_nearest_words_are_by_cosine_and_never_those_asked_for():
    vectors = np.array([[1, 0], [10, 1], [0, 1], [-1, 0]], dtype=np.float32)
    found = WordSpace(["a", "b", "c", "d"], vectors).nearest([Term("a", 1)], 9)
    assert [near.word for near in found] == ["b", "c", "d"]
    assert found[0].cosine == pytest.approx(10 / np.sqrt(101)) and found[2].cosine == pytest.approx(-1)


def test_sums_add_and_take_away():
    vectors = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 1]], dtype=np.float32)
    made = WordSpace(["king", "man", "woman", "queen"], vectors)
    terms = made.parse_terms("King - man + WOMAN", lowercase=True)
    assert terms == [Term("king", 1), Term("man", -1), Term("woman", 1)]
    assert made.nearest(terms, 1)[0].word == "queen"


@pytest.mark.parametrize("text", ["", "  ", " + "])
def test_nothing_to_look_for_is_one_clear_line(text):
    with pytest.raises(DataError, match=r"give a word, or a sum of words: king - man \+ woman"):
        space(["king"]).parse_terms(text, lowercase=True)


def test_an_unknown_word_is_one_clear_line():
    with pytest.raises(DataError, match="no vector for 'kings' among 2 words; did you mean 'king'"):
        space(["king", "queen"]).parse_terms("kings", lowercase=True)
    with pytest.raises(DataError, match="no vector for 'xyzzy' among 2 words; it was too rare in the text"):
        space(["king", "queen"]).parse_terms("xyzzy", lowercase=True)


def test_vectors_that_agree_with_the_list_score_one(monkeypatch):
    angles = {"a": 0.0, "b": 0.1, "c": 0.3, "d": 0.7, "e": 1.2, "f": 1.5, "g": 2.0}
    made = WordSpace(list(angles), np.array([[np.cos(x), np.sin(x)] for x in angles.values()], dtype=np.float32))
    pairs = [("a", word, 10 - angle) for word, angle in list(angles.items())[1:]]
    monkeypatch.setattr(word_lists, "similarities", lambda: [*pairs, ("a", "unknown", 1.0)])
    assert similarity(made) == pytest.approx({"similarity": 1.0, "similarity_covered": 6 / 7})
    monkeypatch.setattr(word_lists, "similarities", lambda: [(a, b, -x) for a, b, x in pairs])
    assert similarity(made)["similarity"] == pytest.approx(-1)


def test_analogies_are_found_where_vectors_are_made_of_parts(monkeypatch):
    random = np.random.default_rng(0)
    kinds, stems = random.normal(size=(2, 32)), random.normal(size=(6, 32))
    words = [f"{stem}{kind}" for stem in range(6) for kind in range(2)]
    vectors = np.array([stems[int(word[0])] + kinds[int(word[1])] for word in words], dtype=np.float32)
    questions = [("00", "01", f"{i}0", f"{i}1") for i in range(1, 6)]
    monkeypatch.setattr(word_lists, "analogies", lambda: {"x": [*questions, ("00", "01", "no", "such")]})
    assert analogy(WordSpace(words, vectors)) == pytest.approx({"analogy": 1.0, "analogy_covered": 5 / 6})
    assert analogy(WordSpace(words, random.normal(size=(12, 32)).astype(np.float32)))["analogy"] < 1


def test_lists_that_are_not_covered_have_no_score():
    made = space(["king", "queen"])
    assert set(similarity(made)) == {"similarity_covered"} and set(analogy(made)) == {"analogy_covered"}


def test_rare_words_are_asked_about_but_not_found_among_the_frequent(monkeypatch):
    monkeypatch.setattr(word_space, "FREQUENT", 4)
    made = space([word for pair in word_lists.similarities() for word in pair[:2]][:40])
    questions = [(a, b, c, d) for a, b, c, d in zip(*(made.words[i : i + 6] for i in (0, 6, 12, 18)), strict=True)]
    monkeypatch.setattr(word_lists, "analogies", lambda: {"x": questions})
    assert analogy(made)["analogy"] == 0
