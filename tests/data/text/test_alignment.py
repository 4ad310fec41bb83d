import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.builtin import english_korean
from regard.data.text import alignment
from regard.data.text import tokenizer as tokenizers


@pytest.mark.parametrize("level", ["bpe", "char", "word"])
def test_tokens_have_the_index_of_their_word(level):
    text = "the  doghouse, is red."
    tokenizer = tokenizers.train([text, "dog house"], level=level, size=40)
    pieces = tokenizer.encode_with_offsets(text)
    words = text.split()
    for index, piece in zip(alignment.word_indices(text, pieces), pieces, strict=True):
        if piece.text.strip():
            assert piece.text in words[index]


def test_weights_are_summed_over_the_tokens_of_a_word():
    weights = np.array([[0.4, 0.3, 0.3], [0.1, 0.2, 0.7]])
    assert alignment.align_words(weights, source=[0, 1, 1], target=[0, 1]) == {(1, 0), (1, 1)}
    assert alignment.align_words(weights, source=[0, 1, 2], target=[0, 1]) == {(0, 0), (2, 1)}
    assert alignment.align_words(weights, source=[0, 1, 2], target=[0, 0]) == {(2, 0)}


def test_eos_is_ignored():
    weights = np.array([[0.2, 0.1, 0.7], [0.0, 0.0, 1.0]])
    assert alignment.align_words(weights, source=[0, 1], target=[0]) == {(0, 0)}


def test_without_words_there_are_no_links():
    assert alignment.align_words(np.zeros((1, 1)), source=[], target=[]) == frozenset()


links = st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 3)))


@given(st.lists(st.tuples(links, links)))
def test_the_error_rate_is_between_0_and_1(pairs):
    assert 0 <= alignment.error_rate([a for a, _ in pairs], [b for _, b in pairs]) <= 1


def test_one_true_word_for_each_target_word_is_no_error():
    for example in english_korean.generate("test", 50, seed=1):
        best = frozenset({target: (source, target) for source, target in example.alignment}.values())
        assert alignment.error_rate([best], [frozenset(example.alignment)]) == 0


def test_wrong_links_are_errors():
    assert alignment.error_rate([frozenset({(0, 0), (1, 1)})], [frozenset({(1, 0), (0, 1)})]) == 1
    assert alignment.error_rate([frozenset({(0, 0), (0, 1)})], [frozenset({(0, 0), (1, 1)})]) == 0.5
