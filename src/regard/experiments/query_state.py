"""The decoder state used as the query: the previous state (Bahdanau) against the current state (Luong).

This module is also the first of the two models: Luong's model with the previous state as the query.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.core.data_specs import Seq2SeqSpec
from regard.experiments._experiment import Cell, budget, cells_per_seed
from regard.experiments._plots import plot_bars
from regard.experiments._train_small import step_milliseconds, train_small
from regard.experiments._translation_models import BLEU_RESOLUTION, MODELS, TASK, data_settings
from regard.experiments._verdict import (
    MORE,
    ClaimResult,
    Figures,
    decide,
    describe_seeds,
    difference,
    is_separated,
    means,
    ratio,
    seed_values,
)
from regard.models.luong import Config, Luong, LuongState

CLAIM = (
    "Bahdanau's decoder queries with its previous state, Luong's with its current state, which has read one more word."
    " The current state aligns better, and without input feeding all steps can attend in parallel."
)
REFERENCE = "Luong et al. 2015, section 3.1"
STEPS = 700
CURVE = "validation BLEU"
MIN_BLEU = 20.0  # of the best model, below which models are not compared
MAX_BLEU_LOSS = 1.0
MAX_TIME_RATIO = 0.8  # time of parallel queries relative to step-by-step queries
COMMON_SETTINGS = (*MODELS["luong"][1:], "model.cell=gru")
VARIANTS = {
    "previous state": (f"model={__name__}", *COMMON_SETTINGS),
    "current state": ("model=luong", *COMMON_SETTINGS),
    "current state, parallel": ("model=luong", *COMMON_SETTINGS, "model.input_feeding=false"),
}
BLEU, ERROR, TIME = "BLEU", "alignment error", "milliseconds per step"
__all__ = ["Config"]


class PreviousStateLuong(Luong):
    """Luong's model with the previous decoder state as the query."""

    def _step(self, words: Tensor, state: LuongState) -> tuple[Tensor, LuongState]:
        previous_state = state.rnn_state.hidden[:, -1:]
        hidden, rnn_state = self.decoder(torch.cat([words, state.attentional_state[:, None]], dim=-1), state.rnn_state)
        context, weights = self._attend(previous_state, state.source.value, state.previous)
        attentional = torch.tanh(self.join(torch.cat([context, hidden], dim=-1)))
        return attentional, LuongState(rnn_state, attentional[:, -1], weights, state.source)


def build(config: Config, sizes: Seq2SeqSpec) -> PreviousStateLuong:
    """Build the model that queries with the previous state."""
    return PreviousStateLuong(config, sizes)


def cells(effort: float) -> list[Cell]:
    """Return a cell for each query, trained in the same way."""
    steps, seeds = budget(effort, STEPS)
    return [cell for kind in VARIANTS for cell in cells_per_seed(kind, seeds, partial(_measure, kind, effort, steps))]


def _measure(kind: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    with train_small(TASK, [*data_settings(effort), *VARIANTS[kind]], steps=steps, seed=seed) as trained:
        run = trained.run
        error = run.task.extra_metrics(run.model, "valid", run.recipe.decoding)["aer"]
        metrics = {BLEU: trained.scores["bleu"], ERROR: error, TIME: step_milliseconds(run)}
        return metrics | trained.late_gain(resolution=BLEU_RESOLUTION)


def verdict(figures: Figures) -> ClaimResult:
    """Check that the current state aligns better, translates no worse, and is faster with parallel queries."""
    bleu, error, milliseconds = (means(figures, figure) for figure in (BLEU, ERROR, TIME))
    previous, current, parallel = VARIANTS
    errors = seed_values(figures, ERROR)
    times = seed_values(figures, TIME)
    details = "; ".join(
        f"{kind}: {bleu[kind]:.1f} BLEU, alignment error {error[kind]:.2f}, {milliseconds[kind]:.0f} ms per step"
        for kind in VARIANTS
    )
    conditions = {
        "every seed of the current state aligns better than every seed of the previous state": is_separated(
            errors[current], errors[previous]
        ),
        f"its BLEU is at most {MAX_BLEU_LOSS:.0f} lower": bleu[current] > bleu[previous] - MAX_BLEU_LOSS,
        f"a step with parallel queries takes less than {MAX_TIME_RATIO:.0%} of the time": milliseconds[parallel]
        < MAX_TIME_RATIO * milliseconds[previous],
    }
    effects = [
        difference("alignment error, current minus previous state", errors[current], errors[previous]),
        ratio("time of a step with parallel queries, relative to the previous state", times[parallel], times[previous]),
    ]
    weak = max(bleu.values()) < MIN_BLEU
    undecided = f"The models are undertrained, with a BLEU below {MIN_BLEU:.0f}; {MORE}." if weak else ""
    return decide(f"{details}. {describe_seeds(figures)}.", conditions, effects, undecided=undecided)


def draw(figures: Figures, axes: Any) -> None:
    """Plot the alignment error of each query."""
    plot_bars(axes, {ERROR: seed_values(figures, ERROR)}, y="alignment error, fraction of the links")
