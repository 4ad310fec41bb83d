"""Captioning: describe images in a sentence, and show for each word the attended region of the image."""

from __future__ import annotations

from typing import Any

from regard.core.data_specs import CaptioningSpec
from regard.tasks.captioning.task import TINY, Captioning, Config, Options, build, load

__all__ = ["TINY", "Captioning", "Config", "Options", "build", "load"]

VERB = "caption"
SPEC = CaptioningSpec
DEFAULTS: dict[str, Any] = {
    "model": {"name": "captioner"},
    "decoding": {"name": "beam", "beam_width": 5, "no_repeat_ngram_size": 6},
    "training": {"optimizer": {"lr": 1e-3}, "schedule": {"warmup": 200}},
}
DEMO = [
    *("data.scenes=2000", "model.dim=128", "model.embedding=64", "model.feature_dim=64", "model.coverage_weight=0"),
    *("training.steps=400", "training.evaluation.every=400", "decoding=greedy"),
]
