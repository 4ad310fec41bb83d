"""Small translation models for experiments: built-in English to Korean, and settings that are the same for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.data.text.pair_files import Pair
from regard.experiments._experiment import scaled_count
from regard.training.load_run import LoadedRun

TASK = "translation"
RECURRENT = ("model.dim=128", "model.embedding=64", "model.dropout=0.1", "training.optimizer.lr=0.008")
MODELS: dict[str, tuple[str, ...]] = {  # of about the same number of weights
    "seq2seq": ("model=seq2seq", *RECURRENT, "model.order=reversed"),  # its best: Sutskever et al. 2014, section 3.3
    "bahdanau": ("model=bahdanau", *RECURRENT, "model.encoder=64"),
    "luong": ("model=luong", *RECURRENT),
    "transformer": ("model=transformer", "model.layers=2", "model.dim=72", "model.ffn_dim=144", "model.heads=4"),
}


def data_settings(effort: float) -> tuple[str, ...]:
    """Which pairs, which tokens, which batches, how they are learnt and decoded."""
    return (
        *(f"data.pairs={scaled_count(effort, 8000, 100)}", "data.vocab_size=800", "data.max_batch_tokens=1024"),
        *("training.optimizer.lr=0.004", "decoding=greedy"),
    )


def held_out(parts: LoadedRun) -> list[Pair]:
    """Sentence pairs that the model has not seen, other than those of its scores."""
    task: Any = parts.task
    pairs: list[Pair] = task.split("test")
    return pairs


def translate(parts: LoadedRun, texts: Sequence[str]) -> list[str]:
    """Texts -> the best translation of each."""
    task: Any = parts.task
    options = parts.recipe.task.module("tasks").Options()
    return [answers[0].text for answers in task.answer(parts.model, texts, options, parts.recipe.decoding)]
