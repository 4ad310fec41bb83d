"""Rule for all experiments that train: models are compared only after their validation curves have flattened."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

NUM_EVALUATIONS = 6  # of a training, at equal distances
MAX_LATE_GAIN = 0.1  # of the improvement of a curve, in its last third
LATE_GAIN = "late gain"  # figure of a cell: fraction of the improvement that the last third of its training added
MIN_POINTS = 3  # a shorter curve has no last third


def late_gain(curve: Sequence[float], *, higher_is_better: bool, resolution: float = 0.0) -> float:
    """Return the fraction of the improvement of a validation curve that its last third added.

    The improvement is measured from the first evaluation to the best one. A curve that never improves has a late gain
    of 0, and so has one whose last third adds no more than `resolution`, the difference that does not matter. A curve
    of fewer than three evaluations has a late gain of 1: it is unknown whether training has ended.
    """
    sign = 1.0 if higher_is_better else -1.0
    values = [sign * value for value in curve if math.isfinite(value)]
    if len(values) < MIN_POINTS:
        return 1.0
    before = values[: len(values) - len(values) // 3]
    late, total = max(values) - max(before), max(values) - values[0]
    return 0.0 if total <= 0 or late <= resolution else late / total


def describe_rule(curve: str) -> str:
    """Describe the rule in one sentence; `curve` names the metric."""
    return (
        f"Models are compared only if the last third of each training adds at most {MAX_LATE_GAIN:.0%} of the"
        f" improvement of the {curve}."
    )


def why_unfinished(late_gains: Mapping[str, float], *, longer: str) -> str:
    """Return the reason why models cannot be compared yet, in one sentence; empty if all have reached their plateau."""
    if not late_gains:
        return (
            "The stored figures are of shorter trainings without validation curves, which cannot show that training had"
            " ended; the command below measures again."
        )
    unfinished = {name: gain for name, gain in late_gains.items() if gain > MAX_LATE_GAIN}
    if not unfinished:
        return ""
    listed = ", ".join(f"{name} ({gain:.0%})" for name, gain in unfinished.items())
    return f"Still improving in the last third of the training: {listed}; {longer}."
