"""Calibration of a classifier: Guo et al. 2017. A confidence of 0.8 should be right in 80 % of the cases."""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn.functional import cross_entropy

NUM_BINS = 10
MAX_LOG_TEMPERATURE = math.log(20)
GOLDEN = (math.sqrt(5) - 1) / 2


def reliability(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Logits (n v) and labels (n) -> the expected calibration error, and the points of the reliability diagram.

    The confidence is the probability of the predicted label. The bin 90% holds those in (0.8, 0.9].
    """
    confidence, predicted = logits.double().softmax(dim=1).max(dim=1)
    is_correct = (predicted == labels).double()
    bins = ((confidence * NUM_BINS).ceil().long() - 1).clamp(0, NUM_BINS - 1)
    points, error = dict[str, float](), 0.0
    for index in bins.unique().tolist():
        inside = bins == index
        accuracy, mean_confidence = float(is_correct[inside].mean()), float(confidence[inside].mean())
        error += abs(accuracy - mean_confidence) * int(inside.sum()) / len(labels)
        name = f"reliability.{100 * (index + 1) // NUM_BINS}%"
        values = {"accuracy": accuracy, "confidence": mean_confidence, "count": float(inside.sum())}
        points |= {f"{name}.{key}": value for key, value in values.items()}
    return {"calibration_error": error, **points}


def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    """Return the temperature with the lowest loss, from 1/20 to 20, by golden-section search on its logarithm.

    The loss is convex in 1 / temperature, so it has one minimum. If all predictions are right it has none: every lower
    temperature has a lower loss. The result is then 1.
    """
    if bool((logits.argmax(dim=1) == labels).all()):
        return 1.0

    def loss(log_temperature: float) -> float:
        return float(cross_entropy(logits.double() / math.exp(log_temperature), labels))

    low, high = -MAX_LOG_TEMPERATURE, MAX_LOG_TEMPERATURE
    while high - low > 1e-4:
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        low, high = (low, right) if loss(left) < loss(right) else (left, high)
    return math.exp((low + high) / 2)
