"""Luong's attention: local windows with every other choice, and settings that cannot be."""

from dataclasses import replace

import pytest
import torch

from regard.attention.scores import build as score
from regard.core.errors import ConfigError
from regard.core.sizes import Text
from regard.inspection import laws
from regard.models.luong import TINY, Config, Predictive, build

SIZES = Text(source=23, target=19, longest=12)


@pytest.mark.parametrize("change", [{"window": 2}, {"window": 1, "feed": False, "score": "concat"}], ids=str)
def test_every_law_is_kept(change):
    model = build(replace(TINY, **change), SIZES).eval()
    assert [verdict for verdict in laws.check_decoder(model, laws.trial(SIZES)) if not verdict.kept] == []


def test_a_window_is_a_gaussian_around_the_predicted_place():
    local = Predictive(score("dot", 4), window=2)
    k = local.project_keys(torch.zeros(1, 1, 7, 4))
    place = torch.tensor([3.0, 1.0]).expand(1, 1, 1, 2)
    weights = local(torch.cat([torch.zeros(1, 1, 1, 4), place], dim=-1), k).softmax(-1)[0, 0, 0]
    expected = torch.exp(-((torch.arange(7) - 3.0) ** 2) / 2) * ((torch.arange(7) - 3).abs() <= 2)  # σ = D/2 = 1
    torch.testing.assert_close(weights, expected / expected.sum())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 0}, r"^dim, embedding and layers must be at least 1, window at least 0$"),
        ({"window": -1}, r"^dim, embedding and layers must be at least 1, window at least 0$"),
        ({"dim": 5}, r"^dim=5 cannot be divided among 2 directions; choose an even width$"),
    ],
)
def test_settings_that_cannot_be(change, message):
    with pytest.raises(ConfigError, match=message):
        Config(**change)
