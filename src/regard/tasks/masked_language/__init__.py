"""Masked language modeling task: predicts masked tokens. The pretraining of BERT, RoBERTa, ALBERT and XLNet."""

from __future__ import annotations

from typing import Any

from regard.core.data_specs import MaskedLMSpec
from regard.tasks.masked_language.task import Config, MaskedLanguage, Options, build, load

__all__ = ["Config", "MaskedLanguage", "Options", "build", "load"]

VERB = "fill"
VERBS = ("fill", "embed")
VERB_OPTIONS = {"embed": {"embed": True}}
SPEC = MaskedLMSpec
DEFAULTS: dict[str, Any] = {
    "model": {"name": "bert"},
    "training": {"minutes": 15.0, "optimizer": {"name": "adamw", "lr": 1e-3, "weight_decay": 0.01}},
}
DEMO = [
    *("data.tokenizer=word", "data.min_frequency=3", "data.vocab_size=3000", "data.context=64", "data.batch_size=32"),
    *("model=bert", "model.layers=3", "model.dropout=0"),
    *("training.steps=600", "training.optimizer.lr=0.003", "training.schedule.warmup=100"),
    "training.evaluation.every=600",
]
DATA_SETTINGS = ("paths", "dataset")
