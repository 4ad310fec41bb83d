"""Utterances: recordings with transcripts, in splits. Built-in strings of digits and files have the same interface."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.data.examples import Splits
from regard.data.speech.audio_files import Waveform
from regard.data.speech.features import Features


class WordSpan(NamedTuple):
    """A word with its true boundaries."""

    text: str
    start: float  # seconds
    stop: float


class Utterances(Protocol):
    """The utterances of one split."""

    transcripts: tuple[str, ...]

    def __len__(self) -> int: ...

    def num_frames(self) -> NDArray[np.int64]:
        """(n): frames of each utterance at normal speed."""

    def features(self, index: int) -> Features:
        """Return the features (t m) of an utterance."""

    def training_features(self, index: int, random: np.random.Generator) -> Features:
        """Return the features (t m) at a random speed, with random noise if the data is generated."""

    def waveform(self, index: int) -> Waveform:
        """Return the samples of an utterance."""

    def word_spans(self, index: int) -> tuple[WordSpan, ...]:
        """Return the words with their true boundaries; empty if they are not known."""

    def checksum(self) -> str:
        """Return a checksum of recordings and transcripts."""


class SpeechCollection(NamedTuple):
    """Splits, and remarks for the user."""

    splits: Splits[Utterances]
    remarks: tuple[str, ...] = ()

    def split(self, name: str) -> Utterances:
        """Return the utterances of a split, or raise an error that lists the existing splits."""
        return self.splits[name]
