"""Mixture of a language model with a Kneser-Ney model of its training text: an n-gram memory next to the network.

p(w | h) = (1 - λ) · p_network(w | h) + λ · p_n-gram(w | h)

Both err on different tokens. Counts are exact where a long n-gram was seen before, the network where none was.
"""

from __future__ import annotations

import numpy as np

from regard.tasks.language.kneser_ney import Floats

WEIGHTS = tuple(n / 20 for n in range(20))  # values of λ


def mix(network: Floats, ngrams: Floats, weight: float) -> Floats:
    """-log p of each token by both models -> that of their mixture."""
    nats: Floats = -np.logaddexp(np.log1p(-weight) - network, np.log(max(weight, 1e-300)) - ngrams)
    return nats


def best_weight(network: Floats, ngrams: Floats) -> float:
    """Return the weight of the n-gram model with the lowest mean."""
    return min(WEIGHTS, key=lambda weight: float(mix(network, ngrams, weight).mean()))


def cross_fitted(network: Floats, ngrams: Floats) -> tuple[Floats, float]:
    """Return -log p of each token by the mixture, and the mean weight; each half has the best weight of the other."""
    middle = len(network) // 2
    halves = slice(0, middle), slice(middle, None)
    weights = [best_weight(network[half], ngrams[half]) for half in reversed(halves)]
    parts = [mix(network[half], ngrams[half], weight) for half, weight in zip(halves, weights, strict=True)]
    return np.concatenate(parts), float(np.mean(weights))
