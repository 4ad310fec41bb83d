"""Sampling: the frequencies equal the probabilities."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.decoding.strategies import greedy, sample

DRAWS = 4000
PROBABILITIES = torch.tensor([0.1, 0.1, 0.05, 0.15, 0.3, 0.2, 0.1])  # PAD, UNK, BOS, EOS, three words


def frequencies(toys, **settings):
    """Return the frequency of each first token over 2 × 2000 outputs; 3 (EOS) stands for the empty output."""
    model = toys.Bigram(PROBABILITIES.log().expand(7, 7))
    results = toys.run(sample, model, 2, limits=[1, 1], num_samples=DRAWS // 2, **settings)
    firsts = [h.tokens[0] if h.tokens else toys.special_tokens.eos for hypotheses in results for h in hypotheses]
    assert len(firsts) == DRAWS
    return torch.bincount(torch.tensor(firsts), minlength=7) / DRAWS


def expected(tokens, power=1.0):
    shares = torch.zeros(7)
    shares[tokens] = PROBABILITIES[tokens] ** power
    return shares / shares.sum()


@pytest.mark.parametrize(
    ("settings", "shares"),
    [
        ({}, expected([1, 3, 4, 5, 6])),
        ({"temperature": 0.5}, expected([1, 3, 4, 5, 6], power=2.0)),
        ({"temperature": 2.0}, expected([1, 3, 4, 5, 6], power=0.5)),
        ({"top_k": 1}, expected([4])),
        ({"top_k": 2}, expected([4, 5])),
        ({"top_k": 3}, expected([3, 4, 5])),
        ({"top_k": 99}, expected([1, 3, 4, 5, 6])),
        ({"top_p": 0.3}, expected([4])),
        ({"top_p": 0.5}, expected([4, 5])),  # of 0.85 that is allowed: 0.35, 0.59
        ({"top_p": 0.7}, expected([3, 4, 5])),
        ({"top_p": 1e-9}, expected([4])),
        ({"top_k": 3, "top_p": 0.7}, expected([4, 5])),  # of 0.65: 0.46, 0.77
        ({"top_k": 4, "top_p": 0.999}, expected([1, 3, 4, 5])),  # of two equally likely tokens the first
        ({"suppress_tokens": (4,), "temperature": 0.5}, expected([1, 3, 5, 6], power=2.0)),
    ],
    ids=str,
)
def test_frequencies_are_probabilities(toys, settings, shares):
    observed = frequencies(toys, **settings)
    assert torch.equal(observed > 0, shares > 0)
    sigma = (shares * (1 - shares) / DRAWS).sqrt()
    assert ((observed - shares).abs() <= 4 * sigma + 1e-9).all()


def test_tokens_of_probability_zero_are_never_sampled():
    """Not even with the smallest and the largest possible random number."""
    scores = torch.tensor([-torch.inf, -torch.inf, -0.5, -torch.inf, -2.0, -torch.inf]).expand(2, 6)
    uniforms = torch.tensor([[0.0], [1 - 2.0**-53]], dtype=torch.float64)
    assert sample.sample_tokens(scores, uniforms, config=sample.Config()).tolist() == [[2], [4]]
    assert sample.sample_tokens(scores, uniforms, config=sample.Config(top_p=0.99)).tolist() == [[2], [4]]


@pytest.mark.parametrize("size", [100, 1000])
def test_nucleus_of_a_flat_distribution(toys, size):
    """The nucleus has more tokens than the first number of candidates."""
    model = toys.Bigram(torch.zeros(size, size))
    (results,) = toys.run(sample, model, 1, limits=[1], num_samples=3000, top_p=0.5, min_length=1)
    tokens = {h.tokens[0] for h in results}
    allowed = [
        token for token in range(size) if token not in (0, 2, 3)
    ]  # equally likely: the first half is the nucleus
    assert tokens <= set(allowed[: len(allowed) // 2 + 1])
    assert len(tokens) > 0.8 * len(allowed) // 2


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-320])
def test_low_temperature_is_greedy(toys, temperature):
    model, source = toys.Recurrent(20), torch.randn(5, 8)
    limits = [12, 3, 12, 0, 12]
    cold = toys.run(sample, model, source, limits=limits, temperature=temperature, num_samples=2)
    plain = toys.run(greedy, model, source, limits=limits)
    for hypotheses, (best,) in zip(cold, plain, strict=True):
        assert [h.tokens for h in hypotheses] == [best.tokens] * 2
        assert [h.score for h in hypotheses] == pytest.approx([best.score] * 2, abs=1e-4)


def test_the_seed_decides(toys):
    model, source = toys.Recurrent(20), torch.randn(4, 8)
    first, same, different = (
        toys.run(sample, model, source, limits=[12] * 4, num_samples=3, temperature=5.0, seed=seed)
        for seed in (1, 1, 2)
    )
    assert first == same
    assert first != different
    state = torch.get_rng_state()
    toys.run(sample, model, source, limits=[12] * 4)
    assert torch.equal(torch.get_rng_state(), state)


def test_samples_do_not_depend_on_other_sources(toys):
    model, source = toys.Recurrent(20), torch.randn(4, 8)
    settings = {"num_samples": 3, "temperature": 3.0}
    results = toys.run(sample, model, source, limits=[12] * 4, **settings)
    ended = toys.run(sample, model, source, limits=[12, 0, 12, 1], **settings)
    for i in (0, 2):
        assert [h.tokens for h in results[i]] == [h.tokens for h in ended[i]]
    assert len({h.tokens for hypotheses in results for h in hypotheses}) > 6


def test_most_likely_first(toys):
    model, source = toys.Recurrent(20), torch.randn(4, 8)
    for hypotheses in toys.run(sample, model, source, limits=[6] * 4, num_samples=9):
        scores = [h.score for h in hypotheses]
        assert len(scores) == 9
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, "temperature=0.0 must be greater than 0 and finite; for 0 use greedy"),
        ({"temperature": float("nan")}, "temperature=nan must be greater than 0 and finite; for 0 use greedy"),
        ({"top_k": -1}, "top_k=-1 must be at least 0"),
        ({"top_p": 0.0}, "top_p=0.0 must be greater than 0 and at most 1; 1 keeps all tokens"),
        ({"top_p": 1.5}, "top_p=1.5 must be greater than 0 and at most 1; 1 keeps all tokens"),
        ({"num_samples": 0}, "num_samples=0 must be at least 1"),
        ({"seed": -1}, "seed=-1 must be at least 0"),
    ],
)
def test_invalid_settings(settings, message):
    with pytest.raises(ConfigError, match=f"^{message}$"):
        sample.Config(**settings)
