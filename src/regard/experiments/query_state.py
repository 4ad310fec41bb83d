"""Which state of the decoder asks: the one before the step (Bahdanau) or that of the step (Luong), all else equal.

This file is also the first of the two models: Luong's, but for the state that asks.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.core.data_specs import Seq2SeqSpec
from regard.experiments._experiment import (
    Cell,
    ClaimResult,
    Figures,
    budget,
    cells_per_seed,
    describe_seeds,
    is_separated,
    means,
    plot_bars,
    seed_values,
)
from regard.experiments._train_small import step_milliseconds, train_small
from regard.experiments._translation_models import MODELS, TASK, data_settings
from regard.models.luong import Config, Luong, LuongState

CLAIM = (
    "Bahdanau's decoder asks with its state before the step, Luong's with the state of the step, which has read one"
    " word more: it finds what it looks for better, and without input feeding all steps can ask at once."
)
WHERE = "Luong et al. 2015, section 3.1"
STEPS = 300
MIN_BLEU = 20.0  # BLEU that the best must reach for a comparison
MAX_TIME_RATIO = 0.8  # share of the time that asking at once may take
SAME = (*MODELS["luong"][1:], "model.cell=gru")
VARIANTS = {
    "state before": (f"model={__name__}", *SAME),
    "state of the step": ("model=luong", *SAME),
    "state of the step, all at once": ("model=luong", *SAME, "model.input_feeding=false"),
}
BLEU, ERROR, TIME = "BLEU", "alignment error", "milliseconds a step"
__all__ = ["Config"]


class PreviousStateLuong(Luong):
    """Luong's model, whose question is the state that the decoder had before the step."""

    def _step(self, words: Tensor, state: LuongState) -> tuple[Tensor, LuongState]:
        before = state.rnn_state.hidden[:, -1:]
        hidden, memory = self.decoder(torch.cat([words, state.attentional_state[:, None]], dim=-1), state.rnn_state)
        context = self._attend(before, state.source.value)
        attentional = torch.tanh(self.join(torch.cat([context, hidden], dim=-1)))
        return attentional, state._replace(rnn_state=memory, attentional_state=attentional[:, -1])


def build(config: Config, sizes: Seq2SeqSpec) -> PreviousStateLuong:
    """Choices and what the data decided -> the model that asks before the step."""
    return PreviousStateLuong(config, sizes)


def cells(effort: float) -> list[Cell]:
    """Each way to ask, trained alike."""
    steps, seeds = budget(effort, STEPS)
    return [cell for kind in VARIANTS for cell in cells_per_seed(kind, seeds, partial(_measure, kind, effort, steps))]


def _measure(kind: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    with train_small(TASK, [*data_settings(effort), *VARIANTS[kind]], steps=steps, seed=seed) as made:
        parts = made.parts
        error = parts.task.extra_metrics(parts.model, "valid", parts.recipe.decoding)["aer"]
        return {BLEU: made.scores["bleu"], ERROR: error, TIME: step_milliseconds(parts)}


def verdict(figures: Figures) -> ClaimResult:
    """The state of the step aligns better, translates no worse, and is faster where all steps ask at once."""
    bleu, error, taken = (means(figures, figure) for figure in (BLEU, ERROR, TIME))
    before, of_step, at_once = VARIANTS
    errors = seed_values(figures, ERROR)
    aligns, faster = is_separated(errors[of_step], errors[before]), taken[at_once] < MAX_TIME_RATIO * taken[before]
    weak = max(bleu.values()) < MIN_BLEU
    more = " Too little is learned to judge; --minutes 15 trains longer." if weak else ""
    holds = aligns and bleu[of_step] > bleu[before] - 1 and faster
    told = "; ".join(
        f"{kind}: {bleu[kind]:.1f} BLEU, alignment error {error[kind]:.2f}, {taken[kind]:.0f} ms a step"
        for kind in VARIANTS
    )
    return ClaimResult(None if weak else holds, f"{told}. {describe_seeds(figures)}.{more}")


def draw(figures: Figures, axes: Any) -> None:
    """BLEU and alignment error of each."""
    bleu, error = seed_values(figures, BLEU), seed_values(figures, ERROR)
    shown = {kind: [value / 100 for value in values] for kind, values in bleu.items()}
    plot_bars(axes, {"BLEU / 100": shown, ERROR: error}, y="share")
