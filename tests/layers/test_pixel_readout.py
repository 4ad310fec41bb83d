"""Output layers over levels are distributions, and their losses are likelihoods."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from regard.layers.pixel_readout import Categorical, LogisticMixture

READOUTS = {"categorical": Categorical, "logistic": LogisticMixture}


@pytest.fixture(
    params=[(kind, levels, channels) for kind in READOUTS for levels in (2, 5, 256) for channels in (1, 2, 3)]
)
def readout(request):
    kind, levels, channels = request.param
    torch.manual_seed(0)
    return READOUTS[kind](7, levels=levels, channels=channels).double()


def labels(readout, n):
    levels = torch.randint(readout.levels, (n, readout.channels))
    return levels[:, 0] if readout.channels == 1 else levels


def test_probabilities_sum_to_one(readout):
    features = torch.randn(6, 7, dtype=torch.float64) * 4
    channels = labels(readout, 6).view(6, -1)
    for channel in range(readout.channels):
        scores = readout.logits(features, channels[:, :channel])
        assert scores.shape == (6, readout.levels)
        if isinstance(readout, LogisticMixture):
            torch.testing.assert_close(scores.exp().sum(dim=1), torch.ones(6, dtype=torch.float64))


def test_the_loss_is_the_sum_over_channels(readout):
    features, values = torch.randn(6, 7, dtype=torch.float64), labels(readout, 6)
    channels = values.view(6, -1)
    total = sum(
        cross_entropy(readout.logits(features, channels[:, :channel]), channels[:, channel], reduction="sum")
        for channel in range(readout.channels)
    )
    torch.testing.assert_close(readout.loss(features, values), total)


def test_gradients_are_right(readout):
    features, values = torch.randn(3, 7, dtype=torch.float64, requires_grad=True), labels(readout, 3)
    assert torch.autograd.gradcheck(lambda x: readout.loss(x, values), (features,))


def test_forward_gives_the_first_channel(readout):
    features = torch.randn(2, 3, 7, dtype=torch.float64)
    expected = readout.logits(features[1, 2:], torch.zeros(1, 0, dtype=torch.long))
    torch.testing.assert_close(readout(features)[1, 2:], expected)


def test_a_mixture_is_finite_in_the_tails():
    readout = LogisticMixture(4, levels=256, channels=3, mixtures=2)
    features = (torch.randn(50, 4) * 100).requires_grad_()
    loss = readout.loss(features, torch.randint(256, (50, 3)))
    loss.backward()
    assert loss.isfinite() and features.grad.isfinite().all()


def test_a_mixture_generalizes_to_neighbouring_levels():
    """The mixture uses the order of brightness: levels between the trained ones get probability too."""
    readout = LogisticMixture(4, levels=64, channels=1, mixtures=3)
    optimizer = torch.optim.Adam(readout.parameters(), lr=0.05)
    features = torch.ones(1, 4)
    for _ in range(200):
        loss = readout.loss(features.expand(2, -1), torch.tensor([20, 24]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    probabilities = readout.logits(features, torch.zeros(1, 0, dtype=torch.long)).exp()[0]
    assert probabilities[22] > 10 * probabilities[50]
