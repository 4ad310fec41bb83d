"""Sampling: the frequencies are the probabilities."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.decoding.strategies import greedy, sample

DRAWS = 4000
PROBABILITIES = torch.tensor([0.1, 0.1, 0.05, 0.15, 0.3, 0.2, 0.1])  # pad, unknown, start, end, three words


def frequencies(toys, **settings):
    """How often each token comes first, over 2 × 2000 outputs; 3 (the end mark) stands for an empty output."""
    model = toys.Bigram(PROBABILITIES.log().expand(7, 7))
    found = toys.run(sample, model, 2, limits=[1, 1], samples=DRAWS // 2, **settings)
    firsts = [h.tokens[0] if h.tokens else toys.marks.end for hypotheses in found for h in hypotheses]
    assert len(firsts) == DRAWS
    return torch.bincount(torch.tensor(firsts), minlength=7) / DRAWS


def expected(kept, power=1.0):
    shares = torch.zeros(7)
    shares[kept] = PROBABILITIES[kept] ** power
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
        ({"top_p": 0.5}, expected([4, 5])),  # of 0.85 that may come: 0.35, 0.59
        ({"top_p": 0.7}, expected([3, 4, 5])),
        ({"top_p": 1e-9}, expected([4])),
        ({"top_k": 3, "top_p": 0.7}, expected([4, 5])),  # of 0.65: 0.46, 0.77
        ({"top_k": 4, "top_p": 0.999}, expected([1, 3, 4, 5])),  # of two equally likely, the first
        ({"forbid": (4,), "temperature": 0.5}, expected([1, 3, 5, 6], power=2.0)),
    ],
    ids=str,
)
def test_frequencies_are_probabilities(toys, settings, shares):
    found = frequencies(toys, **settings)
    assert torch.equal(found > 0, shares > 0)
    sigma = (shares * (1 - shares) / DRAWS).sqrt()
    assert ((found - shares).abs() <= 4 * sigma + 1e-9).all()


def test_what_has_no_probability_is_never_drawn():
    """Not even by the least and the greatest number that can be drawn."""
    scores = torch.tensor([-torch.inf, -torch.inf, -0.5, -torch.inf, -2.0, -torch.inf]).expand(2, 6)
    draws = torch.tensor([[0.0], [1 - 2.0**-53]], dtype=torch.float64)
    assert sample.sample_tokens(scores, draws, config=sample.Config()).tolist() == [[2], [4]]
    assert sample.sample_tokens(scores, draws, config=sample.Config(top_p=0.99)).tolist() == [[2], [4]]


@pytest.mark.parametrize("size", [100, 1000])
def test_nucleus_of_a_flat_distribution(toys, size):
    """More tokens than the first guess of the nucleus' size."""
    model = toys.Bigram(torch.zeros(size, size))
    (found,) = toys.run(sample, model, 1, limits=[1], samples=3000, top_p=0.5, min_length=1)
    tokens = {h.tokens[0] for h in found}
    allowed = [token for token in range(size) if token not in (0, 2, 3)]  # equally likely: the first half is it
    assert tokens <= set(allowed[: len(allowed) // 2 + 1])
    assert len(tokens) > 0.8 * len(allowed) // 2


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-320])
def test_without_heat_it_is_greedy(toys, temperature):
    model, source = toys.Recurrent(20), torch.randn(5, 8)
    limits = [12, 3, 12, 0, 12]
    cold = toys.run(sample, model, source, limits=limits, temperature=temperature, samples=2)
    plain = toys.run(greedy, model, source, limits=limits)
    for hypotheses, (best,) in zip(cold, plain, strict=True):
        assert [h.tokens for h in hypotheses] == [best.tokens] * 2
        assert [h.score for h in hypotheses] == pytest.approx([best.score] * 2, abs=1e-4)


def test_the_seed_decides(toys):
    model, source = toys.Recurrent(20), torch.randn(4, 8)
    one, same, other = (
        toys.run(sample, model, source, limits=[12] * 4, samples=3, temperature=5.0, seed=seed) for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other
    state = torch.get_rng_state()
    toys.run(sample, model, source, limits=[12] * 4)
    assert torch.equal(torch.get_rng_state(), state)


def test_draws_do_not_hang_on_the_others(toys):
    model, source = toys.Recurrent(20), torch.randn(4, 8)
    settings = {"samples": 3, "temperature": 3.0}
    found = toys.run(sample, model, source, limits=[12] * 4, **settings)
    ended = toys.run(sample, model, source, limits=[12, 0, 12, 1], **settings)
    for i in (0, 2):
        assert [h.tokens for h in found[i]] == [h.tokens for h in ended[i]]
    assert len({h.tokens for hypotheses in found for h in hypotheses}) > 6


def test_likeliest_first(toys):
    model, source = toys.Recurrent(20), torch.randn(4, 8)
    for hypotheses in toys.run(sample, model, source, limits=[6] * 4, samples=9):
        scores = [h.score for h in hypotheses]
        assert len(scores) == 9
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, r"temperature is 0.0; it must be above 0 \(for 0 use the greedy decoder\)"),
        ({"temperature": float("nan")}, r"temperature is nan; it must be above 0 \(for 0 use the greedy decoder\)"),
        ({"top_k": -1}, "top_k is -1; it must be a number of tokens, or 0 for all"),
        ({"top_p": 0.0}, "top_p is 0.0; it must be above 0 and at most 1, which keeps all tokens"),
        ({"top_p": 1.5}, "top_p is 1.5; it must be above 0 and at most 1, which keeps all tokens"),
        ({"samples": 0}, "samples is 0; at least 1 is drawn"),
        ({"seed": -1}, "seed is -1; it must be 0 or more"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ConfigError, match=f"^{message}$"):
        sample.Config(**settings)
