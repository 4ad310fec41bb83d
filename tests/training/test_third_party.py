"""Parts of other packages are compared with their definition before they are trained or used."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType

import pytest
import torch
from torch import nn

import regard
from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.attention.score import Dot, ScoreFunction
from regard.attention.weigh import Weigh
from regard.core.errors import ConfigError
from regard.decoding.strategies import greedy
from regard.decoding.strategy import DecodingStrategy, StrategySpec
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.positions._base import PositionScheme
from regard.training.third_party import check_parts


class Distance(ScoreFunction):
    """An honest score whose factor has the name of a common attribute."""

    def __init__(self, dim=8, key_dim=None):
        super().__init__()
        self.scale = dim**-0.5

    def forward(self, q, k):
        return -self.scale * torch.cdist(q, k).square()


class WrongDot(Distance):
    def as_dot(self, q, k):
        return Dot(q, k, self.scale)


class WrongScale(WrongDot):
    """A score that promises an inner product which its forward does not compute."""

    dot_scale = 0.5

    def forward(self, q, k):
        return -0.5 * (q @ k.mT)


class Failing(Distance):
    def forward(self, q, k):
        raise KeyError("width")


class Leaky(nn.Module):
    """A normalizer that ignores the mask."""

    def forward(self, scores, allowed=None):
        return scores.softmax(dim=-1)


def attention(score, normalizer=None):
    return MultiHeadAttention(Attend(score, normalizer=normalizer), HeadDims.split_evenly(16, 2))


def test_an_attribute_named_scale_has_no_meaning():
    heads = attention(Distance())
    check_parts(heads, None)
    q, k, v = (torch.randn(1, 2, 70, 8) for _ in range(3))
    expected = Weigh(Distance())(q, k, Mask.causal()) @ v
    torch.testing.assert_close(heads.attend(q, k, v, Mask.causal()), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (WrongDot, "WrongDot: attention by fast kernels and by definition differ by .* must compute the same as its"),
        (WrongScale, "WrongScale: attention by fast kernels and by definition differ"),
        (Failing, r"Failing: fails on 5 queries and 5 keys \(KeyError: 'width'\); see CONTRIBUTING: Add a score"),
    ],
)
def test_a_score_that_differs_from_its_definition_is_refused(score, message):
    with pytest.raises(ConfigError, match=message):
        check_parts(attention(score()), None)


def test_a_scale_without_an_inner_product_is_refused():
    score = Distance()
    score.dot_scale = 1.0
    with pytest.raises(ConfigError, match="sets dot_scale but does not define as_dot; define both"):
        Attend(score)


def test_a_normalizer_must_hide_masked_keys():
    with pytest.raises(ConfigError, match="Leaky: weights of hidden keys differ by"):
        check_parts(attention(scores.build("scaled_dot", 8), Leaky()), None)


class Ramp(PositionScheme):
    def encode(self, positions, length):
        return positions[..., None].expand(*positions.shape, self.dim).float()


class Summed(PositionScheme):
    def encode(self, positions, length):
        return positions.sum() * torch.ones(*positions.shape, self.dim)


class Narrow(PositionScheme):
    def encode(self, positions, length):
        return torch.ones(len(positions), 1)


def test_position_schemes():
    check_parts(nn.Sequential(Ramp(4, max_length=9), nn.Linear(1, 1)), None)
    with pytest.raises(ConfigError, match="Summed: encodings of a batch and of one row differ by 10"):
        check_parts(nn.Sequential(Summed(4, max_length=9), nn.Linear(1, 1)), None)
    with pytest.raises(ConfigError, match=r"Narrow: encode returns \(5, 1\) for 5 positions; return \(5, 4\)"):
        check_parts(nn.Sequential(Narrow(4, max_length=9), nn.Linear(1, 1)), None)


@dataclass(frozen=True)
class Config(greedy.Config):
    bias: float = 0.0


def strategy(monkeypatch, build):
    module = ModuleType("lab.shifted")
    module.Config, module.build = Config, build
    monkeypatch.setattr("regard.decoding.strategy.find", lambda package, name: module)
    return DecodingStrategy("lab.shifted", Config())


def test_decoding_strategies(monkeypatch):
    model = nn.Linear(1, 1)
    check_parts(model, strategy(monkeypatch, greedy.build))
    with pytest.raises(
        ConfigError, match=r"decoding=lab\.shifted: fails on a small model \(AttributeError: .*'forbid'"
    ):
        check_parts(model, strategy(monkeypatch, lambda config: config.forbid))

    def shifted(config):
        def choose(scores, state):
            candidates = greedy.build(config).choose(scores, state)
            return candidates._replace(cum_log_probs=candidates.cum_log_probs + 1)

        return StrategySpec(choose)

    with pytest.raises(ConfigError, match="scores and teacher-forced scores differ by"):
        check_parts(model, strategy(monkeypatch, shifted))


def test_a_run_with_a_dishonest_part_is_neither_trained_nor_loaded(monkeypatch, tmp_path):
    package = ModuleType("lab_of_others")
    package.Score = WrongDot
    monkeypatch.setitem(sys.modules, "lab_of_others", package)
    monkeypatch.setitem(sys.modules, "lab_of_others.score", package)
    package.__path__, package.score = [], package
    settings = ["model.score=lab_of_others.score", "model.preset=small", "data.pairs=50", "data.vocab_size=200"]
    with pytest.raises(ConfigError, match="WrongDot: attention by fast kernels and by definition differ"):
        regard.train("translation", settings, out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
    checked = []
    monkeypatch.setattr("regard.training.third_party.check_parts", lambda model, decoding: checked.append(decoding))
    regard.train(
        "translation", [*settings, "training.steps=1", "training.evaluation.every=1"], out=tmp_path / "run", quiet=True
    )
    assert checked
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "lab_of_others", package)
    monkeypatch.setitem(sys.modules, "lab_of_others.score", package)
    with pytest.raises(ConfigError, match="WrongDot: attention by fast kernels and by definition differ"):
        regard.load(tmp_path / "run")
