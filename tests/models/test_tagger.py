import pytest
import torch
from samples import TAGGED, sentences

from regard.attention.record import record
from regard.core.errors import ConfigError
from regard.models import tagger


def test_where_each_token_looks_is_seen():
    model, given = tagger.build(tagger.TINY, TAGGED).eval(), sentences()
    with record(model) as maps:
        seen = model(given)
    assert torch.equal(seen, model(given))
    assert set(maps) == {"layers.0.self_attn", "layers.1.self_attn"}
    for found in maps.values():
        assert (found.queries, found.keys) == ("sentence", "sentence")
        assert found.weights[1, :, :, int(given.lengths[1]) :].eq(0).all()


def test_a_width_that_cannot_be_divided():
    with pytest.raises(ConfigError, match="dim=10 cannot be divided among heads=4; choose a multiple of 4"):
        tagger.Config(dim=10)
