"""Recommendation task: predicts the next item or the rating of an item for a user, with explanations."""

from __future__ import annotations

from typing import Any

from regard.core.data_specs import RecommendationSpec
from regard.tasks.recommendation.task import TINY, Config, Options, Recommendation, build, load, measure

__all__ = ["TINY", "Config", "Options", "Recommendation", "build", "load", "measure"]

VERB = "recommend"
SPEC = RecommendationSpec
DEFAULTS: dict[str, Any] = {
    "model": {"name": "recommender"},
    "training": {"epochs": 40, "optimizer": {"lr": 0.003}, "schedule": {"warmup": 50}, "evaluation": {"patience": 10}},
}
DEMO = ["training.epochs=20", "training.schedule.warmup=50"]
