"""Word embedding task: learns a vector for every word from its neighbours, and finds nearest words and analogies."""

from __future__ import annotations

from typing import Any

from regard.core.data_specs import EmbeddingSpec
from regard.tasks.embeddings.task import Config, Embeddings, Options, build, load

__all__ = ["Config", "Embeddings", "Options", "build", "load"]

VERB = "nearest"
SPEC = EmbeddingSpec
DEFAULTS: dict[str, Any] = {
    "model": {"name": "skipgram"},
    "training": {
        "epochs": 5,
        "optimizer": {"name": "adagrad", "lr": 0.1, "max_grad_norm": "none"},
        "schedule": {"name": "constant", "warmup": 20},
    },
}
DEMO = ["data.min_frequency=3", "data.batch_size=32", "training.epochs=20", "training.evaluation.every=500"]
DATA_SETTINGS = ("paths", "dataset")
