"""Dropout with random bytes: rate, mean, independence of elements and steps, and all bits of the bytes."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import ConfigError
from regard.layers.dropout import Dropout, random_bytes

N = 200_000


def dropped(probability, n=N):
    return Dropout(probability).train()(torch.ones(n)) == 0


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9])
def test_rate_and_mean(probability):
    rate = round(probability * 256) / 256
    assert abs(rate - probability) <= 1 / 512
    std_error = (rate * (1 - rate) / N) ** 0.5
    is_dropped = dropped(probability)
    assert abs(float(is_dropped.float().mean()) - rate) < 4 * std_error
    out = Dropout(probability).train()(torch.ones(N))
    assert abs(float(out.mean()) - 1) < 4 * std_error / (1 - rate)
    assert out.unique().numel() == 2


def test_elements_and_steps_are_independent():
    first, second = dropped(0.3).float(), dropped(0.3).float()
    pairs = [(first, second)] + [(first[:-lag], first[lag:]) for lag in (1, 2, 4, 8, 64)]
    for a, b in pairs:
        correlation = torch.corrcoef(torch.stack([a, b]))[0, 1]
        assert abs(float(correlation)) < 4 / N**0.5


def test_bytes_are_uniform_to_the_top_bit():
    bytes_ = random_bytes(256 * 2000)
    assert bytes_.dtype == torch.uint8
    counts = torch.bincount(bytes_.int(), minlength=256).double()
    chi_squared = float(((counts - 2000) ** 2 / 2000).sum())
    assert 255 - 4 * (2 * 255) ** 0.5 < chi_squared < 255 + 4 * (2 * 255) ** 0.5
    words = bytes_.view(-1, 8)  # the eight bytes of each random integer, the sign bit in the last
    for column in words.T:
        for bit in range(8):
            share = float((column >> bit & 1).float().mean())
            assert abs(share - 0.5) < 4 * 0.5 / words.shape[0] ** 0.5


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9])
def test_any_count_of_bytes(count):
    assert random_bytes(count).shape == (count,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_gradient_of_retained_elements(dtype):
    x = torch.randn(4, 50, dtype=dtype, requires_grad=True)
    out = Dropout(0.25).train()(x.mT)  # not contiguous
    (gradient,) = torch.autograd.grad(out.sum(), x)
    retained = out.mT != 0
    assert out.dtype == dtype and gradient[retained].eq(gradient.max()).all() and not gradient[~retained].any()
    torch.testing.assert_close(out.mT, x * gradient)


def test_off_in_evaluation_and_at_zero():
    x = torch.randn(5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x
    assert not Dropout(1.0).train()(x).any()
    assert "0.25" in repr(Dropout(0.25))


def test_the_same_seed_gives_the_same_mask():
    torch.manual_seed(7)
    mask = dropped(0.4, 100)
    torch.manual_seed(7)
    assert mask.equal(dropped(0.4, 100))
    assert not mask.equal(dropped(0.4, 100))


@pytest.mark.parametrize("probability", [-0.1, 1.5])
def test_invalid_probability(probability):
    with pytest.raises(ConfigError, match=f"dropout={probability} must be from 0 to 1"):
        Dropout(probability)


@pytest.mark.parametrize("probability", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("training", [True, False])
def test_dropout_add_equals_dropout_and_addition(probability, training):
    x, y = (torch.randn(4, 50, dtype=torch.float64, requires_grad=True) for _ in range(2))
    dropout = Dropout(probability).train(training)
    torch.manual_seed(0)
    expected = x + dropout(y)
    torch.manual_seed(0)
    added = dropout.dropout_add(x, y)
    torch.testing.assert_close(added, expected)
    weight = torch.randn_like(added)
    for gradient, expected_gradient in zip(
        *(torch.autograd.grad(out, (x, y), weight) for out in (added, expected)), strict=True
    ):
        torch.testing.assert_close(gradient, expected_gradient)


def test_dropout_add_of_different_dtypes():
    added = Dropout(0.5).train().dropout_add(torch.zeros(8), torch.ones(8, dtype=torch.bfloat16))
    assert added.dtype == torch.float32 and set(added.tolist()) <= {0.0, 2.0}
