"""Luong's attention: local windows with every other choice, and settings that cannot be."""

from dataclasses import replace

import pytest
import torch

from regard.attention.record import record
from regard.attention.scores import build as score
from regard.core.data_specs import Seq2SeqSpec
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.inspection import invariants
from regard.models.luong import TINY, Config, PredictiveAlignmentScore, build

SIZES = Seq2SeqSpec(source_vocab_size=23, target_vocab_size=19, max_length=12)


@pytest.mark.parametrize("change", [{"window": 2}, {"window": 1, "feed": False, "score": "concat"}], ids=str)
def test_every_law_is_kept(change):
    model = build(replace(TINY, **change), SIZES).eval()
    assert [
        verdict for verdict in invariants.check_decoder(model, invariants.random_inputs(SIZES)) if not verdict.passed
    ] == []


def test_a_window_is_a_gaussian_around_the_predicted_place():
    local = PredictiveAlignmentScore(score("dot", 4), window=2)
    k = local.project_keys(torch.zeros(1, 1, 7, 4))
    place = torch.tensor([3.0]).expand(1, 1, 1, 1)
    weights = local(torch.cat([torch.zeros(1, 1, 1, 4), place], dim=-1), k).softmax(-1)[0, 0, 0]
    expected = torch.exp(-((torch.arange(7) - 3.0) ** 2) / 2) * ((torch.arange(7) - 3).abs() <= 2)  # σ = D/2 = 1
    torch.testing.assert_close(weights, expected / expected.sum())


@pytest.mark.parametrize("length", [40, 120, 380])
def test_half_precision_looks_where_full_precision_looks(length):
    """The place that is predicted keeps its digits; what is left is the rounding of the model's own features."""
    torch.manual_seed(0)
    model = build(
        replace(TINY, cell="gru", window=10, dropout=0.0),
        Seq2SeqSpec(source_vocab_size=23, target_vocab_size=19, max_length=length),
    ).eval()
    source = Padded(torch.randint(4, 23, (4, length)), torch.full((4,), length))
    tokens, maps = torch.randint(4, 19, (4, 3)), []
    for half in (False, True):
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=half), record(model) as seen:
            model(tokens, model.start(source))
        maps.append(seen["cross_attn"].weights.float())
    assert (maps[0] - maps[1]).abs().sum(dim=-1).max() / 2 < 0.05  # total variation


def test_in_bfloat16_alone():
    model = build(replace(TINY, cell="gru", window=3, dropout=0.0), SIZES).bfloat16().eval()
    source = Padded(torch.randint(4, 23, (2, 6)), torch.tensor([6, 4]))
    assert model(torch.randint(4, 19, (2, 3)), model.start(source))[0].isfinite().all()


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
