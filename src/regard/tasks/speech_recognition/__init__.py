"""Speech recognition: transcribe recordings, and show for each token the part of the recording that it attends to."""

from __future__ import annotations

from typing import Any

from regard.core.data_specs import SpeechSpec
from regard.tasks.speech_recognition.task import TINY, Config, Options, SpeechRecognition, build, load

__all__ = ["TINY", "Config", "Options", "SpeechRecognition", "build", "load"]

VERB = "transcribe"
SPEC = SpeechSpec
EVALUATION_IMPORTS = (("jiwer", "speech"),)
DEFAULTS: dict[str, Any] = {
    "model": {"name": "las"},
    "decoding": {"name": "beam", "beam_width": 4},
    "training": {"optimizer": {"lr": 2e-3}, "schedule": {"warmup": 200}},
}
DEMO = [
    *("data.strings=3000", "data.digits=[1,3]", "data.batch_frames=4000", "data.snr=[20.0,40.0]"),
    *("data.time_masks=0", "data.band_masks=1", "model.preset=small", "model.dropout=0.1"),
    *("training.steps=500", "training.evaluation.every=500", "training.schedule.name=cosine", "decoding=greedy"),
]
