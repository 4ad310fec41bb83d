"""Minimum Bayes risk: the consensus of the samples wins, whatever its probability."""

import pytest

from regard.core.errors import ConfigError
from regard.core.protocols import Hypothesis
from regard.decoding.strategies import mbr


def hypotheses(*rows):
    return [Hypothesis(tuple(row), score=-float(i), rank_score=-float(i)) for i, row in enumerate(rows)]


def test_the_sample_that_is_similar_to_most_others_is_first():
    outlier, *similar = hypotheses([9, 9, 9, 9], [1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 4, 5])
    ranked = mbr.rank_by_utility([outlier, *similar])
    assert ranked[-1].tokens == outlier.tokens and ranked[-1].rank_score == 0
    assert ranked[0].tokens == (1, 2, 3, 4) and ranked[0].score == -1
    assert [hypothesis.rank_score for hypothesis in ranked] == sorted((h.rank_score for h in ranked), reverse=True)


def test_equal_samples_support_each_other_and_are_returned_once():
    ranked = mbr.rank_by_utility(hypotheses([1, 2], [3, 4, 5], [3, 4, 5]))
    assert [hypothesis.tokens for hypothesis in ranked] == [(3, 4, 5), (1, 2)]


def test_the_utility_is_symmetric_and_between_0_and_1():
    counts = [mbr._ngram_counts(row) for row in ([1, 2, 3], [1, 2], [])]
    for a in counts:
        assert mbr.similarity(a, a) == 1
        for b in counts:
            assert mbr.similarity(a, b) == mbr.similarity(b, a) and 0 <= mbr.similarity(a, b) <= 1


def test_more_outputs_than_samples_are_refused():
    with pytest.raises(ConfigError, match="nbest=3 must be at most num_samples=2"):
        mbr.Config(num_samples=2, nbest=3)
