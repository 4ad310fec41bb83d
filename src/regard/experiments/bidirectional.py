"""Masked and causal pretraining on the same text, then tagging from few examples."""

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

CLAIM = "For tagging, reading in both directions (BERT, masked words) is better pretraining than reading in one (GPT)."
WHERE = "Devlin et al. 2019, sections 1 and 5.1"
STEPS, TUNING = 220, 60
TEXTS, EXAMPLES = 4000, 60  # sentences to read, and sentences with tags
SHAPE = ("model.layers=2", "model.dim=64", "model.heads=4", "model.ffn_dim=128", "model.position=rotary")
VARIANTS = {
    "both directions": ("masked_language", ("model=bert", *SHAPE, "model.segments=0", "model.dropout=0.0")),
    "one direction": ("language", ("model=gpt", *SHAPE, "model.dropout=0.0")),
}
READ, BARE = "text read before", "nothing read"
F1 = "F1 of entities"


def cells(effort: float) -> list[Cell]:
    """Both directions and one, each with and without text read before."""
    steps, seeds = budget(effort, STEPS)
    return [
        cell
        for kind in VARIANTS
        for before, text in ((READ, steps), (BARE, 1))
        for cell in cells_per_seed(f"{kind}, {before}", seeds, partial(_measure, kind, text, effort))
    ]


def _measure(kind: str, steps: int, effort: float, seed: int) -> dict[str, float]:
    task, model = VARIANTS[kind]
    with TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        made = entities.generate("train", scaled_count(effort, TEXTS, 60), language="en", seed=2)
        text.write_text("\n".join(sentence.text for sentence in made) + "\n", encoding="utf-8")
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
        with train_small(task, settings, steps=steps, seed=seed) as read:
            settings = [
                *(f"data.examples={EXAMPLES}", "data.tokenizer=bpe", "data.lowercase=false", "data.max_length=32"),
                *("data.batch_size=16", *model, "training.optimizer.lr=0.002"),
                *(f"pretrained.run={read.parts.folder}", "pretrained.params=encoder.*", "pretrained.vocabulary=true"),
            ]
            with train_small("tagging", settings, steps=max(2, round(TUNING * min(1, effort))), seed=seed) as tagger:
                return {F1: tagger.scores["f1"], "nats a token read": read.scores["nats"]}


def verdict(figures: Figures) -> ClaimResult:
    """Both directions tag better with every seed than one with any, and gain as clearly from what was read."""
    found = means(figures, F1)
    both, one = VARIANTS
    every = seed_values(figures, F1)
    holds = all(is_separated(every[other], every[f"{both}, {READ}"]) for other in (f"{one}, {READ}", f"{both}, {BARE}"))
    told = "; ".join(
        f"{kind} {found[f'{kind}, {READ}']:.2f} (with {BARE} {found[f'{kind}, {BARE}']:.2f})" for kind in VARIANTS
    )
    return ClaimResult(holds, f"F1 of entities after {EXAMPLES} tagged sentences: {told}. {describe_seeds(figures)}.")


def draw(figures: Figures, axes: Any) -> None:
    """F1 of both, with and without text read before."""
    found = seed_values(figures, F1)
    named: dict[str, Any] = {before: {kind: found[f"{kind}, {before}"] for kind in VARIANTS} for before in (READ, BARE)}
    plot_bars(axes, named, y=F1)
