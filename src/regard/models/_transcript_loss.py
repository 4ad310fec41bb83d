"""Training loss of speech models that predict one token after the other."""

from __future__ import annotations

from torch import Tensor

from regard.core.protocols import Decoder
from regard.core.protocols.speech import SpeechBatch


def transcript_loss(model: Decoder, batch: SpeechBatch, *, pad: int, smoothing: float = 0.0) -> Tensor:
    """Return the cross entropy of the transcripts with teacher forcing, summed over tokens and EOS."""
    features, _ = model.features(batch.target.tokens[:, :-1], model.start(batch.source))
    labels = batch.target.tokens[:, 1:]
    is_token = labels != pad
    return model.readout.loss(features[is_token], labels[is_token], smoothing=smoothing)
