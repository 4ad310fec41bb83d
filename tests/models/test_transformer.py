"""The Transformer: the paper's sizes, parameter names of old checkpoints, tied weights, and invalid settings."""

import pytest
import torch

from regard.core.data_specs import Seq2SeqSpec
from regard.core.errors import ConfigError
from regard.models.transformer import PRESETS, TINY, Config, build

SIZES = Seq2SeqSpec(source_vocab_size=37000, target_vocab_size=37000, max_length=12, joint_vocab=True)


def test_the_base_model_has_the_parameters_of_the_paper():
    with torch.device("meta"):
        model = build(PRESETS["base"], SIZES)
    assert round(sum(weight.numel() for weight in model.parameters()) / 1e6) == 63  # table 3 says 65, rounded


def test_parameter_names():
    names = {name for name, _ in build(TINY, SIZES).named_parameters()}
    for name in (
        "encoder.embedding.table.weight",
        "encoder.layers.1.self_attn.q.weight",
        "encoder.layers.0.around_feedforward.norm.bias",
        "decoder.layers.0.cross_attn.o.bias",
        "decoder.layers.1.around_cross.norm.weight",
        "decoder.layers.0.feedforward.up.weight",
        "decoder.last.weight",
    ):
        assert name in names


def test_weights_are_tied():
    joint, separate = (
        build(TINY, SIZES),
        build(TINY, Seq2SeqSpec(source_vocab_size=23, target_vocab_size=19, max_length=12)),
    )
    assert joint.readout.weight is joint.decoder.embedding.table.weight is joint.encoder.embedding.table.weight
    assert separate.readout.weight is separate.decoder.embedding.table.weight
    assert separate.encoder.embedding.table.weight.shape == (23, 16)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, r"^layers=0 must be at least 1$"),
        ({"heads": 3}, r"^dim=512 cannot be divided among heads=3; choose a multiple of 3$"),
        ({"dropout": 1.0}, r"^dropout=1.0 must be at least 0 and below 1$"),
    ],
)
def test_invalid_settings(change, message):
    with pytest.raises(ConfigError, match=message):
        Config(**change)
