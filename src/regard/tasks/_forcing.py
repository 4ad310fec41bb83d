"""Teacher forcing: a model is given the true tokens before each one and asked for the next."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.core.protocols import Decoder, Loss
from regard.data.batching import PairBatch


def teacher_forced(model: Decoder, batch: PairBatch, *, pad: int, smoothing: float = 0.0) -> Loss:
    """A batch -> the cross entropy of its target tokens and end marks, summed; padding is not counted."""
    features, _ = model.features(batch.target.tokens[:, :-1], model.start(batch.source))
    labels = batch.target.tokens[:, 1:]
    real = labels != pad
    total = model.readout.loss(features[real], labels[real], smoothing=smoothing)
    return Loss(total, int((batch.target.lengths - 1).sum()))


def log_probabilities(model: Decoder, source: Any, tokens: Tensor) -> Tensor:
    """Tokens (b t+1), the first of them given -> log p (b t v) of what comes at each place after it."""
    logits, _ = model(tokens[:, :-1], model.start(source))
    return logits.float().log_softmax(dim=-1)


def picked(scores: Tensor, tokens: Tensor) -> Tensor:
    """Log p (b t v) and tokens (b t+1) -> log p (b t) of each token but the first."""
    return scores.gather(-1, tokens[:, 1:, None])[..., 0]
