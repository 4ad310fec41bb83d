"""The window reads the fixed tokens around a step, with a place for each of them, and starts with zeros."""

from dataclasses import replace

import pytest
import torch

from regard.core.data_specs import MusicSpec
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.core.protocols.music import MusicCondition
from regard.models._lookahead_encoder import WindowEncoder
from regard.models.music_transformer import TINY, build

SIZES = MusicSpec(num_conditions=23, vocab_size=19, max_length=40, crop_length=32, voices=4, has_fixed_tokens=True)


def window():
    torch.manual_seed(0)
    encoder = WindowEncoder(19, 8, voices=4, window=(1, 2))
    torch.nn.init.normal_(encoder.out.weight)
    return encoder


@torch.no_grad()
def test_a_position_reads_the_steps_of_its_window_only():
    encoder, tokens = window(), torch.randint(4, 19, (1, 38))  # the last step has two of four voices
    before = encoder(tokens)
    assert before.shape == (1, 38, 8)
    changed = tokens.clone()
    changed[0, 4 * 5 + 3] = 0 if tokens[0, 4 * 5 + 3] else 1
    steps = (encoder(changed) - before).abs().sum(dim=2)[0].nonzero()[:, 0] // 4
    assert steps.unique().tolist() == [3, 4, 5, 6]  # two steps before the change to one step after it


@torch.no_grad()
def test_voices_have_features_of_their_own():
    features = window()(torch.randint(4, 19, (1, 16)))
    assert not torch.allclose(features[0, 4], features[0, 5])


def source(tokens):
    return MusicCondition(
        torch.zeros(2, 1, dtype=torch.long), torch.ones(2, dtype=torch.long), Padded(tokens, torch.tensor([32, 32]))
    )


@torch.no_grad()
def test_the_window_of_a_new_model_changes_nothing_and_a_trained_window_only_pieces_with_fixed_tokens():
    torch.manual_seed(0)
    model = build(replace(TINY, lookahead_window=(1, 2)), SIZES).eval()
    fixed = torch.zeros(2, 32, dtype=torch.long)
    fixed[0, ::4] = torch.randint(4, 19, (8,))
    tokens = torch.randint(4, 19, (2, 32))
    encoder, model.sight.window = model.sight.window, None
    without, _ = model.features(tokens, model.start(source(fixed)))
    model.sight.window = encoder
    new, _ = model.features(tokens, model.start(source(fixed)))
    torch.testing.assert_close(new, without)
    torch.nn.init.normal_(encoder.out.weight)
    trained, _ = model.features(tokens, model.start(source(fixed)))
    assert not torch.allclose(trained[0], without[0])
    torch.testing.assert_close(trained[1], without[1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lookahead_window": (-1, 2)}, r"^lookahead_window=\[-1, 2\] must be at least 0$"),
        (
            {"lookahead_window": (1, 2), "voices": 0, "intervals": False},
            r"^lookahead_window needs the grid encoding: with voices=0 a position has no step$",
        ),
    ],
)
def test_windows_that_are_impossible_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        replace(TINY, **changes)
