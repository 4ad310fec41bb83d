"""Music task: models pieces as token sequences, and continues, harmonizes, fills or generates pieces."""

from __future__ import annotations

from typing import Any

from regard.core.data_specs import MusicSpec
from regard.tasks.music.task import TINY, Config, Music, Options, build, load

__all__ = ["TINY", "Config", "Music", "Options", "build", "load"]

VERB = "generate"
SPEC = MusicSpec
DEFAULTS: dict[str, Any] = {
    "model": {"name": "music_transformer", "dropout": 0.2},
    "training": {"minutes": 15.0, "optimizer": {"lr": 1e-3}, "schedule": {"warmup": 200}},
    "decoding": {"name": "sample"},
}
DEMO = [
    *("data.crop=256", "data.window=256", "training.steps=300", "training.optimizer.lr=0.003"),
    *("training.schedule.warmup=50", "training.evaluation.every=300", "decoding.temperature=0.9"),
]
DATA_SETTINGS = ("path", "limit")
