"""Extra metrics on the built-in digits: single digits, noise, longer strings, an unseen speaker, and a baseline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from regard.data.builtin import spoken_digits
from regard.data.builtin.spoken_digits import SPEAKERS, DigitStrings, SpokenDigit, StringPlan, StringSettings
from regard.data.speech.audio_files import resample
from regard.data.speech.features import Features, LogMel
from regard.data.speech.utterances import Utterances
from regard.tasks.speech_recognition.dtw import nearest_templates

if TYPE_CHECKING:
    from regard.tasks.speech_recognition.task import Config

NUM_STRINGS = 200  # of each extra metric
NOISE_LEVELS = (20, 10, 5, 0)  # signal-to-noise ratios in dB
CLEAN_SNR = 40.0  # dB of single digits
MAX_TEMPLATES = 1200  # training recordings that the DTW baseline compares with: every second one
ScoreSplit = Callable[[Utterances], dict[str, float]]


def robustness_scores(config: Config, split: str, score: ScoreSplit) -> dict[str, float]:
    """Return all extra metrics. `score` computes the error rates of some utterances."""
    speakers = [name for name in SPEAKERS if name != config.held_out_speaker]

    def error(settings: StringSettings, speakers: list[str], offset: int) -> float:
        strings = spoken_digits.strings_of(
            split, NUM_STRINGS, settings, log_mel=config.log_mel, seed=config.seed + offset, speakers=speakers
        )
        return score(strings)["word_error"]

    digits = single_digits(config, split, speakers)
    scores = {
        "single_digit_accuracy": score(digits)["exact"],
        "dtw_accuracy": dtw_accuracy(config.log_mel, split, speakers),
    }
    for snr in NOISE_LEVELS:
        scores[f"snr_{snr}_error"] = error(config.string_settings(snr=(float(snr), float(snr))), speakers, 1)
    longest = config.digits[1]
    scores["longer_error"] = error(config.string_settings(num_digits=(longest + 1, 2 * longest)), speakers, 2)
    if config.held_out_speaker:
        scores["unseen_speaker_error"] = error(config.string_settings(), [config.held_out_speaker], 3)
    return scores


def single_digits(config: Config, split: str, speakers: list[str]) -> DigitStrings:
    """Return every recording of a split as a string of one digit, with little noise."""
    strings = spoken_digits.strings_of(
        split, 0, config.string_settings(), log_mel=config.log_mel, seed=config.seed, speakers=speakers
    )
    plans = [StringPlan((i,), (0.2, 0.2), CLEAN_SNR, i) for i in range(len(strings.recordings))]
    return strings.with_plans(plans)


def dtw_accuracy(log_mel: LogMel, split: str, speakers: list[str]) -> float:
    """Return the share of single digits whose nearest training recording by DTW is the same digit."""
    train, test = (_recordings(name, speakers) for name in ("train", split))
    templates = train[:: max(1, len(train) // MAX_TEMPLATES)]
    nearest = nearest_templates([_features(log_mel, r) for r in test], [_features(log_mel, r) for r in templates])
    return float(np.mean([templates[i].digit == r.digit for i, r in zip(nearest, test, strict=True)]))


def _recordings(split: str, speakers: list[str]) -> list[SpokenDigit]:
    indices = spoken_digits.SPLIT_INDICES[split]
    return [r for r in spoken_digits.load() if r.take in indices and r.speaker in speakers]


def _features(log_mel: LogMel, recording: SpokenDigit) -> Features:
    return log_mel(resample(recording.waveform, spoken_digits.RATE, log_mel.rate))


def signatures(config: Config) -> dict[str, str]:
    """Return how the metrics are computed."""
    strings = f"word error rate of {NUM_STRINGS} strings"
    longest = config.digits[1]
    unseen = {"unseen_speaker_error": f"{strings} of {config.held_out_speaker}"} if config.held_out_speaker else {}
    return {
        "single_digit_accuracy": "share of the single recordings of the split that are transcribed without error",
        "dtw_accuracy": "share of the single recordings whose nearest training recording by dynamic time warping "
        "of the log-mel frames is the same digit",
        "snr_N_error": f"{strings} with noise at N dB",
        "longer_error": f"{strings} of {longest + 1} to {2 * longest} digits",
    } | unseen
