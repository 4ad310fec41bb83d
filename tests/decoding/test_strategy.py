"""DecodingStrategy: settings, n best, overrides, and models optimized for decoding."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.core.protocols import Hypothesis
from regard.decoding.strategies import beam
from regard.decoding.strategy import MAX_NBEST, DecodingStrategy, build, n_best, optimize_for_decoding


class Custom(DecodingStrategy):
    """A subclass that is preserved when settings change."""


def test_settings_are_changed_in_a_copy():
    decoding = build("beam", beam_width=3)
    assert decoding.with_settings(beam_width=8).config == beam.Config(beam_width=8) and decoding.width == 3
    assert decoding.has_setting("beam_width") and not decoding.has_setting("num_samples")
    assert (build("greedy").width, build("sample", num_samples=4).width) == (1, 4)
    with pytest.raises(ConfigError, match=r"'bem'; did you mean 'beam'\?"):
        build("bem")


@pytest.mark.parametrize(
    ("name", "settings", "width"),
    [
        ("beam", {"beam_width": 3}, 7),
        ("beam", {"beam_width": 9}, 9),
        ("greedy", {}, 7),
        ("sample", {"num_samples": 2}, 7),
    ],
)
def test_the_n_best_come_from_a_beam_that_is_wide_enough(name, settings, width):
    decoding = Custom(name, build(name, suppress_tokens=(4, 5), min_length=2, **settings).config)
    assert decoding.with_nbest(1) is decoding
    wider = decoding.with_nbest(7)
    assert type(wider) is Custom and wider.name == "beam"
    assert (wider.config.beam_width, wider.config.nbest) == (width, 7)
    assert (wider.config.suppress_tokens, wider.config.min_length) == ((4, 5), 2)


def test_too_many_hypotheses():
    assert build("greedy").with_nbest(MAX_NBEST).config.nbest == MAX_NBEST
    with pytest.raises(ConfigError, match=r"^nbest=1000000 is too large; request at most 1000$"):
        build("beam", beam_width=3).with_nbest(1_000_000)


def test_the_n_best_of_minimum_bayes_risk_are_samples():
    wider = build("mbr", num_samples=4).with_nbest(6)
    assert (wider.name, wider.config.num_samples, wider.config.nbest) == ("mbr", 6, 6)


def test_n_best_starts_with_the_single_best():
    def search(decoding):
        tokens = {1: [2], 4: [3, 2, 4, 5]}[decoding.width]
        return [[Hypothesis((token,), -float(token), -9.0) for token in tokens]]

    (hypotheses,) = n_best(search, build("beam", beam_width=1), count=4)
    assert [hypothesis.tokens for hypothesis in hypotheses] == [(2,), (3,), (4,), (5,)]
    assert hypotheses[0].rank_score == -2.0 / 2  # the length penalty of the wider beam
    assert n_best(search, build("beam", beam_width=4), count=4) == search(build("beam", beam_width=4))


def test_overrides_switch_to_sampling_if_the_strategy_lacks_them():
    sampling = build("sample", top_k=3)
    assert sampling.with_overrides(seed=7, temperature=None) == sampling.with_settings(seed=7)
    greedy = Custom("greedy", build("greedy", no_repeat_ngram_size=2).config)
    assert greedy.with_overrides(seed=None, num_samples=None) == greedy
    overridden = greedy.with_overrides(seed=7)
    assert (
        type(overridden) is Custom
        and overridden.name == "sample"
        and (overridden.config.seed, overridden.config.no_repeat_ngram_size) == (7, 2)
    )


def test_a_model_that_cannot_be_optimized_is_unchanged():
    plain = torch.nn.Linear(2, 2)
    assert optimize_for_decoding(plain) is plain

    class Quick(torch.nn.Module):
        def for_decoding(self, precision):
            return precision

    assert optimize_for_decoding(Quick()) == "float32" and optimize_for_decoding(Quick(), "int8") == "int8"
