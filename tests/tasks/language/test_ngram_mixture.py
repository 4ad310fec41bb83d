"""Mixture of a network with an n-gram model: limits, weights, and halves that do not see each other."""

import numpy as np
import pytest

from regard.tasks.language import ngram_mixture

RANDOM = np.random.default_rng(0)
FIRST, SECOND = -np.log(RANDOM.uniform(0.01, 1, size=(2, 400)))


def test_the_mixture_is_the_weighted_mean_of_probabilities():
    expected = -np.log(0.7 * np.exp(-FIRST) + 0.3 * np.exp(-SECOND))
    np.testing.assert_allclose(ngram_mixture.mix(FIRST, SECOND, 0.3), expected)
    np.testing.assert_allclose(ngram_mixture.mix(FIRST, SECOND, 0.0), FIRST)


def test_the_best_weight_is_not_worse_than_the_network_alone():
    assert ngram_mixture.mix(FIRST, SECOND, ngram_mixture.best_weight(FIRST, SECOND)).mean() <= FIRST.mean()
    assert ngram_mixture.best_weight(FIRST, FIRST + 1) == 0


def test_each_half_has_the_weight_of_the_other():
    ngrams = np.concatenate([FIRST[:200] + 5, FIRST[200:] - 5])  # bad on the first half, good on the second
    nats, weight = ngram_mixture.cross_fitted(FIRST, ngrams)
    np.testing.assert_allclose(nats[200:], FIRST[200:])
    np.testing.assert_allclose(nats[:200], ngram_mixture.mix(FIRST[:200], ngrams[:200], max(ngram_mixture.WEIGHTS)))
    assert weight == pytest.approx(max(ngram_mixture.WEIGHTS) / 2)
