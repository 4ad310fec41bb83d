"""The rule that selects the best weights: metric, noise floor, standard error, loss."""

from __future__ import annotations

import math

import pytest

from regard.training.checkpoint import BestEvaluation
from regard.training.selection import Candidate, decide


def best(score: float, loss: float | None = None, highest: float | None = None) -> BestEvaluation:
    return BestEvaluation(step=1, score=score, loss=loss, highest=highest)


def test_below_the_noise_floor_the_lower_loss_wins() -> None:
    """The case of a Transformer after 20 and 60 steps: BLEU 0.046 is not better than 0.018."""
    decision = decide(Candidate("bleu", 0.01756, 5.495, noise_floor=1.0), best(0.04648, 7.162))
    assert decision == (True, "loss (bleu below 1)")
    assert not decide(Candidate("bleu", 0.9, 7.5, noise_floor=1.0), best(0.04648, 7.162)).is_best


def test_above_the_noise_floor_the_metric_wins() -> None:
    assert decide(Candidate("bleu", 1.2, 9.0, noise_floor=1.0), best(0.5, 7.0)) == (True, "bleu")


@pytest.mark.parametrize(("score", "loss", "is_best"), [(9.8, 2.0, True), (10.2, 4.0, False), (10.2, 2.0, True)])
def test_within_the_standard_error_the_lower_loss_wins(score: float, loss: float, is_best: bool) -> None:
    decision = decide(Candidate("bleu", score, loss, standard_error=0.5, noise_floor=1.0), best(10.0, 3.0))
    assert decision == (is_best, "loss (bleu within its standard error 0.5)")


def test_beyond_the_standard_error_the_metric_wins_whatever_the_loss() -> None:
    assert decide(Candidate("bleu", 11.0, 9.0, standard_error=0.5), best(10.0, 3.0)) == (True, "bleu")
    assert decide(Candidate("bleu", 9.0, 1.0, standard_error=0.5), best(10.0, 3.0)) == (False, "bleu")


def test_the_loss_never_leads_away_from_the_highest_score() -> None:
    """Scores that fall a little each time stay within one standard error of the highest one."""
    state = best(9.6, 2.0, highest=10.0)
    assert not decide(Candidate("bleu", 9.3, 1.0, standard_error=0.5), state).is_best


def test_without_a_loss_the_metric_decides_alone() -> None:
    assert decide(Candidate("nats", -1.99, None, standard_error=0.5), best(-2.0)) == (True, "nats")
    assert decide(Candidate("bleu4", 0.2, math.nan, noise_floor=1.0), best(0.3)) == (False, "bleu4")


def test_a_score_that_is_not_finite_is_never_best() -> None:
    assert not decide(Candidate("bleu", None, 1.0), best(0.1, 2.0)).is_best
    assert decide(Candidate("bleu", 0.0, 1.0), BestEvaluation()) == (True, "first evaluation")
