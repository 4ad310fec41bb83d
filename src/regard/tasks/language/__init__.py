"""Language modeling task: predicts the next token of plain text and generates continuations."""

from __future__ import annotations

from typing import Any

from regard.core.data_specs import LanguageSpec
from regard.tasks.language.task import Config, Language, Options, build, load

__all__ = ["Config", "Language", "Options", "build", "load"]

VERB = "generate"
VERBS = ("generate", "score", "embed")
VERB_OPTIONS = {"score": {"score": True}, "embed": {"embed": True}}
SPEC = LanguageSpec
DEFAULTS: dict[str, Any] = {
    "model": {"name": "gpt", "dropout": 0.1},
    "training": {"minutes": 15.0, "optimizer": {"name": "adamw", "lr": 1e-3, "weight_decay": 0.1}},
    "decoding": {"name": "sample", "temperature": 0.8},
}
DEMO = [
    *("data.tokenizer=bpe", "data.vocab_size=1000", "data.context=64", "data.batch_size=32"),
    *("model=gpt", "model.layers=3", "model.dim=128", "model.dropout=0"),
    *("training.steps=400", "training.optimizer.lr=0.002", "training.schedule.warmup=50"),
    "training.evaluation.every=400",
]
DATA_SETTINGS = ("paths", "dataset")
