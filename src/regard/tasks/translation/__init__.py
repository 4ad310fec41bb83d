"""Translation: learn from sentence pairs, translate texts, and score translations with BLEU and chrF."""

from __future__ import annotations

from typing import Any

from regard.core.data_specs import Seq2SeqSpec
from regard.tasks.translation.task import TINY, Config, Evaluation, Options, Translation, build, load, measure

__all__ = ["TINY", "Config", "Evaluation", "Options", "Translation", "build", "load", "measure"]

VERB = "translate"
SPEC = Seq2SeqSpec
DEFAULTS: dict[str, Any] = {"model": {"name": "transformer"}, "decoding": {"name": "beam"}}
DEMO = [  # recipes/demo.toml, which is not installed with the package
    *("data.vocab_size=1500", "data.max_batch_tokens=2048", "data.pairs=30000"),
    *("model=transformer", "model.layers=2", "model.dim=128", "model.ffn_dim=256", "model.heads=4"),
    *("model.dropout=0.1", "training.steps=500", "training.optimizer.lr=0.003", "training.schedule.warmup=200"),
    *("training.evaluation.every=500", "decoding=greedy"),
]
DATA_SETTINGS = ("path", "dataset", "columns", "header")
