"""Masked against causal pretraining on the same text, followed by tagging with few examples."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.data.builtin import entities
from regard.experiments._experiment import Cell, budget, cells_per_seed, scaled_count
from regard.experiments._plateau import LATE_GAIN
from regard.experiments._plots import plot_bars
from regard.experiments._train_small import train_small
from regard.experiments._verdict import (
    ClaimResult,
    Figures,
    decide,
    describe_seeds,
    difference,
    is_separated,
    means,
    seed_values,
)

CLAIM = "For tagging, bidirectional pretraining (BERT, masked words) is better than causal pretraining (GPT)."
REFERENCE = "Devlin et al. 2019, sections 1 and 5.1"
STEPS, TUNING = 1400, 60
CURVE = "validation nats in pretraining and the validation F1 in tuning"
NATS_RESOLUTION, F1_RESOLUTION = 0.05, 0.01  # smaller differences do not matter
MASKED_FRACTION = 0.15  # of the tokens; a causal model predicts all, so it gets this fraction of the steps
TEXTS, EXAMPLES = 4000, 60  # sentences for pretraining, and tagged sentences
SHAPE = ("model.layers=2", "model.dim=64", "model.heads=4", "model.ffn_dim=128", "model.position=rotary")
VARIANTS = {
    "bidirectional": ("masked_language", ("model=bert", *SHAPE, "model.segments=0", "model.dropout=0.0")),
    "causal": ("language", ("model=gpt", *SHAPE, "model.dropout=0.0")),
}
PREDICTED_FRACTION = {"bidirectional": 1.0, "causal": MASKED_FRACTION}  # steps relative to masked pretraining
PRETRAINED, NOT_PRETRAINED = "pretrained", "not pretrained"
F1 = "entity F1"


def cells(effort: float) -> list[Cell]:
    """Return cells for both models with equal numbers of predicted tokens, each with and without pretraining."""
    steps, seeds = budget(effort, STEPS)
    return [
        cell
        for kind in VARIANTS
        for start, pretraining_steps in (
            (PRETRAINED, max(2, round(PREDICTED_FRACTION[kind] * steps))),
            (NOT_PRETRAINED, 1),
        )
        for cell in cells_per_seed(f"{kind}, {start}", seeds, partial(_measure, kind, pretraining_steps, effort))
    ]


def _measure(kind: str, steps: int, effort: float, seed: int) -> dict[str, float]:
    task, model = VARIANTS[kind]
    with TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        sentences = entities.generate("train", scaled_count(effort, TEXTS, 60), language="en", seed=2)
        text.write_text("\n".join(sentence.text for sentence in sentences) + "\n", encoding="utf-8")
        settings = [
            *(
                f'data.paths=["{text}"]',
                "data.tokenizer=bpe",
                "data.vocab_size=2500",
                "data.context=32",
                "data.batch_size=32",
            ),
            *("data.eval_tokens=2000", *model, "training.optimizer.lr=0.003"),
        ]
        with train_small(task, settings, steps=steps, seed=seed) as pretrained:
            settings = [
                *(f"data.examples={EXAMPLES}", "data.tokenizer=bpe", "data.lowercase=false", "data.max_length=32"),
                *("data.batch_size=16", *model, "training.optimizer.lr=0.002"),
                *(
                    f"pretrained.run={pretrained.run.folder}",
                    "pretrained.params=encoder.*",
                    "pretrained.vocabulary=true",
                ),
            ]
            with train_small("tagging", settings, steps=max(2, round(TUNING * min(1, effort))), seed=seed) as tagger:
                gains = [tagger.late_gain(resolution=F1_RESOLUTION)[LATE_GAIN]]
                if steps > 1:
                    gains.append(pretrained.late_gain(resolution=NATS_RESOLUTION)[LATE_GAIN])
                return {
                    F1: tagger.scores["f1"],
                    "pretraining nats per token": pretrained.scores["nats"],
                    LATE_GAIN: max(gains),
                }


def verdict(figures: Figures) -> ClaimResult:
    """Check that every seed of bidirectional pretraining is better than causal pretraining and than none."""
    mean_f1, f1_by_seed = means(figures, F1), seed_values(figures, F1)
    bidirectional, causal = VARIANTS
    best = f1_by_seed[f"{bidirectional}, {PRETRAINED}"]
    baselines = (f"{causal}, {PRETRAINED}", f"{bidirectional}, {NOT_PRETRAINED}")
    conditions = {
        f"every seed of {bidirectional}, {PRETRAINED} has a higher F1 than every seed of {baseline}": is_separated(
            f1_by_seed[baseline], best
        )
        for baseline in baselines
    }
    effects = [difference(f"F1 above {baseline}", best, f1_by_seed[baseline], form="+.3f") for baseline in baselines]
    details = "; ".join(
        f"{kind} {mean_f1[f'{kind}, {PRETRAINED}']:.2f} ({NOT_PRETRAINED} {mean_f1[f'{kind}, {NOT_PRETRAINED}']:.2f})"
        for kind in VARIANTS
    )
    text = f"Entity F1 after {EXAMPLES} tagged sentences: {details}. {describe_seeds(figures)}."
    return decide(text, conditions, effects)


def draw(figures: Figures, axes: Any) -> None:
    """Plot F1 of both models, with and without pretraining."""
    f1 = seed_values(figures, F1)
    bars: dict[str, Any] = {
        start: {kind: f1[f"{kind}, {start}"] for kind in VARIANTS} for start in (PRETRAINED, NOT_PRETRAINED)
    }
    plot_bars(axes, bars, y=F1)
