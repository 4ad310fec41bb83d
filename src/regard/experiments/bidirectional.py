"""Masked against causal pretraining on the same text, followed by tagging with few examples."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.data.builtin import entities
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
    scaled_count,
    seed_values,
)
from regard.experiments._train_small import train_small

CLAIM = "For tagging, bidirectional pretraining (BERT, masked words) is better than causal pretraining (GPT)."
REFERENCE = "Devlin et al. 2019, sections 1 and 5.1"
STEPS, TUNING = 220, 60
TEXTS, EXAMPLES = 4000, 60  # sentences for pretraining, and tagged sentences
SHAPE = ("model.layers=2", "model.dim=64", "model.heads=4", "model.ffn_dim=128", "model.position=rotary")
VARIANTS = {
    "bidirectional": ("masked_language", ("model=bert", *SHAPE, "model.segments=0", "model.dropout=0.0")),
    "causal": ("language", ("model=gpt", *SHAPE, "model.dropout=0.0")),
}
PRETRAINED, NOT_PRETRAINED = "pretrained", "not pretrained"
F1 = "entity F1"


def cells(effort: float) -> list[Cell]:
    """Return cells for both models, each with and without pretraining."""
    steps, seeds = budget(effort, STEPS)
    return [
        cell
        for kind in VARIANTS
        for start, pretraining_steps in ((PRETRAINED, steps), (NOT_PRETRAINED, 1))
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
                "data.vocab_size=600",
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
                return {F1: tagger.scores["f1"], "pretraining nats per token": pretrained.scores["nats"]}


def verdict(figures: Figures) -> ClaimResult:
    """Check that every seed of bidirectional pretraining is better than causal pretraining and than none."""
    mean_f1, f1_by_seed = means(figures, F1), seed_values(figures, F1)
    bidirectional, causal = VARIANTS
    best = f1_by_seed[f"{bidirectional}, {PRETRAINED}"]
    baselines = (f"{causal}, {PRETRAINED}", f"{bidirectional}, {NOT_PRETRAINED}")
    holds = all(is_separated(f1_by_seed[baseline], best) for baseline in baselines)
    details = "; ".join(
        f"{kind} {mean_f1[f'{kind}, {PRETRAINED}']:.2f} ({NOT_PRETRAINED} {mean_f1[f'{kind}, {NOT_PRETRAINED}']:.2f})"
        for kind in VARIANTS
    )
    return ClaimResult(holds, f"Entity F1 after {EXAMPLES} tagged sentences: {details}. {describe_seeds(figures)}.")


def draw(figures: Figures, axes: Any) -> None:
    """Plot F1 of both models, with and without pretraining."""
    f1 = seed_values(figures, F1)
    bars: dict[str, Any] = {
        start: {kind: f1[f"{kind}, {start}"] for kind in VARIANTS} for start in (PRETRAINED, NOT_PRETRAINED)
    }
    plot_bars(axes, bars, y=F1)
