"""Augmentation of speech: SpecAugment (Park et al. 2019), speed perturbation (Ko et al. 2015) and noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from regard.core.extras import require
from regard.data.speech.audio_files import Waveform, resample
from regard.data.speech.features import Features

SPEED_BASE = 100  # speeds are multiples of 1/100
MAX_TIME_FRACTION = 0.2  # of a recording that one time mask may hide
NOISE_POLE = 0.9  # of the filter that turns white noise into noise with more low frequencies


class SpecAugment(NamedTuple):
    """Masks over time and over bands; a masked value is 0, the middle of the range."""

    time_masks: int
    max_time: int  # frames of a mask
    band_masks: int
    max_bands: int  # bands of a mask

    def __call__(self, features: Features, random: np.random.Generator) -> Features:
        """Features (t m) -> a copy with random masks."""
        masked = features.copy()
        num_frames, num_bands = features.shape
        for _ in range(self.time_masks):
            start, stop = _span(num_frames, min(self.max_time, int(MAX_TIME_FRACTION * num_frames)), random)
            masked[start:stop] = 0
        for _ in range(self.band_masks):
            start, stop = _span(num_bands, min(self.max_bands, num_bands), random)
            masked[:, start:stop] = 0
        return masked


def _span(length: int, max_width: int, random: np.random.Generator) -> tuple[int, int]:
    width = int(random.integers(0, max_width + 1))
    start = int(random.integers(0, length - width + 1))
    return start, start + width


def change_speed(waveform: Waveform, speed: float) -> Waveform:
    """Play a waveform faster or slower, which also changes its pitch."""
    ratio = Fraction(round(speed * SPEED_BASE), SPEED_BASE)
    return resample(waveform, ratio.numerator, ratio.denominator)


def add_noise(waveform: Waveform, snr: float, random: np.random.Generator, *, power: float | None = None) -> Waveform:
    """Add noise with a signal-to-noise ratio in decibels. Half of the noises have more low frequencies.

    `power` is the mean square of the speech; None: that of the waveform.
    """
    noise = random.standard_normal(len(waveform), dtype=np.float32)
    if random.random() < 0.5:
        noise = require("scipy.signal", extra="speech").lfilter([1.0], [1.0, -NOISE_POLE], noise).astype(np.float32)
    speech_power = float(np.mean(waveform**2)) if power is None else power
    noise_power = max(float(np.mean(noise**2)), 1e-12)
    scale = math.sqrt(speech_power / 10 ** (snr / 10) / noise_power)
    noisy: Waveform = waveform + np.float32(scale) * noise
    return noisy
