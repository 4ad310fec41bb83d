"""Diverse beam search: different first tokens, a penalty for repeated choices, and model scores."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.decoding.search import SearchState
from regard.decoding.strategies import diverse_beam


def state(length, width=3):
    unused = dict.fromkeys(SearchState._fields)
    return SearchState(
        **unused | {"lengths": torch.tensor([length]), "cum_log_probs": torch.zeros(1, width, dtype=torch.float64)}
    )


def choice(scores, length, **settings):
    """Scores (v) of three equal hypotheses -> their tokens and sums."""
    spec = diverse_beam.build(diverse_beam.Config(beam_width=3, **settings))
    candidates = spec.choose(torch.tensor(scores).expand(1, 3, len(scores)), state(length))
    return candidates.tokens[0].tolist(), candidates.cum_log_probs[0].tolist()


def test_first_tokens_differ():
    assert choice([-9.0, -1.0, -5.0, -20.0], length=0, diversity=0.0)[0] == [1, 2, 0]


def test_a_token_costs_more_the_more_hypotheses_chose_it():
    scores = [-2.5, -1.0, -9.0]
    assert choice(scores, length=1, diversity=0.0)[0] == [1, 1, 1]
    assert choice(scores, length=1, diversity=1.0)[0] == [1, 1, 0]
    assert choice(scores, length=1, diversity=2.0)[0] == [1, 0, 1]


def test_scores_are_without_the_penalty():
    tokens, sums = choice([-2.5, -1.0, -9.0], length=1, diversity=2.0)
    assert sums == [[-2.5, -1.0, -9.0][token] for token in tokens]


def test_a_negative_penalty_is_refused():
    with pytest.raises(ConfigError, match="diversity=-1"):
        diverse_beam.Config(diversity=-1)
