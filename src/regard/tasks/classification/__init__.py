"""Classification: predict the labels of documents, and show the words and sentences that the model attends to."""

from __future__ import annotations

from typing import Any

from regard.core.data_specs import DocumentSpec
from regard.tasks.classification.task import TINY, Classification, Config, Options, build, load, measure

__all__ = ["TINY", "Classification", "Config", "Options", "build", "load", "measure"]

VERB = "classify"
VERBS = ("classify", "embed")
VERB_OPTIONS = {"embed": {"embed": True}}
SPEC = DocumentSpec
DEFAULTS: dict[str, Any] = {
    "model": {"name": "hierarchical"},
    "training": {"epochs": 6, "optimizer": {"lr": 0.003}, "schedule": {"warmup": 100}, "evaluation": {"patience": 3}},
}
DEMO = ["training.epochs=4", "training.optimizer.lr=0.003", "training.schedule.warmup=100"]
DATA_SETTINGS = ("path", "dataset", "label", "text", "header", "valid", "test")
