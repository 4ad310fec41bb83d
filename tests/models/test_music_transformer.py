"""The Music Transformer keeps the decoding invariants in every variant; conditions and settings."""

from dataclasses import replace

import pytest
import torch

from regard.core.data_specs import MusicSpec
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.core.registry import registered_names
from regard.inspection import invariants
from regard.models.music_transformer import TINY, Config, build

SIZES = MusicSpec(num_conditions=23, vocab_size=19, max_length=40)
GRID = replace(SIZES, crop_length=32, voices=4, steps_per_bar=3)
PLAIN = {"intervals": False, "voices": 0}
VARIANTS = [PLAIN, {"voices": 1}, {"voices": 3}, {"max_distance": 1}] + [
    {"position": name, **PLAIN} for name in registered_names("regard.layers.positions")
]  # single settings are tested for every model in tests/contracts


def build_model(**changes):
    torch.manual_seed(0)
    return build(replace(TINY, **changes), SIZES)


def conditions(*rows: list[int]) -> Padded:
    return Padded(torch.tensor(rows), torch.tensor([len(row) for row in rows]))


@pytest.mark.parametrize("change", VARIANTS, ids=str)
def test_decoding_invariants(change):
    assert [
        result
        for result in invariants.check_decoder(build_model(**change).eval(), invariants.random_inputs(SIZES))
        if not result.passed
    ] == []


def test_conditions_are_added_and_padding_has_no_effect():
    model = build_model().eval()
    tokens = torch.tensor([[2, 9, 11]])
    plain, _ = model(tokens, model.start(conditions([0])))
    both, _ = model(tokens, model.start(conditions([4, 7])))
    reordered, _ = model(tokens, model.start(conditions([7, 4])))
    without, _ = model(tokens, model.start(Padded(torch.zeros(1, 0, dtype=torch.long), torch.tensor([0]))))
    assert not torch.allclose(plain, both)
    torch.testing.assert_close(both, reordered)
    assert torch.equal(plain, without)


def test_sequences_longer_than_the_maximum_distance():
    model = build_model(max_distance=4).eval()
    tokens = torch.randint(4, 19, (1, 200))
    logits, _ = model(tokens, model.start(conditions([0])))
    assert logits.isfinite().all()


@pytest.mark.parametrize("intervals", [False, True])
def test_every_distance_vector_is_trained_by_crops(intervals):
    torch.manual_seed(0)
    model = build(replace(TINY, max_distance=None, voices=None, bar=None, intervals=intervals), GRID)
    tokens = torch.randint(5, 19, (2, 33))
    logits, _ = model(tokens[:, :-1], model.start(conditions([0], [0])))
    logits.sum().backward()
    biases = [layer.self_attn.attend.weigh.place for layer in model.layers]
    tables = [getattr(bias, "place", bias).table for bias in biases] + [bias.time for bias in biases if intervals]
    assert [table.shape[1] for table in tables] == [17] * 2 + [5] * (
        2 if intervals else 0
    )  # half a crop, and distance 0
    for table in tables:
        assert (table.grad.abs().sum(dim=(0, 2)) > 0).all()


def test_voice_and_beat_follow_the_encoding():
    tiny = replace(TINY, max_distance=None, voices=None, bar=None, intervals=False)
    grid, events = build(tiny, GRID), build(tiny, replace(GRID, voices=0))
    assert grid.beat.voice.num_embeddings == 4 and grid.beat.step.num_embeddings == 3
    assert not [*events.beat.parameters()]
    assert not [*build(replace(tiny, voices=0), GRID).beat.parameters()]


@pytest.mark.parametrize(
    ("change", "sizes", "message"),
    [
        ({"voices": 4}, {"voices": 0}, r"^voices=4: the encoding has no voices and no beat; leave model.voices out$"),
        ({"voices": 3}, {}, r"^voices=3: the encoding has 4 voices; leave model.voices out$"),
        ({"intervals": True}, {"voices": 0}, r"^intervals=true: the encoding has no voices and steps; use data.encodi"),
        (
            {"max_distance": 17},
            {},
            r"^max_distance=17 is more than half of the crop length 32: the vector of all larger",
        ),
        (
            {"max_distance": 17, "position": "none", "intervals": True},
            {},
            r"^max_distance=17 is more than half of the crop length 32",
        ),
    ],
)
def test_settings_that_do_not_fit_the_data(change, sizes, message):
    tiny = replace(TINY, max_distance=None, voices=None, bar=None, intervals=False)
    with pytest.raises(ConfigError, match=message):
        build(replace(tiny, **change), replace(GRID, **sizes))
    build(replace(tiny, position="rotary", max_distance=17), GRID)  # does not use distances


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, r"^layers=0 must be at least 1$"),
        ({"heads": 3}, r"^dim=128 cannot be divided among heads=3; choose a multiple of 3$"),
        ({"voices": -1}, r"^voices=-1 must be at least 0$"),
        (
            {"voices": 0, "intervals": True},
            r"^intervals=true needs the grid encoding: with voices=0 a position has no pitch",
        ),
        ({"dropout": 1.0}, r"^dropout=1.0 must be at least 0 and below 1$"),
    ],
)
def test_invalid_settings(change, message):
    with pytest.raises(ConfigError, match=message):
        replace(Config(), **change)
