"""Selection of the best weights: the metric decides, or the validation loss where the metric is noise."""

from __future__ import annotations

import math
from typing import NamedTuple

from regard.training.checkpoint import BestEvaluation


class Candidate(NamedTuple):
    """An evaluation that may become the best one. Scores have the sign that makes higher better."""

    metric: str
    score: float | None  # None: not finite, or no validation data
    loss: float | None  # validation loss, if the task computes one and it is not the metric itself
    standard_error: float = 0.0  # of the score
    noise_floor: float | None = None  # score below which its changes are noise


class Decision(NamedTuple):
    """The decision about an evaluation, best so far or not, and the rule that decided."""

    is_best: bool
    rule: str


def decide(candidate: Candidate, best: BestEvaluation) -> Decision:
    """Compare an evaluation with the best one so far.

    Of two scores below the noise floor, or within the standard error of the highest score so far, the lower validation
    loss wins. Otherwise the higher score wins. While BLEU is still noise, the loss already decreases.
    """
    score, metric = candidate.score, candidate.metric
    if score is None:
        return Decision(False, f"no finite {metric}")
    if best.score is None:
        return Decision(True, "first evaluation")
    highest = best.score if best.highest is None else max(best.highest, best.score)
    floor = candidate.noise_floor
    if floor is not None and max(score, highest) < floor:
        return _by_loss(candidate, best, f"{metric} below {floor:g}")
    if abs(score - highest) <= candidate.standard_error or score == best.score:
        error = candidate.standard_error
        return _by_loss(
            candidate, best, f"{metric} within its standard error {error:.3g}" if error else f"equal {metric}"
        )
    return Decision(score > highest, metric)


def _by_loss(candidate: Candidate, best: BestEvaluation, reason: str) -> Decision:
    """Let the lower loss win; without a loss, the score."""
    if candidate.loss is None or not math.isfinite(candidate.loss):
        score = candidate.score if candidate.score is not None else -math.inf
        return Decision(best.score is None or score > best.score, candidate.metric)
    return Decision(best.loss is None or candidate.loss < best.loss, f"loss ({reason})")
