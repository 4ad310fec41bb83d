"""Small translation models for experiments on the built-in English-Korean data, with common settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from regard.data.text.pair_files import Pair
from regard.experiments._experiment import scaled_count
from regard.training.load_run import LoadedRun

if TYPE_CHECKING:
    from regard.core.protocols import Decoder
    from regard.tasks.translation.task import Translation

TASK = "translation"
BLEU_RESOLUTION = 1.0  # of the validation curve: smaller differences do not matter
RECURRENT = ("model.dim=128", "model.embedding=64", "model.dropout=0.1", "training.optimizer.lr=0.008")
MODELS: dict[str, tuple[str, ...]] = {  # with about the same number of parameters
    "seq2seq": (
        "model=seq2seq",
        *RECURRENT,
        "model.order=reversed",
    ),  # its best order: Sutskever et al. 2014, section 3.3
    "bahdanau": ("model=bahdanau", *RECURRENT, "model.encoder=64"),
    "luong": ("model=luong", *RECURRENT),
    "transformer": ("model=transformer", "model.layers=2", "model.dim=72", "model.ffn_dim=144", "model.heads=4"),
}


def data_settings(effort: float) -> tuple[str, ...]:
    """Return the settings of data, learning rate and decoding."""
    return (
        *(f"data.pairs={scaled_count(effort, 8000, 100)}", "data.vocab_size=800", "data.max_batch_tokens=1024"),
        *("training.optimizer.lr=0.004", "decoding=greedy"),
    )


def held_out(run: LoadedRun) -> list[Pair]:
    """Return the test pairs, which are used neither for training nor for the validation scores."""
    return cast("Translation", run.task).split("test")


def translate(run: LoadedRun, texts: Sequence[str]) -> list[str]:
    """Return the best translation of each text."""
    task, model, decoding = cast("Translation", run.task), cast("Decoder", run.model), run.recipe.decoding
    assert decoding is not None
    options = run.recipe.task.module("tasks").Options()
    return [predictions[0].text for predictions in task.predict(model, texts, options, decoding)]
