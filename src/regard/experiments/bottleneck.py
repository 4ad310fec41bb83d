"""Translation quality by sentence length: a fixed-size vector against attention."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from regard.experiments._experiment import Cell, budget, cells_per_seed
from regard.experiments._plots import plot_lines
from regard.experiments._train_small import train_small
from regard.experiments._translation_models import BLEU_RESOLUTION, MODELS, TASK, data_settings, held_out, translate
from regard.experiments._verdict import (
    MORE,
    ClaimResult,
    Figures,
    decide,
    describe_seeds,
    difference,
    means,
    seed_values,
)
from regard.tasks.translation.metrics import compute_metrics

if TYPE_CHECKING:
    from regard.tasks.translation.task import Translation

CLAIM = "A vector of fixed size cannot encode a long sentence; with attention, long sentences lose less quality."
REFERENCE = "Bahdanau et al. 2015, sections 1 and 5.1, figure 2"
STEPS = 700
SLOW, SLOW_FACTOR = "seq2seq", 2  # this model still improves after STEPS, so that it gets twice as many
CURVE = "validation BLEU"
GROUPS = 3  # of sentences by length, of equal size
MIN_BLEU = 50.0  # BLEU of short sentences below which a model has not learned to translate
MIN_DIFFERENCE = 0.05  # by which attention must retain more of the BLEU of short sentences


def cells(effort: float) -> list[Cell]:
    """Return a cell for each model."""
    steps, seeds = budget(effort, STEPS)
    steps_of = {kind: SLOW_FACTOR * steps if kind == SLOW else steps for kind in MODELS}
    return [
        cell for kind in MODELS for cell in cells_per_seed(kind, seeds, partial(_measure, kind, effort, steps_of[kind]))
    ]


def _measure(kind: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    with train_small(TASK, [*data_settings(effort), *MODELS[kind]], steps=steps, seed=seed) as trained:
        task = cast("Translation", trained.run.task)
        pairs = sorted(held_out(trained.run), key=lambda pair: len(pair[0].split()))
        translations = translate(trained.run, [source for source, _ in pairs])
        metrics: dict[str, float] = {"parameters": trained.parameters, **trained.late_gain(resolution=BLEU_RESOLUTION)}
        for index, group in enumerate(np.array_split(np.arange(len(pairs)), GROUPS), start=1):
            length = np.mean([len(pairs[i][0].split()) for i in group])
            hypotheses, references = [translations[i] for i in group], [pairs[i][1] for i in group]
            bleu = compute_metrics(hypotheses, references, tokenize=task.bleu_tokenizer)["bleu"]
            metrics |= {f"words, group {index}": float(length), f"BLEU, group {index}": bleu}
        return metrics


def _short_and_long_bleu(figures: Figures) -> dict[str, tuple[float, float]]:
    """Return the BLEU of the shortest and of the longest sentences by model."""
    first, last = (means(figures, f"BLEU, group {index}") for index in (1, GROUPS))
    return {kind: (first[kind], last[kind]) for kind in MODELS}


def _retained_by_seed(figures: Figures) -> dict[str, list[float]]:
    """Return the fraction of the BLEU of short sentences that is retained on long ones, by model and seed."""
    first, last = (seed_values(figures, f"BLEU, group {index}") for index in (1, GROUPS))
    return {
        kind: [long / max(short, 1e-9) for short, long in zip(first[kind], last[kind], strict=True)] for kind in MODELS
    }


def verdict(figures: Figures) -> ClaimResult:
    """Check that the model without attention retains the smallest fraction of its BLEU on long sentences."""
    bleu = _short_and_long_bleu(figures)
    retained = {kind: long / max(short, 1e-9) for kind, (short, long) in bleu.items()}
    conditions = {
        f"every model with attention retains at least {100 * MIN_DIFFERENCE:.0f} points more of the BLEU of short"
        " sentences than seq2seq": all(
            retained["seq2seq"] + MIN_DIFFERENCE < retained[kind] for kind in MODELS if kind != "seq2seq"
        )
    }
    by_seed = _retained_by_seed(figures)
    effects = [
        difference(
            f"BLEU retained on long sentences, {kind} minus seq2seq", by_seed[kind], by_seed["seq2seq"], form="+.0%"
        )
        for kind in MODELS
        if kind != "seq2seq"
    ]
    short_words, long_words = (next(iter(means(figures, f"words, group {i}").values())) for i in (1, GROUPS))
    details = "; ".join(
        f"{kind} {short:.1f} and {long:.1f} ({retained[kind]:.0%})" for kind, (short, long) in bleu.items()
    )
    weak = [kind for kind, (short, _) in bleu.items() if short < MIN_BLEU]
    return decide(
        f"BLEU of short sentences ({short_words:.1f} words) and of long ones ({long_words:.1f} words), and the fraction"
        f" retained: {details}. {describe_seeds(figures)}.",
        conditions,
        effects,
        undecided=f"Undertrained, with a BLEU below {MIN_BLEU:.0f} on short sentences: {', '.join(weak)}; {MORE}."
        if weak
        else "",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot BLEU against length."""
    curves: dict[str, dict[float, float]] = {kind: {} for kind in MODELS}
    for index in range(1, GROUPS + 1):
        words, bleu = means(figures, f"words, group {index}"), means(figures, f"BLEU, group {index}")
        for kind in MODELS:
            curves[kind][words[kind]] = bleu[kind]
    plot_lines(axes, curves, x="words per sentence", y="BLEU")
    axes.set_ylim(bottom=0)
