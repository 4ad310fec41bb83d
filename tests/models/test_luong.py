"""Luong's attention: local windows with every other setting, and invalid settings."""

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


@pytest.mark.parametrize("change", [{"window": 2}, {"window": 1, "input_feeding": False, "score": "concat"}], ids=str)
def test_decoding_invariants(change):
    model = build(replace(TINY, **change), SIZES).eval()
    assert [
        result for result in invariants.check_decoder(model, invariants.random_inputs(SIZES)) if not result.passed
    ] == []


def test_the_window_is_a_gaussian_around_the_predicted_position():
    local = PredictiveAlignmentScore(score("dot", 4), window=2)
    k = local.project_keys(torch.zeros(1, 1, 7, 4))
    position = torch.tensor([3.0]).expand(1, 1, 1, 1)
    weights = local(torch.cat([torch.zeros(1, 1, 1, 4), position], dim=-1), k).softmax(-1)[0, 0, 0]
    expected = torch.exp(-((torch.arange(7) - 3.0) ** 2) / 2) * ((torch.arange(7) - 3).abs() <= 2)  # σ = D/2 = 1
    torch.testing.assert_close(weights, expected / expected.sum())


@pytest.mark.parametrize("length", [40, 120, 380])
def test_half_precision_attends_like_full_precision(length):
    """The predicted position stays in float32; the remaining difference is the rounding of the features."""
    torch.manual_seed(0)
    model = build(
        replace(TINY, cell="gru", window=10, dropout=0.0),
        Seq2SeqSpec(source_vocab_size=23, target_vocab_size=19, max_length=length),
    ).eval()
    source = Padded(torch.randint(4, 23, (4, length)), torch.full((4,), length))
    tokens, maps = torch.randint(4, 19, (4, 3)), []
    for use_autocast in (False, True):
        with (
            torch.no_grad(),
            torch.autocast("cpu", dtype=torch.bfloat16, enabled=use_autocast),
            record(model) as recorded,
        ):
            model(tokens, model.start(source))
        maps.append(recorded["cross_attn"].weights.float())
    assert (maps[0] - maps[1]).abs().sum(dim=-1).max() / 2 < 0.05  # total variation


def test_in_bfloat16_alone():
    model = build(replace(TINY, cell="gru", window=3, dropout=0.0), SIZES).bfloat16().eval()
    source = Padded(torch.randint(4, 23, (2, 6)), torch.tensor([6, 4]))
    assert model(torch.randint(4, 19, (2, 3)), model.start(source))[0].isfinite().all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 0}, r"^dim=0 must be at least 1$"),
        ({"window": -1}, r"^window=-1 must be at least 0$"),
        ({"dim": 5}, r"^dim=5 cannot be divided among 2 directions; choose an even width$"),
    ],
)
def test_invalid_settings(change, message):
    with pytest.raises(ConfigError, match=message):
        Config(**change)
