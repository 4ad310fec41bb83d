"""What a source token becomes is found from pairs in which it never stands alone."""

import numpy as np
import pytest

from regard.core.errors import DataError
from regard.core.protocols import Sizes
from regard.data import lexical
from regard.data.corpus import PairCorpus, ragged

WORDS = 30
SIZES = Sizes(source=4 + WORDS, target=4 + WORDS + 1, longest=16)
ARTICLE = 4 + WORDS  # a target token that every sentence has and no source token stands for


def pairs(count, *, seed=0):
    """Sentences of distinct words; word w becomes the token -w in another order, and an article comes first."""
    random = np.random.default_rng(seed)
    source = [4 + random.permutation(WORDS)[: random.integers(3, 8)] for _ in range(count)]
    target = [[ARTICLE, *random.permutation([turned(word) for word in row])] for row in source]
    return PairCorpus(ragged([row.tolist() for row in source]), ragged(target))


def turned(word):
    return 4 + WORDS - 1 - (word - 4)


def test_the_likeliest_is_the_translation():
    likely = lexical.learn(pairs(400), SIZES).likely
    for word in range(4, 4 + WORDS):
        assert likely[word, 0] == turned(word)
    assert likely[SIZES.marks.end, 0] == ARTICLE  # what no word stands for belongs to the end mark


def test_the_most_frequent_comes_first():
    corpus = pairs(50)
    frequent = lexical.learn(corpus, SIZES).frequent
    counts = np.bincount(corpus.target.tokens, minlength=SIZES.target)
    assert frequent[0] == ARTICLE and sorted(frequent) == list(range(SIZES.target))
    assert (np.diff(counts[frequent]) <= 0).all()


def test_chances_of_a_source_token_add_up_to_one():
    corpus = pairs(30)
    links = lexical._links(corpus.source, corpus.target, end=SIZES.marks.end)
    sums = np.bincount(links.source, lexical._fit(links), minlength=SIZES.source)
    np.testing.assert_allclose(sums[[SIZES.marks.end, *set(corpus.source.tokens.tolist())]], 1.0)


def test_of_a_large_corpus_some_pairs_are_looked_at(monkeypatch):
    monkeypatch.setattr(lexical, "LINKS", 3000)
    corpus = pairs(400)
    source, target = lexical._sample(corpus)
    assert 10 < source.rows == target.rows < 100
    sides = [corpus.source.lengths() + 1, corpus.target.lengths() + 1]
    every = 1 + int((sides[0] * sides[1]).sum()) // 3000
    for place in range(source.rows):
        assert source.row(place).tolist() == corpus.source.row(place * every).tolist()
        assert target.row(place).tolist() == corpus.target.row(place * every).tolist()
    assert lexical.learn(corpus, SIZES).likely.shape == (SIZES.source, lexical.KEPT)


def test_without_pairs_there_is_nothing_to_learn():
    with pytest.raises(DataError, match="no training pairs to learn a lexicon from"):
        lexical.learn(PairCorpus(ragged([]), ragged([])), SIZES)
