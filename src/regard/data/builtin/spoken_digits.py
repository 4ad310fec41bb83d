"""Spoken digits: recordings of the Free Spoken Digit Dataset, joined into strings of digits of one speaker.

Six speakers said each digit 48 times in English. The official test recordings have the indices 0 to 4, of which 0 to 2
are included. A string has pauses and noise; the boundaries of its digits are known exactly. The recordings are licensed
under CC BY-SA 4.0: see spoken_digits.LICENSE.txt.
"""

from __future__ import annotations

import copy
import csv
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core import checksums
from regard.core.errors import ConfigError, did_you_mean
from regard.core.extras import require
from regard.core.seed import combine_seeds
from regard.data.examples import Splits
from regard.data.speech.audio_files import Waveform, resample
from regard.data.speech.augment import add_noise, change_speed
from regard.data.speech.features import Features, LogMel
from regard.data.speech.utterances import SpeechCollection, WordSpan

FOLDER = Path(__file__).parent
RATE = 8000  # samples per second of the recordings
SPEAKERS = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
SPLIT_INDICES = {"test": range(5), "valid": range(5, 10), "train": range(10, 50)}  # recordings of each split
HELD_OUT_STRINGS = {"valid": 200, "test": 400}
DIGIT_RMS = 0.1  # loudness to which recordings are scaled
PAUSE_SECONDS = (0.02, 0.3)  # between two digits
MARGIN_SECONDS = (0.0, 0.4)  # before the first and after the last digit; recordings of users may be trimmed
Reading = Literal["english", "korean", "digits"]
READINGS: dict[Reading, tuple[str, ...]] = {
    "english": ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    "korean": ("영", "일", "이", "삼", "사", "오", "육", "칠", "팔", "구"),
    "digits": tuple("0123456789"),
}


class SpokenDigit(NamedTuple):
    """One recording."""

    digit: int
    speaker: str
    take: int  # 0 … 49 of this speaker and digit
    waveform: Waveform


