"""Tagging: find the entities in sentences, such as persons, places and times."""

from __future__ import annotations

from typing import Any

from regard.core.data_specs import TaggingSpec
from regard.tasks.tagging.task import TINY, Config, Options, Tagging, build, load, measure

__all__ = ["TINY", "Config", "Options", "Tagging", "build", "load", "measure"]

VERB = "tag"
SPEC = TaggingSpec
DEFAULTS: dict[str, Any] = {
    "model": {"name": "tagger"},
    "training": {"epochs": 10, "optimizer": {"lr": 0.002}, "schedule": {"warmup": 100}, "evaluation": {"patience": 4}},
}
AUTO_MODELS = {0.0: "bilstm_crf", 5.0: "tagger"}  # least training.minutes of own data -> model, if none is named
DEMO = ["data.examples=3000", "model.layers=1", "training.epochs=3", "training.optimizer.lr=0.003"]
EVALUATION_IMPORTS = (("seqeval.metrics", "text"), ("seqeval.scheme", "text"))
DATA_SETTINGS = ("path", "dataset", "format", "scheme")
