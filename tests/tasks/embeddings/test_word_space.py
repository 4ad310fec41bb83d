import numpy as np
import pytest

from regard.core.errors import DataError
from regard.tasks.embeddings.word_space import Term, WordSpace


def random_space(words, seed=0, dim=16):
    return WordSpace(list(words), np.random.default_rng(seed).normal(size=(len(words), dim)).astype(np.float32))


def test_nearest_words_are_by_cosine_without_the_query_words():
    vectors = np.array([[1, 0], [10, 1], [0, 1], [-1, 0]], dtype=np.float32)
    neighbours = WordSpace(["a", "b", "c", "d"], vectors).nearest([Term("a", 1)], 9)
    assert [neighbour.word for neighbour in neighbours] == ["b", "c", "d"]
    assert neighbours[0].cosine == pytest.approx(10 / np.sqrt(101)) and neighbours[2].cosine == pytest.approx(-1)


def test_sums_add_and_subtract():
    vectors = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 1]], dtype=np.float32)
    space = WordSpace(["king", "man", "woman", "queen"], vectors)
    terms = space.parse_terms("King - man + WOMAN", lowercase=True)
    assert terms == [Term("king", 1), Term("man", -1), Term("woman", 1)]
    assert space.nearest(terms, 1)[0].word == "queen"


@pytest.mark.parametrize("text", ["", "  ", " + "])
def test_an_empty_query_is_refused(text):
    with pytest.raises(DataError, match=r"the input is empty; give a word, or a sum of words: king - man \+ woman"):
        random_space(["king"]).parse_terms(text, lowercase=True)


def test_an_unknown_word_is_refused():
    with pytest.raises(DataError, match="no vector for 'kings' among 2 words; did you mean 'king'"):
        random_space(["king", "queen"]).parse_terms("kings", lowercase=True)
    with pytest.raises(DataError, match="no vector for 'xyzzy' among 2 words; it was too rare in the text"):
        random_space(["king", "queen"]).parse_terms("xyzzy", lowercase=True)
