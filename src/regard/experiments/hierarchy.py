"""Documents of several lengths, read by attention on two levels and on one."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.data.builtin import reviews
from regard.data.builtin.reviews import Review
from regard.experiments._experiment import (
    MORE,
    Cell,
    ClaimResult,
    Figures,
    budget,
    cells_per_seed,
    describe_seeds,
    format_range,
    is_inconclusive,
    is_separated,
    means,
    plot_lines,
    scaled_count,
    seed_values,
)
from regard.experiments._train_small import step_milliseconds, train_small

CLAIM = "Attention on several levels, words of sentences and sentences of documents, helps documents, long ones most."
WHERE = "Yang et al. 2016, section 3.4"
STEPS = 500
LENGTHS = (4, 8, 16)  # sentences of a document
DOCUMENTS, TEST_DOCUMENTS = 1500, 120  # for training, all lengths together; and of each length for the test
VARIANTS = {
    "two levels": ("model=hierarchical", "model.dim=16"),
    "one level": ("model=flat_attention", "model.dim=28"),  # about as many weights
}
SAME = ("model.embedding=32", "model.attention_dim=32", "model.dropout=0.2", "model.gate=-2.0")
TIME = "milliseconds a step"
MIN_DIFFERENCE = 0.05  # of accuracy: seeds that differ by more, and lie among each other, decide nothing


def long_documents(split: str, count: int, sentences: int, *, seed: int) -> list[tuple[str, str]]:
    """Labels and texts: reviews of which one sentence decides, among so many that others have said of other things."""
    made = reviews.generate(split, count, language="en", seed=seed)
    chance = random.Random(f"{split} {sentences} {seed}")
    others = sorted(
        {said for review in made for number, said in enumerate(_said(review)) if number != review.evidence_sentence}
    )
    found = []
    for review in made:
        own = [*_said(review), *chance.sample(others, min(len(others), sentences))][
            : max(sentences, review.evidence_sentence + 1)
        ]
        chance.shuffle(own)
        found.append((review.label, " ".join(own)))
    return found


def _said(review: Review) -> list[str]:
    return [review.text[first:last] for first, last in review.sentences]


def cells(effort: float) -> list[Cell]:
    """Both ways to read, trained on all lengths alike."""
    steps, seeds = budget(effort, STEPS)
    return [cell for kind in VARIANTS for cell in cells_per_seed(kind, seeds, partial(_measure, kind, effort, steps))]


def _measure(kind: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        for split, count in (("train", scaled_count(effort, DOCUMENTS, 30)), ("valid", 60)):
            rows = [row for length in LENGTHS for row in long_documents(split, count // 3, length, seed=1)]
            table = "\n".join(["label\ttext", *(f"{label}\t{text}" for label, text in rows)])
            (Path(folder) / f"{split}.tsv").write_text(table + "\n", encoding="utf-8")
        settings = [f"data.path={folder}", "data.batch_size=16", *VARIANTS[kind], *SAME, "training.optimizer.lr=0.005"]
        with train_small("classification", settings, steps=steps, seed=seed) as made:
            task: Any = made.parts.task
            options = made.parts.recipe.task.module("tasks").Options()
            found: dict[str, float] = {"weights": made.parameters, TIME: step_milliseconds(made.parts)}
            for length in LENGTHS:
                due = long_documents("test", scaled_count(effort, TEST_DOCUMENTS, 10), length, seed=1)
                told = task.answer(made.parts.model, [text for _, text in due], options, None)
                right = sum(answers[0].text == label for answers, (label, _) in zip(told, due, strict=True))
                found[f"accuracy, {length} sentences"] = right / len(due)
            return found


def verdict(figures: Figures) -> ClaimResult:
    """On the longest documents two levels are better with every seed, and by more than on the shortest."""
    found = {length: means(figures, f"accuracy, {length} sentences") for length in LENGTHS}
    longest = seed_values(figures, f"accuracy, {LENGTHS[-1]} sentences")
    taken, weights = means(figures, TIME), means(figures, "weights")
    gain = {length: each["two levels"] - each["one level"] for length, each in found.items()}
    told = "; ".join(
        f"{kind} {', '.join(f'{found[length][kind]:.0%}' for length in LENGTHS)} ({weights[kind]:.0f} weights,"
        f" {taken[kind]:.0f} ms a step)"
        for kind in VARIANTS
    )
    both = longest["one level"], longest["two levels"]
    unclear = is_inconclusive(*both, MIN_DIFFERENCE)
    more = f" Seeds differ by more than the two do ({format_range(*both)} of the longest); {MORE}." if unclear else ""
    return ClaimResult(
        None if unclear else gain[LENGTHS[-1]] > gain[LENGTHS[0]] and is_separated(*both),
        f"Documents of {', '.join(map(str, LENGTHS))} sentences that are labelled rightly: {told}."
        f" {describe_seeds(figures)}.{more}",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Accuracy against length."""
    curves = {
        kind: {float(length): means(figures, f"accuracy, {length} sentences")[kind] for length in LENGTHS}
        for kind in VARIANTS
    }
    plot_lines(axes, curves, x="sentences of a document", y="accuracy")
    axes.set_ylim(0.4, 1.02)
    axes.set_xticks(LENGTHS)
