"""Hard attention: the Monte Carlo gradient is right on average; the choice is reported; whoever records sees it."""

from __future__ import annotations

import pytest
import torch

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.choose import choose
from regard.attention.masks import Mask
from regard.attention.normalizers import Hard
from regard.attention.record import record
from regard.core.errors import ConfigError


def hard(**settings):
    return Attend(scores.build("dot", 2), normalizer=Hard(), **settings)


def test_the_monte_carlo_gradient_has_the_exact_gradient_as_its_mean():
    """The reward r(chosen) has the expectation Σ p r, whose gradient is known; r·∇log p is an unbiased guess at it."""
    torch.manual_seed(3)
    q = torch.randn(1, 1, 1, 2, dtype=torch.float64, requires_grad=True)
    k, reward = torch.randn(1, 1, 3, 2, dtype=torch.float64), torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    odds = (q @ k.mT).softmax(dim=-1)
    (exact,) = torch.autograd.grad((odds * reward).sum(), q)

    samples = 20000
    many = q.detach().expand(1, 1, samples, 2).clone().requires_grad_()
    choice = choose(hard().train(), many, k, reward[None, None, :, None])
    (guesses,) = torch.autograd.grad((choice.mixed[..., 0].detach() * choice.log_probability).sum(), many)
    error = guesses.std(dim=2) / samples**0.5
    assert ((guesses.mean(dim=2) - exact[:, :, 0]).abs() < 4 * error).all()
    assert exact.norm() > 20 * error.norm()  # the test could tell a wrong sign or a missing factor


@pytest.mark.parametrize("training", [True, False])
def test_the_place_is_where_the_value_came_from(training):
    q, k, v = torch.randn(2, 3, 4, 2), torch.randn(2, 3, 5, 2), torch.randn(2, 3, 5, 6)
    mask = Mask.lengths(torch.tensor([5, 0]))
    mixed, place, log_probability = choose(hard().train(training), q, k, v, mask)
    taken = v.gather(2, place.clamp_min(0)[..., None].expand(-1, -1, -1, 6))
    torch.testing.assert_close(mixed[0], taken[0])
    assert place[0].min() >= 0 and place[1].eq(-1).all()
    assert not mixed[1].any() and not log_probability[1].any()
    if not training:
        assert place[0].equal((q @ k.mT).argmax(dim=-1)[0])


def test_what_dropout_took_was_not_chosen():
    q, k, v = torch.randn(1, 1, 400, 2), torch.randn(1, 1, 5, 2), torch.ones(1, 1, 5, 1)
    mixed, place, log_probability = choose(hard(dropout=0.5).train(), q, k, v)
    assert (place < 0).equal(mixed[..., 0] == 0)
    assert 100 < int((place < 0).sum()) < 300
    assert log_probability[place < 0].eq(0).all() and log_probability[place >= 0].lt(0).all()


def test_the_map_shows_the_choice_that_was_made():
    attend = hard().train()
    q, k, v = torch.randn(2, 1, 7, 2), torch.randn(2, 1, 5, 2), torch.randn(2, 1, 5, 3)
    with record(attend) as maps:
        choice = choose(attend, q, k, v)
    assert maps[""].weights.argmax(dim=-1).equal(choice.place)


def test_a_soft_normaliser_is_refused():
    q = torch.randn(1, 1, 2, 2)
    with pytest.raises(
        ConfigError, match=r"the normaliser is Softmax, which does not choose; make Attend\(…, normalizer"
    ):
        choose(Attend(scores.build("dot", 2)), q, q, q)
