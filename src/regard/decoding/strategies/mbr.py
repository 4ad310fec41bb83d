"""Minimum Bayes risk decoding: the sample that is most similar to all samples (Eikema and Aziz 2020, section 6).

Samples stand for the distribution of the model, also as references: the expected utility of a sample is its mean
similarity with the others. The utility is the mean F1 of n-grams of one to four tokens. A sample that is similar to
many others is a consensus, while the most likely output of a beam may be an outlier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from regard.core.config import check_fields
from regard.core.errors import ConfigError
from regard.core.protocols import Hypothesis
from regard.decoding.search import StrategySpec
from regard.decoding.strategies import sample

MAX_NGRAM = 4


@dataclass(frozen=True)
class Config:
    """Settings of the samples, and the number of hypotheses."""

    temperature: float = 1.0  # divides log probabilities; 1: the distribution of the model
    top_k: int = 0  # sample from the k most likely tokens; 0: all
    top_p: float = 1.0  # sample from the most likely tokens with this share of the probability
    num_samples: int = 16  # samples per input, which are candidates and references
    nbest: int = 1  # hypotheses returned, highest expected utility first
    seed: int = 1  # seed of the random numbers
    min_length: int = 0  # minimum number of tokens before EOS
    no_repeat_ngram_size: int = 0  # n-grams of this size do not occur twice; 0: no restriction
    suppress_tokens: tuple[int, ...] = ()  # ids of tokens that are never generated

    def __post_init__(self) -> None:
        self.sampling()  # checks the settings of the samples
        check_fields(self, at_least_1=("nbest",))
        if self.nbest > self.num_samples:
            raise ConfigError(f"nbest={self.nbest} must be at most num_samples={self.num_samples}")

    def sampling(self) -> sample.Config:
        """Return the settings of the samples."""
        return sample.Config(**{field.name: getattr(self, field.name) for field in fields(sample.Config)})


def build(config: Config) -> StrategySpec:
    """Return the `nbest` samples with the highest expected utility, which is their rank score."""
    return replace(sample.build(config.sampling()), rerank=lambda samples: rank_by_utility(samples)[: config.nbest])


def rank_by_utility(samples: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Return the different samples, highest mean similarity with all other samples first."""
    counts = [_ngram_counts(sample.tokens) for sample in samples]
    ranked: dict[tuple[int, ...], Hypothesis] = {}
    for i, candidate in enumerate(samples):
        others = [similarity(counts[i], counts[j]) for j in range(len(samples)) if j != i]
        utility = sum(others) / len(others) if others else 1.0
        ranked.setdefault(candidate.tokens, candidate._replace(rank_score=utility))
    return sorted(ranked.values(), key=lambda hypothesis: -hypothesis.rank_score)


def similarity(first: Sequence[Counter[tuple[int, ...]]], second: Sequence[Counter[tuple[int, ...]]]) -> float:
    """Return the mean F1 of the n-grams of two token sequences, over the sizes that either of them has; 0 to 1."""
    values = [
        2 * sum((a & b).values()) / total
        for a, b in zip(first, second, strict=True)
        if (total := sum(a.values()) + sum(b.values()))
    ]
    return sum(values) / len(values) if values else 1.0


def _ngram_counts(tokens: Sequence[int]) -> list[Counter[tuple[int, ...]]]:
    return [Counter(zip(*(tokens[i:] for i in range(n)), strict=False)) for n in range(1, MAX_NGRAM + 1)]
