"""Translation by the length of the sentence: one fixed vector against attention, at the same budget."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from regard.experiments._experiment import (
    Cell,
    ClaimResult,
    Figures,
    budget,
    cells_per_seed,
    describe_seeds,
    means,
    plot_lines,
)
from regard.experiments._train_small import train_small
from regard.experiments._translation_models import MODELS, TASK, data_settings, held_out, translate
from regard.tasks.translation.metrics import compute_metrics

CLAIM = "One vector of fixed size cannot hold a long sentence; with attention long sentences lose less."
WHERE = "Bahdanau et al. 2015, sections 1 and 5.1, figure 2"
STEPS = 350
GROUPS = 3  # sentences by their length, equally many in each
MIN_BLEU = 50.0  # BLEU of short sentences below which a model has not learned to translate
MIN_DIFFERENCE = 0.05  # share of the BLEU of short sentences by which attention must keep more


def cells(effort: float) -> list[Cell]:
    """Each model with the same number of steps."""
    steps, seeds = budget(effort, STEPS)
    return [cell for kind in MODELS for cell in cells_per_seed(kind, seeds, partial(_measure, kind, effort, steps))]


def _measure(kind: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    with train_small(TASK, [*data_settings(effort), *MODELS[kind]], steps=steps, seed=seed) as made:
        task: Any = made.parts.task
        pairs = sorted(held_out(made.parts), key=lambda pair: len(pair[0].split()))
        told = translate(made.parts, [source for source, _ in pairs])
        found: dict[str, float] = {"weights": made.parameters}
        for number, group in enumerate(np.array_split(np.arange(len(pairs)), GROUPS), start=1):
            length = np.mean([len(pairs[i][0].split()) for i in group])
            bleu = compute_metrics([told[i] for i in group], [pairs[i][1] for i in group], tokenize=task.tokenize)[
                "bleu"
            ]
            found |= {f"words, group {number}": float(length), f"BLEU, group {number}": bleu}
        return found


def _kept(figures: Figures) -> dict[str, tuple[float, float]]:
    """Model -> BLEU of the shortest and of the longest sentences."""
    first, last = (means(figures, f"BLEU, group {number}") for number in (1, GROUPS))
    return {kind: (first[kind], last[kind]) for kind in MODELS}


def verdict(figures: Figures) -> ClaimResult:
    """Without attention clearly the smallest share of the BLEU of short sentences is left for long ones."""
    kept = _kept(figures)
    share = {kind: long / max(short, 1e-9) for kind, (short, long) in kept.items()}
    holds = all(share["seq2seq"] + MIN_DIFFERENCE < share[kind] for kind in MODELS if kind != "seq2seq")
    few, many = (next(iter(means(figures, f"words, group {number}").values())) for number in (1, GROUPS))
    told = "; ".join(f"{kind} {short:.1f} and {long:.1f} ({share[kind]:.0%})" for kind, (short, long) in kept.items())
    weak = [kind for kind, (short, _) in kept.items() if short < MIN_BLEU]
    more = f" Too little is learned to judge {', '.join(weak)}; --minutes 15 trains longer." if weak else ""
    return ClaimResult(
        None if weak else holds,
        f"BLEU of short sentences ({few:.1f} words) and of long ones ({many:.1f} words), and what share is left:"
        f" {told}. {describe_seeds(figures)}.{more}",
    )


def draw(figures: Figures, axes: Any) -> None:
    """BLEU against length."""
    curves: dict[str, dict[float, float]] = {kind: {} for kind in MODELS}
    for number in range(1, GROUPS + 1):
        words, bleu = means(figures, f"words, group {number}"), means(figures, f"BLEU, group {number}")
        for kind in MODELS:
            curves[kind][words[kind]] = bleu[kind]
    plot_lines(axes, curves, x="words of the sentence", y="BLEU")
    axes.set_ylim(bottom=0)