@lru_cache(maxsize=1)
def load() -> tuple[SpokenDigit, ...]:
    """Return all recordings, at 8,000 samples per second and equal loudness."""
    with (FOLDER / "spoken_digits.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    library: Any = require("soundfile", extra="speech")
    samples, _ = library.read(FOLDER / "spoken_digits.ogg", dtype="float32")
    stops = np.cumsum([int(row["samples"]) for row in rows])
    parts = np.split(samples, stops[:-1])
    return tuple(
        SpokenDigit(int(row["digit"]), row["speaker"], int(row["index"]), _equal_loudness(part))
        for row, part in zip(rows, parts, strict=True)
    )


def _equal_loudness(waveform: Waveform) -> Waveform:
    scaled: Waveform = (waveform * (DIGIT_RMS / max(float(np.sqrt(np.mean(waveform**2))), 1e-4))).astype(np.float32)
    return scaled


class StringSettings(NamedTuple):
    """Settings of generated strings."""

    num_digits: tuple[int, int] = (1, 7)  # minimum and maximum
    snr: tuple[float, float] = (10.0, 40.0)  # signal-to-noise ratio in decibels, minimum and maximum
    reading: Reading = "english"
    speeds: tuple[float, ...] = (1.0,)  # of training strings


class StringPlan(NamedTuple):
    """The content of one string."""

    recordings: tuple[int, ...]  # indices into the recordings of the split
    pauses: tuple[float, ...]  # seconds before each digit and after the last
    snr: float
    noise_seed: int


class DigitStrings:
    """The strings of one split, generated from a seed: the same string for the same index."""

    def __init__(
        self, recordings: Sequence[SpokenDigit], count: int, settings: StringSettings, *, log_mel: LogMel, seed: int
    ) -> None:
        self.recordings, self.settings, self.log_mel = recordings, settings, log_mel
        self._by_speaker = [
            [i for i, recording in enumerate(recordings) if recording.speaker == speaker]
            for speaker in sorted({recording.speaker for recording in recordings})
        ]
        self.plans = [self._plan(np.random.default_rng(combine_seeds(seed, index))) for index in range(count)]
        self.transcripts = self._transcripts()

    def __len__(self) -> int:
        return len(self.plans)

    def with_plans(self, plans: Sequence[StringPlan]) -> DigitStrings:
        """Return other strings of the same recordings."""
        changed = copy.copy(self)
        changed.plans = list(plans)
        changed.transcripts = changed._transcripts()
        return changed

    def _transcripts(self) -> tuple[str, ...]:
        words = READINGS[self.settings.reading]
        return tuple(" ".join(words[self.recordings[i].digit] for i in plan.recordings) for plan in self.plans)

    def _plan(self, random: np.random.Generator) -> StringPlan:
        low, high = self.settings.num_digits
        speaker = self._by_speaker[random.integers(len(self._by_speaker))]
        chosen = tuple(int(i) for i in random.choice(speaker, int(random.integers(low, high + 1))))
        pauses = random.uniform(*PAUSE_SECONDS, len(chosen) + 1)
        pauses[[0, -1]] = random.uniform(*MARGIN_SECONDS, 2)
        snr = float(random.uniform(*self.settings.snr))
        return StringPlan(chosen, tuple(pauses.tolist()), snr, int(random.integers(2**62)))

    @cache  # noqa: B019  # as many entries as speeds, for the life of the data
    def _waveforms(self, speed: float) -> list[Waveform]:
        """Return the recordings at a speed, at the sampling rate of the features."""
        resampled = [resample(recording.waveform, RATE, self.log_mel.rate) for recording in self.recordings]
        return resampled if speed == 1 else [change_speed(waveform, speed) for waveform in resampled]

    def num_frames(self) -> NDArray[np.int64]:
        return np.array([self.log_mel.num_frames(self._bounds(plan, 1.0)[-1][1]) for plan in self.plans], np.int64)

    def features(self, index: int) -> Features:
        return self.log_mel(self.waveform(index))

    def training_features(self, index: int, random: np.random.Generator) -> Features:
        """Return features at a random speed, with random noise."""
        speed = self.settings.speeds[random.integers(len(self.settings.speeds))]
        snr = float(random.uniform(*self.settings.snr))
        return self.log_mel(self._compose(self.plans[index], speed, snr, random))

    def waveform(self, index: int) -> Waveform:
        plan = self.plans[index]
        return self._compose(plan, 1.0, plan.snr, np.random.default_rng(plan.noise_seed))

    def word_spans(self, index: int) -> tuple[WordSpan, ...]:
        bounds = self._bounds(self.plans[index], 1.0)[:-1]
        words, rate = self.transcripts[index].split(), self.log_mel.rate
        return tuple(
            WordSpan(word, start / rate, stop / rate) for word, (start, stop) in zip(words, bounds, strict=True)
        )

    def _bounds(self, plan: StringPlan, speed: float) -> list[tuple[int, int]]:
        """Return first and last sample of each digit, and of the end of the string."""
        bounds, position = [], 0
        for recording, pause in zip(plan.recordings, plan.pauses, strict=False):
            start = position + round(pause * self.log_mel.rate)
            position = start + len(self._waveforms(speed)[recording])
            bounds.append((start, position))
        return [*bounds, (position, position + round(plan.pauses[-1] * self.log_mel.rate))]

    def _compose(self, plan: StringPlan, speed: float, snr: float, random: np.random.Generator) -> Waveform:
        bounds = self._bounds(plan, speed)
        waveform = np.zeros(bounds[-1][1], np.float32)
        for recording, (start, stop) in zip(plan.recordings, bounds, strict=False):
            waveform[start:stop] = self._waveforms(speed)[recording]
        return add_noise(waveform, snr, random, power=DIGIT_RMS**2).clip(-1, 1)

    def checksum(self) -> str:
        return checksums.hash_rows(zip(self.plans, self.transcripts, strict=True))


def make_strings(
    count: int, settings: StringSettings, *, log_mel: LogMel, seed: int, held_out_speaker: str = ""
) -> SpeechCollection:
    """Generate the splits; no recording is in two of them. Only the extra metrics use the held-out speaker."""
    check_speaker(held_out_speaker)
    sizes = {"train": count} | {split: min(count, size) for split, size in HELD_OUT_STRINGS.items()}
    splits = {
        split: strings_of(
            split, size, settings, log_mel=log_mel, seed=seed, speakers=[s for s in SPEAKERS if s != held_out_speaker]
        )
        for split, size in sizes.items()
    }
    return SpeechCollection(Splits(splits))


def strings_of(
    split: str, count: int, settings: StringSettings, *, log_mel: LogMel, seed: int, speakers: Sequence[str]
) -> DigitStrings:
    """Generate strings from the recordings of a split and of these speakers."""
    recordings = [r for r in load() if r.take in SPLIT_INDICES[split] and r.speaker in speakers]
    split_seed = combine_seeds(seed, list(SPLIT_INDICES).index(split))
    return DigitStrings(recordings, count, settings, log_mel=log_mel, seed=split_seed)


def check_speaker(name: str) -> None:
    """Raise a ConfigError unless a name is empty or that of a speaker."""
    if name and name not in SPEAKERS:
        raise ConfigError(f"held_out_speaker={name!r}: no such speaker; {did_you_mean(name, SPEAKERS)}")
