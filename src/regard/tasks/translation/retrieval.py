"""Choice between the hypotheses of a model and the targets of similar training pairs.

Both compete by minimum Bayes risk (`consensus.py`). The weight of a retrieved target falls with the distance of its
source, as in nearest-neighbor machine translation (Khandelwal et al. 2021), so that an exact match outweighs a beam.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from regard.core.prediction import Prediction
from regard.data.text.translation_memory import Match
from regard.tasks.translation.consensus import expected_utilities

MIN_DISTANCE = 0.01  # of an exact match, which is 100 times as heavy as a source without anything in common
Weighted = tuple[Prediction, float]


def choose(
    hypotheses: Sequence[Prediction], retrieved: Sequence[Match], *, weight: float, count: int
) -> list[Prediction]:
    """Return the `count` candidates with the highest expected utility, which is their ranking score.

    `weight` is the share of the memory: 0 the hypotheses decide, 1 the memory decides. A retrieved target that is also
    a hypothesis counts as a hypothesis. Without any retrieved target the hypotheses are unchanged.
    """
    if not retrieved:
        return list(hypotheses[:count])
    total = len(retrieved) * (1 - weight)
    candidates: dict[str, Weighted] = {}
    for prediction in hypotheses:
        _add(candidates, prediction, total / len(hypotheses))
    for match in retrieved:
        prediction = Prediction(
            match.target,
            remarks=(f"target of a training pair (similarity {match.similarity:.2f}): {match.source}",),
            data={"retrieved": {"source": match.source, "similarity": round(match.similarity, 4)}},
        )
        _add(candidates, prediction, weight / (1 - match.similarity + MIN_DISTANCE))
    positive = [item for item in candidates.values() if item[1] > 0]
    utilities = expected_utilities([prediction.text for prediction, _ in positive], [each for _, each in positive])
    ranked = sorted(zip(utilities, positive, strict=True), key=lambda pair: -pair[0])
    return [replace(prediction, ranking_score=utility) for utility, (prediction, _) in ranked[:count]]


def _add(candidates: dict[str, Weighted], prediction: Prediction, weight: float) -> None:
    first, before = candidates.get(prediction.text, (prediction, 0.0))
    candidates[prediction.text] = first, before + weight
