"""Masked and causal pretraining on the same text, then tagging from few examples."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.data.builtin import entities
from regard.experiments._experiment import (
    Cell,
    Figures,
    Verdict,
    amount,
    apart,
    bars,
    budget,
    means,
    over_seeds,
    seeded,
    seeds_of,
)
from regard.experiments._train_small import trained

CLAIM = "For tagging, reading in both directions (BERT, masked words) is better pretraining than reading in one (GPT)."
WHERE = "Devlin et al. 2019, sections 1 and 5.1"
STEPS, TUNING = 220, 60
TEXTS, EXAMPLES = 4000, 60  # sentences to read, and sentences with tags
SHAPE = ("model.layers=2", "model.dim=64", "model.heads=4", "model.ffn_dim=128", "model.position=rotary")
KINDS = {
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
        for kind in KINDS
        for before, text in ((READ, steps), (BARE, 1))
        for cell in seeded(f"{kind}, {before}", seeds, partial(_measure, kind, text, effort))
    ]


def _measure(kind: str, steps: int, effort: float, seed: int) -> dict[str, float]:
    task, model = KINDS[kind]
    with TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        made = entities.generate("train", amount(effort, TEXTS, 60), language="en", seed=2)
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
        with trained(task, settings, steps=steps, seed=seed) as read:
            settings = [
                *(f"data.examples={EXAMPLES}", "data.tokenizer=bpe", "data.lowercase=false", "data.max_length=32"),
                *("data.batch_size=16", *model, "training.optimizer.lr=0.002"),
                *(f"pretrained.run={read.parts.folder}", "pretrained.params=encoder.*", "pretrained.vocabulary=true"),
            ]
            with trained("tagging", settings, steps=max(2, round(TUNING * min(1, effort))), seed=seed) as tagger:
                return {F1: tagger.scores["f1"], "nats a token read": read.scores["nats"]}


def verdict(figures: Figures) -> Verdict:
    """Both directions tag better with every seed than one with any, and gain as clearly from what was read."""
    found = means(figures, F1)
    both, one = KINDS
    every = over_seeds(figures, F1)
    holds = all(apart(every[other], every[f"{both}, {READ}"]) for other in (f"{one}, {READ}", f"{both}, {BARE}"))
    told = "; ".join(
        f"{kind} {found[f'{kind}, {READ}']:.2f} (with {BARE} {found[f'{kind}, {BARE}']:.2f})" for kind in KINDS
    )
    return Verdict(holds, f"F1 of entities after {EXAMPLES} tagged sentences: {told}. {seeds_of(figures)}.")


def draw(figures: Figures, axes: Any) -> None:
    """F1 of both, with and without text read before."""
    found = over_seeds(figures, F1)
    named: dict[str, Any] = {before: {kind: found[f"{kind}, {before}"] for kind in KINDS} for before in (READ, BARE)}
    bars(axes, named, y=F1)
