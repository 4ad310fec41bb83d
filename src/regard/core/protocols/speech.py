"""Interface between speech recognition models and the speech recognition task."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from regard.core.protocols import Decoder, Padded

if TYPE_CHECKING:
    from torch import Tensor


class SpeechFrames(NamedTuple):
    """Features of a batch of recordings, padded with zeros on the right."""

    frames: Tensor  # (b t m) log-mel energies relative to the loudest frame
    lengths: Tensor  # (b) frames of each recording


class SpeechBatch(NamedTuple):
    """Recordings and their transcripts."""

    source: SpeechFrames
    target: Padded  # (b t) BOS w1 … wn EOS


class SpeechModel(Decoder, Protocol):
    """A decoder of transcripts, whose source is a batch of `SpeechFrames`."""

    reduction: int  # frames of the input per state of the encoder

    def loss(self, batch: SpeechBatch, *, pad: int, smoothing: float = 0.0) -> Tensor:
        """Return the training loss, summed over the transcripts."""
