"""The Transformer tagger: recorded attention, and invalid settings."""

import pytest
import torch
from samples import TAGGED, sentences

from regard.attention.record import record
from regard.core.errors import ConfigError
from regard.models import tagger


def test_attention_is_recorded():
    model, batch = tagger.build(tagger.TINY, TAGGED).eval(), sentences()
    with record(model) as maps:
        recorded_output = model(batch)
    assert torch.equal(recorded_output, model(batch))
    assert set(maps) == {"layers.0.self_attn", "layers.1.self_attn"}
    for recorded in maps.values():
        assert (recorded.queries, recorded.keys) == ("sentence", "sentence")
        assert recorded.weights[1, :, :, int(batch.lengths[1]) :].eq(0).all()


def test_invalid_settings():
    with pytest.raises(ConfigError, match="dim=10 cannot be divided among heads=4; choose a multiple of 4"):
        tagger.Config(dim=10)
