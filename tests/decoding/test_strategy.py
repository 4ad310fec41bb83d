"""A decoder as a value: its settings, the n best, what is asked for, and a model that decodes faster."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.core.protocols import Hypothesis
from regard.decoding.strategies import beam
from regard.decoding.strategy import MAX_NBEST, DecodingStrategy, build, n_best, optimize_for_decoding


class Own(DecodingStrategy):
    """A decoder of somebody's own: it stays one however its settings change."""


def test_settings_are_changed_in_a_copy():
    decoding = build("beam", width=3)
    assert decoding.with_settings(width=8).config == beam.Config(beam_width=8) and decoding.beam_width == 3
    assert decoding.has_setting("width") and not decoding.has_setting("samples")
    assert (build("greedy").width, build("sample", samples=4).width) == (1, 4)
    with pytest.raises(ConfigError, match=r"unknown decoding 'bem'; did you mean 'beam'\?"):
        build("bem")


@pytest.mark.parametrize(
    ("name", "settings", "width"),
    [("beam", {"width": 3}, 7), ("beam", {"width": 9}, 9), ("greedy", {}, 7), ("sample", {"samples": 2}, 7)],
)
def test_the_n_best_come_from_a_beam_that_is_wide_enough(name, settings, width):
    decoding = Own(name, build(name, forbid=(4, 5), min_length=2, **settings).config)
    assert decoding.with_nbest(1) is decoding
    wider = decoding.with_nbest(7)
    assert type(wider) is Own and wider.name == "beam"
    assert (wider.config.width, wider.config.nbest) == (width, 7)
    assert (wider.config.forbid, wider.config.min_length) == ((4, 5), 2)


def test_more_than_a_batch_holds_is_refused():
    assert build("greedy").with_nbest(MAX_NBEST).config.nbest == MAX_NBEST
    with pytest.raises(ConfigError, match=r"^nbest=1000000 is too many to search for; ask for at most 1000$"):
        build("beam", width=3).with_nbest(1_000_000)


def test_several_begin_with_what_is_found_alone():
    def find(decoding):
        names = {1: [2], 4: [3, 2, 4, 5]}[decoding.width]
        return [[Hypothesis((name,), -float(name), -9.0) for name in names]]

    (found,) = n_best(find, build("beam", width=1), count=4)
    assert [own.tokens for own in found] == [(2,), (3,), (4,), (5,)]
    assert found[0].rank_score == -2.0 / 2  # the length penalty of the wider beam
    assert n_best(find, build("beam", width=4), count=4) == find(build("beam", width=4))


def test_what_is_asked_for_is_drawn_where_the_decoder_cannot_do_it():
    sampling = build("sample", top_k=3)
    assert sampling.with_overrides(seed=7, temperature=None) == sampling.with_settings(seed=7)
    greedy = Own("greedy", build("greedy", no_repeat=2).config)
    assert greedy.with_overrides(seed=None, samples=None) == greedy
    drawn = greedy.with_overrides(seed=7)
    assert type(drawn) is Own and drawn.name == "sample" and (drawn.config.seed, drawn.config.no_repeat) == (7, 2)


def test_a_model_without_a_faster_form_is_decoded_as_it_is():
    plain = torch.nn.Linear(2, 2)
    assert optimize_for_decoding(plain) is plain

    class Quick(torch.nn.Module):
        def for_decoding(self, precision):
            return precision

    assert optimize_for_decoding(Quick()) == "float32" and optimize_for_decoding(Quick(), "int8") == "int8"
