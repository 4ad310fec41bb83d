"""Rows of weights sum to one or are zero; hard attention samples with the probabilities of the softmax."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.normalizers import Hard, Softmax, SoftOrHard, log_probability
from regard.core.errors import ConfigError


@given(st.integers(0, 4), st.integers(0, 5), st.integers(0, 2**32))
def test_softmax_rows_sum_to_one_or_are_zero(t, s, seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, 2, t, s, generator=generator, dtype=torch.float64) * 5
    allowed = torch.rand(2, 1, t, s, generator=generator) < 0.5
    weights = Softmax()(scores, allowed)
    has_keys = allowed.any(dim=-1).expand(2, 2, t)
    torch.testing.assert_close(weights.sum(dim=-1), has_keys.double())
    assert not weights.masked_select(~allowed.expand_as(weights)).any()


def test_softmax_of_a_masked_row_has_a_zero_gradient():
    scores = torch.randn(1, 1, 2, 3, requires_grad=True)
    allowed = torch.tensor([[True, True, False], [False, False, False]])
    (gradient,) = torch.autograd.grad(Softmax()(scores, allowed)[..., 0].sum(), scores)
    assert gradient.isfinite().all()
    assert not gradient[0, 0, 1].any()
    assert gradient[0, 0, 0, :2].all()


def test_softmax_of_large_scores():
    weights = Softmax()(torch.tensor([1e4, -1e4, 3e4]), torch.tensor([True, True, False]))
    assert weights.tolist() == [1.0, 0.0, 0.0]


def test_hard_selects_the_best_key_in_evaluation():
    scores = torch.randn(2, 3, 4, 5)
    allowed = torch.rand(2, 1, 4, 5) < 0.6
    allowed[0, 0, 0] = False
    weights = Hard().eval()(scores, allowed)
    best = scores.masked_fill(~allowed, float("-inf")).argmax(dim=-1)
    has_keys = allowed.any(dim=-1).expand(2, 3, 4)
    assert weights.argmax(dim=-1)[has_keys].equal(best[has_keys])
    assert weights.sum(dim=-1).equal(has_keys.float())


def test_hard_samples_with_the_probabilities_of_softmax():
    scores = torch.tensor([0.0, 1.0, 2.0, -1.0]).expand(1, 1, 20000, 4)
    allowed = torch.tensor([True, True, True, False])
    weights = Hard().train()(scores, allowed)
    assert weights.sum(dim=-1).eq(1).all()
    p = scores[0, 0, 0, :3].softmax(dim=0)
    error = (p * (1 - p) / 20000).sqrt()
    assert ((weights.mean(dim=(0, 1, 2))[:3] - p).abs() < 4 * error).all()
    assert weights[..., 3].sum() == 0


@pytest.mark.parametrize("training", [True, False])
def test_hard_without_keys(training):
    hard = Hard().train(training)
    assert hard(torch.randn(1, 1, 2, 0)).shape == (1, 1, 2, 0)
    assert hard(torch.randn(1, 1, 0, 2)).shape == (1, 1, 0, 2)
    assert not hard(torch.randn(1, 1, 2, 3), torch.zeros(1, 1, 2, 3, dtype=torch.bool)).any()


def test_log_probability_is_that_of_softmax():
    scores = torch.randn(2, 1, 3, 4, dtype=torch.float64, requires_grad=True)
    allowed = torch.rand(2, 1, 3, 4) < 0.6
    allowed[0, 0, 1] = False
    key_index = Hard().train()(scores, allowed).argmax(dim=-1)
    key_index = torch.where(allowed.any(dim=-1), key_index, -1)
    result = log_probability(scores, allowed, key_index)
    weights = Softmax()(scores, allowed)
    expected = torch.where(key_index < 0, 1.0, weights.gather(-1, key_index.clamp_min(0)[..., None])[..., 0]).log()
    torch.testing.assert_close(result, expected)
    assert torch.autograd.gradcheck(lambda x: log_probability(x, allowed, key_index), scores)


def test_log_probability_without_keys_is_zero():
    assert log_probability(torch.randn(1, 1, 2, 0), None, torch.full((1, 1, 2), -1)).tolist() == [[[0.0, 0.0]]]


def test_sampling_is_phased_in_after_the_warmup():
    torch.manual_seed(0)
    scores = torch.tensor([0.0, 1.0, 2.0]).expand(1, 1, 2000, 3)
    normalizer = SoftOrHard(0.2, warmup_batches=4)
    shares = []
    for _ in range(10):
        shares.append((normalizer(scores).amax(dim=-1) < 1).float().mean().item())
        normalizer.advance()
    assert shares == pytest.approx([1.0] * 5 + [0.8, 0.6, 0.4, 0.2, 0.2], abs=0.04)
    assert "batches" in normalizer.state_dict() and "batches" not in SoftOrHard(0.2).state_dict()
    assert normalizer.eval()(scores)[0, 0, 0].tolist() == [0.0, 0.0, 1.0]


def test_soft_or_hard_samples_in_training_and_selects_the_best_key_in_evaluation():
    torch.manual_seed(0)
    scores = torch.tensor([0.0, 1.0, 2.0]).expand(1, 1, 2000, 3)
    normalizer = SoftOrHard(0.25)
    weights = normalizer(scores)
    soft = weights.amax(dim=-1) < 1
    assert soft.float().mean().item() == pytest.approx(0.25, abs=0.04)
    assert torch.allclose(weights[soft], scores[soft].softmax(dim=-1))
    assert weights[~soft].mean(dim=0).tolist() == pytest.approx(scores[0, 0, 0].softmax(0).tolist(), abs=0.04)
    assert normalizer.eval()(scores)[0, 0, 0].tolist() == [0.0, 0.0, 1.0]
    assert SoftOrHard(0.0)(scores).amax(dim=-1).min() == 1
    with pytest.raises(ConfigError, match=r"^SoftOrHard: warmup_batches=-1 is negative; choose 0 or more$"):
        SoftOrHard(warmup_batches=-1)
    with pytest.raises(ConfigError, match=r"^SoftOrHard: soft_share=1.5 is not a probability; choose one from 0 to 1$"):
        SoftOrHard(1.5)
