"""All score functions in the same model: quality and cost."""

from __future__ import annotations

import time
from functools import partial
from statistics import median
from typing import Any

import torch

from regard.attention.attend import Attend
from regard.core.registry import find, registered_names
from regard.experiments._experiment import Cell, budget, cells_per_seed
from regard.experiments._plots import MARKERS, legend_above
from regard.experiments._train_small import train_small
from regard.experiments._translation_models import BLEU_RESOLUTION, MODELS, TASK, data_settings
from regard.experiments._verdict import ClaimResult, Figures, decide, describe_seeds, means, ratio, seed_values

CLAIM = (
    "Queries and keys can be compared by several scores (dot, scaled dot, general, additive, concat, cosine). All of"
    " them work in the same model; those with parameters cost more."
)
REFERENCE = "Luong et al. 2015, section 3.1; Bahdanau et al. 2015, appendix A.1.2; Vaswani et al. 2017, section 3.2.1"
STEPS = 700
CURVE = "validation BLEU"
MIN_BLEU_RATIO = 0.8  # of every score relative to the best
MIN_TIME_RATIO = 1.05  # of attention by scores with parameters relative to those without
TIMED_SHAPE, TIMED_REPEATS = (64, 1, 16, 128), 40  # batch, heads, positions of queries and of keys, width
PARAMETER_FREE = ("dot", "scaled_dot", "cosine")
BLEU, LOSS, TIME, PARAMETERS = "BLEU", "loss", "milliseconds of the attention", "parameters of the score"


def cells(effort: float) -> list[Cell]:
    """Return Luong's model without input feeding, with each score."""
    steps, seeds = budget(effort, STEPS)
    return [
        cell
        for score in registered_names("regard.attention.scores")
        if not find("regard.attention.scores", score).Score.uses_previous_weights  # it needs a loop over the steps
        for cell in cells_per_seed(score, seeds, partial(_measure, score, effort, steps))
    ]


def _measure(score: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    settings = [*data_settings(effort), *MODELS["luong"], "model.input_feeding=false", f"model.score={score}"]
    with train_small(TASK, settings, steps=steps, seed=seed) as trained:
        attention: Any = trained.run.model.cross_attn
        return {
            BLEU: trained.scores["bleu"],
            LOSS: trained.scores["loss"],
            TIME: attention_milliseconds(attention),
            PARAMETERS: sum(weight.numel() for weight in attention.parameters()),
            **trained.late_gain(resolution=BLEU_RESOLUTION),
        }


def attention_milliseconds(attention: Attend) -> float:
    """Return the median processor time of attention and its gradients, for one batch of random queries and keys."""
    q, k, v = (torch.randn(TIMED_SHAPE, requires_grad=True) for _ in range(3))  # (b h t d), with s = t
    inputs, seconds = [q, k, v, *attention.parameters()], []
    for _ in range(TIMED_REPEATS):
        started_at = time.process_time()
        torch.autograd.grad(attention(q, attention.project(k), v).sum(), inputs, allow_unused=True)
        seconds.append(time.process_time() - started_at)
    return 1000 * median(seconds)


def verdict(figures: Figures) -> ClaimResult:
    """Check that every score comes close to the best, and that those with parameters take longer on average."""
    bleu, milliseconds, parameters = (means(figures, figure) for figure in (BLEU, TIME, PARAMETERS))
    best, worst = (choose(bleu, key=lambda score: bleu[score]) for choose in (max, min))
    without = [milliseconds[score] for score in milliseconds if score in PARAMETER_FREE]
    with_parameters = [milliseconds[score] for score in milliseconds if score not in PARAMETER_FREE]
    time_ratio = sum(with_parameters) / len(with_parameters) / (sum(without) / len(without))
    details = "; ".join(
        f"{score} {bleu[score]:.1f} BLEU, {milliseconds[score]:.2f} ms, {parameters[score]:.0f} parameters"
        for score in bleu
    )
    bleus, times = seed_values(figures, BLEU), seed_values(figures, TIME)
    conditions = {
        f"the worst score reaches {MIN_BLEU_RATIO:.0%} of the BLEU of the best": bleu[worst]
        >= MIN_BLEU_RATIO * bleu[best],
        f"attention by scores with parameters takes more than {MIN_TIME_RATIO} times as long as by the others": (
            time_ratio > MIN_TIME_RATIO
        ),
    }
    grouped = [
        [value for score in times if (score in PARAMETER_FREE) == free for value in times[score]]
        for free in (False, True)
    ]
    effects = [
        ratio(f"BLEU of {worst} relative to {best}", bleus[worst], bleus[best]),
        ratio("time of attention by scores with parameters relative to those without", *grouped),
    ]
    return decide(
        f"{details}. The best is {best}, the worst {worst} with {bleu[worst] / max(bleu[best], 1e-9):.0%} of its BLEU."
        f" Attention by scores with parameters takes {time_ratio:.1f} times as long. {describe_seeds(figures)}.",
        conditions,
        effects,
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot BLEU against the time of a step."""
    milliseconds = means(figures, TIME)
    for (score, values), marker in zip(seed_values(figures, BLEU).items(), MARKERS, strict=False):
        axes.scatter([milliseconds[score]] * len(values), values, marker=marker, label=score)
    axes.margins(x=0.15)
    axes.set_xlabel("milliseconds of the attention, forward and backward")
    axes.set_ylabel("BLEU")
    legend_above(axes, columns=3)
