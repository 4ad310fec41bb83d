"""REINFORCE: the mean of the estimates is the exact gradient, and a baseline reduces the variance."""

import itertools

import pytest
import torch

from regard.attention.policy_gradient import MovingAverage, NoBaseline, cost_to_go, entropy, reinforce_loss
from regard.core.errors import ConfigError, ShapeError

STEPS, KEYS, SAMPLES = 2, 3, 20_000


@pytest.fixture
def game():
    """Return two choices among three keys each, the second depending on the first, and a cost for every pair."""
    torch.manual_seed(0)
    first = torch.randn(KEYS, dtype=torch.float64, requires_grad=True)
    second = torch.randn(KEYS, KEYS, dtype=torch.float64, requires_grad=True)
    costs = 5 + torch.rand(STEPS, KEYS, KEYS, dtype=torch.float64)  # of each step for both choices
    costs[0] = costs[0][:, :1]  # the first step's cost cannot depend on the second choice
    return (first, second), costs


def exact_gradient(parameters, costs):
    """Return the gradient of the expected cost by enumerating all pairs of choices."""
    first, second = parameters
    p, q = first.softmax(0), second.softmax(1)
    expected = sum(p[i] * q[i, j] * costs[:, i, j].sum() for i, j in itertools.product(range(KEYS), repeat=2))
    return torch.cat([g.flatten() for g in torch.autograd.grad(expected, parameters)])


def sampled_gradients(parameters, costs, baseline, samples):
    """Return the gradient of the loss for every sample; each sample has its own copy of the parameters."""
    first, second = (x.detach().expand(samples, *x.shape).clone().requires_grad_() for x in parameters)
    i = torch.multinomial(first.detach().softmax(1), 1)  # (n 1)
    rows = second.gather(1, i[..., None].expand(-1, 1, KEYS))[:, 0]
    j = torch.multinomial(rows.detach().softmax(1), 1)
    log_probability = torch.cat([first.log_softmax(1).gather(1, i), rows.log_softmax(1).gather(1, j)], dim=1)
    loss = reinforce_loss(log_probability, cost_to_go(costs[:, i[:, 0], j[:, 0]].T), baseline=baseline)
    return torch.cat([g.flatten(1) for g in torch.autograd.grad(loss, (first, second))], dim=1)


def trained_average(parameters, costs):
    """Return a moving average that was updated with 100 samples."""
    baseline = MovingAverage(STEPS).double()
    sampled_gradients(parameters, costs, baseline, 100)
    return baseline.eval()


@pytest.mark.parametrize("make", [lambda *_: NoBaseline(), trained_average], ids=["none", "average"])
def test_the_mean_over_many_samples_is_the_exact_gradient(game, make):
    parameters, costs = game
    estimates, truth = sampled_gradients(parameters, costs, make(*game), SAMPLES), exact_gradient(parameters, costs)
    errors = estimates.std(dim=0) / len(estimates) ** 0.5
    assert ((estimates.mean(dim=0) - truth).abs() < 4 * errors + 1e-6).all()
    assert truth.abs().max() > 0.02


def test_a_baseline_reduces_the_variance(game):
    parameters, costs = game
    without, with_average = (
        sampled_gradients(parameters, costs, baseline, 1000).var(dim=0).sum()
        for baseline in (NoBaseline(), trained_average(*game))
    )
    assert with_average < without / 20  # costs of 10 ± 0.5: nearly all of the variance is due to the mean


def test_no_gradient_goes_through_the_cost(game):
    cost = torch.ones(1, 2, requires_grad=True)
    log_probability = torch.zeros(1, 2, requires_grad=True)
    reinforce_loss(log_probability, cost * 3, baseline=NoBaseline()).backward()
    assert cost.grad is None and log_probability.grad.tolist() == [[3.0, 3.0]]


def test_invalid_choices_do_not_count():
    log_probability = torch.full((2, 2), float("-inf"))
    log_probability[0, 0] = -1.0
    valid = torch.tensor([[True, False], [False, False]])
    baseline = MovingAverage(2)
    assert reinforce_loss(log_probability, torch.full((2, 2), 4.0), baseline=baseline, valid=valid).item() == -4.0
    assert baseline.average.tolist() == [4.0, 0.0]


def test_shapes_must_agree():
    with pytest.raises(ShapeError, match=r"shapes \(2, 3\) and \(2, 2\); give both as \(batch, steps\)$"):
        reinforce_loss(torch.zeros(2, 3), torch.zeros(2, 2), baseline=NoBaseline())


def test_the_average_is_updated_in_training_only_and_saved_with_the_weights():
    average = MovingAverage(2, decay=0.5)
    valid = torch.ones(1, 3, dtype=torch.bool)
    assert average(torch.tensor([[2.0, 4.0, 6.0]]), valid).tolist() == [0.0, 0.0, 0.0]  # not yet initialized
    assert average(torch.tensor([[4.0, 5.0, 5.0]]), valid).tolist() == [
        2.0,
        5.0,
        5.0,
    ]  # a third step shares the baseline of the second
    assert average.eval()(torch.zeros(1, 1), valid[:, :1]).tolist() == [3.0]
    loaded = MovingAverage(2)
    loaded.load_state_dict(average.state_dict())
    assert loaded.average.tolist() == [3.0, 5.0]


@pytest.mark.parametrize(("steps", "decay"), [(0, 0.9), (1, 1.0)])
def test_invalid_settings_of_the_average(steps, decay):
    with pytest.raises(ConfigError, match=rf"^MovingAverage: steps={steps} must be at least 1, and decay={decay} at"):
        MovingAverage(steps, decay=decay)


def test_costs_to_go_and_entropy():
    assert cost_to_go(torch.tensor([[1.0, 2.0, 3.0]])).tolist() == [[6.0, 5.0, 3.0]]
    assert entropy(torch.zeros(2, 8)).tolist() == pytest.approx([2.0794, 2.0794], abs=1e-4)
    assert entropy(torch.tensor([0.0, 90.0])).item() == pytest.approx(0, abs=1e-6)
