"""Classification of documents of several lengths with attention on two levels and on one."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from regard.data.builtin import reviews
from regard.data.builtin.reviews import Review
from regard.experiments._experiment import Cell, budget, cells_per_seed, scaled_count
from regard.experiments._plots import plot_lines
from regard.experiments._train_small import step_milliseconds, train_small
from regard.experiments._verdict import (
    MORE,
    ClaimResult,
    Figures,
    decide,
    describe_seeds,
    difference,
    format_range,
    is_inconclusive,
    is_separated,
    means,
    seed_values,
)

if TYPE_CHECKING:
    from regard.tasks.classification.task import Classification

CLAIM = (
    "Attention on two levels, words in sentences and sentences in documents, improves document classification, most of"
    " all for long documents."
)
REFERENCE = "Yang et al. 2016, section 3.4"
STEPS = 1200
SEEDS_FACTOR = 2  # seeds differ about as much as models, so there are twice as many as in other experiments
CURVE = "validation accuracy"
RESOLUTION = 0.01  # of accuracy; smaller differences do not matter
LENGTHS = (4, 8, 16)  # sentences per document
# For training, of all lengths together: with 400 nothing is learned, with 1,500 both models make no error.
DOCUMENTS = 800
TEST_DOCUMENTS = 600  # of each length
VARIANTS = {
    "two levels": ("model=hierarchical", "model.dim=16"),
    "one level": ("model=flat_attention", "model.dim=28"),  # about as many parameters
}
COMMON_SETTINGS = ("model.embedding=32", "model.attention_dim=32", "model.dropout=0.2", "model.gate=-2.0")
TIME = "milliseconds per step"
MIN_DIFFERENCE = 0.05  # of accuracy; overlapping seeds that differ by more are inconclusive


def long_documents(split: str, count: int, sentences: int, *, seed: int) -> list[tuple[str, str]]:
    """Return labels and texts: reviews with one evidence sentence, padded with unrelated sentences of other reviews."""
    generated = reviews.generate(split, count, language="en", seed=seed)
    rng = random.Random(f"{split} {sentences} {seed}")
    fillers = sorted(
        {
            sentence
            for review in generated
            for index, sentence in enumerate(_split_sentences(review))
            if index != review.evidence_sentence
        }
    )
    documents = []
    for review in generated:
        padded = [*_split_sentences(review), *rng.sample(fillers, min(len(fillers), sentences))]
        selected = padded[: max(sentences, review.evidence_sentence + 1)]
        rng.shuffle(selected)
        documents.append((review.label, " ".join(selected)))
    return documents


def _split_sentences(review: Review) -> list[str]:
    return [review.text[first:last] for first, last in review.sentences]


def cells(effort: float) -> list[Cell]:
    """Return a cell for each model; both are trained on documents of all lengths."""
    steps, seeds = budget(effort, STEPS)
    return [
        cell
        for kind in VARIANTS
        for cell in cells_per_seed(kind, SEEDS_FACTOR * seeds, partial(_measure, kind, effort, steps))
    ]


def _measure(kind: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        for split, count in (("train", scaled_count(effort, DOCUMENTS, 30)), ("valid", scaled_count(effort, 180, 30))):
            rows = [row for length in LENGTHS for row in long_documents(split, count // 3, length, seed=1)]
            table = "\n".join(["label\ttext", *(f"{label}\t{text}" for label, text in rows)])
            (Path(folder) / f"{split}.tsv").write_text(table + "\n", encoding="utf-8")
        settings = [f"data.path={folder}", "data.batch_size=16", *VARIANTS[kind], *COMMON_SETTINGS]
        settings.append("training.optimizer.lr=0.005")
        with train_small("classification", settings, steps=steps, seed=seed) as trained:
            task = cast("Classification", trained.run.task)
            model: Any = trained.run.model
            options = trained.run.recipe.task.module("tasks").Options()
            metrics: dict[str, float] = {
                "parameters": trained.parameters,
                TIME: step_milliseconds(trained.run),
                **trained.late_gain(resolution=RESOLUTION),
            }
            for length in LENGTHS:
                documents = long_documents("test", scaled_count(effort, TEST_DOCUMENTS, 10), length, seed=1)
                results = task.predict(model, [text for _, text in documents], options, None)
                labels = [predictions[0].text for predictions in results]
                correct = sum(label == true for label, (true, _) in zip(labels, documents, strict=True))
                metrics[f"accuracy, {length} sentences"] = correct / len(documents)
            return metrics


def verdict(figures: Figures) -> ClaimResult:
    """Check that every seed of two levels is better on the longest documents, and by more than on the shortest."""
    accuracy = {length: means(figures, f"accuracy, {length} sentences") for length in LENGTHS}
    longest = seed_values(figures, f"accuracy, {LENGTHS[-1]} sentences")
    milliseconds, parameters = means(figures, TIME), means(figures, "parameters")
    gain = {length: by_kind["two levels"] - by_kind["one level"] for length, by_kind in accuracy.items()}
    details = "; ".join(
        f"{kind} {', '.join(f'{accuracy[length][kind]:.0%}' for length in LENGTHS)} ({parameters[kind]:.0f}"
        f" parameters, {milliseconds[kind]:.0f} ms per step)"
        for kind in VARIANTS
    )
    both = longest["one level"], longest["two levels"]
    unclear = is_inconclusive(*both, MIN_DIFFERENCE)
    conditions = {
        f"every seed of two levels beats every seed of one level on {LENGTHS[-1]} sentences": is_separated(*both),
        f"the lead is larger than on documents of {LENGTHS[0]} sentences": gain[LENGTHS[-1]] > gain[LENGTHS[0]],
    }
    effects = [
        difference(
            f"accuracy on {length} sentences, two levels minus one level",
            *(seed_values(figures, f"accuracy, {length} sentences")[kind] for kind in VARIANTS),
            form="+.1%",
        )
        for length in (LENGTHS[0], LENGTHS[-1])
    ]
    return decide(
        f"Accuracy on documents of {', '.join(map(str, LENGTHS))} sentences: {details}. {describe_seeds(figures)}.",
        conditions,
        effects,
        undecided=f"Seeds differ more than models ({format_range(*both)} on the longest); {MORE}." if unclear else "",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot accuracy against length."""
    curves = {
        kind: {float(length): means(figures, f"accuracy, {length} sentences")[kind] for length in LENGTHS}
        for kind in VARIANTS
    }
    plot_lines(axes, curves, x="sentences per document", y="accuracy")
    axes.set_ylim(0.4, 1.02)
    axes.set_xticks(LENGTHS)
