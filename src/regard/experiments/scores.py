"""All score functions in the same place of the same model: what each is worth and what it costs."""

from __future__ import annotations

from functools import partial
from typing import Any

from regard.core.registry import registered_names
from regard.experiments._experiment import (
    Cell,
    ClaimResult,
    Figures,
    budget,
    cells_per_seed,
    describe_seeds,
    legend_above,
    means,
    seed_values,
)
from regard.experiments._train_small import step_milliseconds, train_small
from regard.experiments._translation_models import MODELS, TASK, data_settings

CLAIM = (
    "Queries and keys can be compared in several ways (dot, scaled dot, general, additive, concat, cosine); those with"
    " weights of their own cost more, and each serves in the same place."
)
WHERE = "Luong et al. 2015, section 3.1; Bahdanau et al. 2015, appendix A.1.2; Vaswani et al. 2017, section 3.2.1"
STEPS = 250
MIN_BLEU_RATIO = 0.8  # share of the best BLEU that every score must reach
MIN_TIME_RATIO = 1.05  # times the time of scores without a matrix
PARAMETER_FREE = ("dot", "scaled_dot", "cosine")  # no matrix of their own
BLEU, LOSS, TIME, WEIGHTS = "BLEU", "loss", "milliseconds a step", "weights of the score"


def cells(effort: float) -> list[Cell]:
    """Luong's model without input feeding, with each score."""
    steps, seeds = budget(effort, STEPS)
    return [
        cell
        for score in registered_names("regard.attention.scores")
        for cell in cells_per_seed(score, seeds, partial(_measure, score, effort, steps))
    ]


def _measure(score: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    settings = [*data_settings(effort), *MODELS["luong"], "model.input_feeding=false", f"model.score={score}"]
    with train_small(TASK, settings, steps=steps, seed=seed) as made:
        attention: Any = made.parts.model.cross_attn
        return {
            BLEU: made.scores["bleu"],
            LOSS: made.scores["loss"],
            TIME: step_milliseconds(made.parts),
            WEIGHTS: sum(weight.numel() for weight in attention.parameters()),
        }


def verdict(figures: Figures) -> ClaimResult:
    """Every score comes near the best, and those with matrices take longer on average."""
    bleu, taken, weights = (means(figures, figure) for figure in (BLEU, TIME, WEIGHTS))
    best, worst = (choose(bleu, key=lambda score: bleu[score]) for choose in (max, min))
    free = [taken[score] for score in taken if score in PARAMETER_FREE]
    own = [taken[score] for score in taken if score not in PARAMETER_FREE]
    dearer = sum(own) / len(own) / (sum(free) / len(free))
    told = "; ".join(
        f"{score} {bleu[score]:.1f} BLEU, {taken[score]:.0f} ms, {weights[score]:.0f} weights" for score in bleu
    )
    return ClaimResult(
        bleu[worst] >= MIN_BLEU_RATIO * bleu[best] and dearer > MIN_TIME_RATIO,
        f"{told}. Best is {best}, last {worst} with {bleu[worst] / max(bleu[best], 1e-9):.0%} of its BLEU; scores with"
        f" matrices of their own take {dearer:.2f} times as long a training step. {describe_seeds(figures)}.",
    )


def draw(figures: Figures, axes: Any) -> None:
    """BLEU against the time of a step."""
    taken = means(figures, TIME)
    for score, values in seed_values(figures, BLEU).items():
        axes.scatter([taken[score]] * len(values), values, label=score)
    axes.margins(x=0.15)
    axes.set_xlabel("milliseconds of a training step")
    axes.set_ylabel("BLEU")
    legend_above(axes, columns=3)
