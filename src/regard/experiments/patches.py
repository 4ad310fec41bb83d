"""A Vision Transformer and a small convolutional network as the training set grows."""

from __future__ import annotations

from functools import partial
from typing import Any

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

CLAIM = "Transformers need much data, then they can replace convolution: with few images a convolution is far ahead."
WHERE = "Dosovitskiy et al. 2021, section 4.3"
STEPS = 1000
SIZES = (60, 250, 1000)
VARIANTS = {
    "ViT": ("model=vit", "model.layers=2", "model.dim=48", "model.heads=4", "model.patch=2"),
    "CNN": ("model=cnn", "model.dim=16", "model.stages=2"),
}
MAX_ACCURACY_GAP = 3.0  # points of accuracy within which a rival counts as replaced
SCORE = "accuracy"


def cells(effort: float) -> list[Cell]:
    """Each kind with each number of images and the same number of steps."""
    steps, seeds = budget(effort, STEPS)
    return [
        cell
        for kind in VARIANTS
        for size in SIZES
        for cell in cells_per_seed(f"{kind}, {size} images", seeds, partial(_measure, kind, size, steps))
    ]


def _measure(kind: str, size: int, steps: int, seed: int) -> dict[str, float]:
    settings = [f"data.examples={size}", *VARIANTS[kind], "training.optimizer.lr=0.003"]
    with train_small("regard.experiments._digits_subset_task", settings, steps=steps, seed=seed) as made:
        return {SCORE: made.scores["accuracy"], "weights": made.parameters}


def verdict(figures: Figures) -> ClaimResult:
    """With the fewest images the convolution leads clearly, with the most hardly."""
    found = means(figures, SCORE)
    lead = {size: found[f"CNN, {size} images"] - found[f"ViT, {size} images"] for size in SIZES}
    told = "; ".join(
        f"{size} images: ViT {found[f'ViT, {size} images']:.1f} %, CNN {found[f'CNN, {size} images']:.1f} %"
        for size in SIZES
    )
    return ClaimResult(
        lead[SIZES[0]] > MAX_ACCURACY_GAP > lead[SIZES[-1]],
        f"Digits recognised after the same number of steps, by images to learn from: {told}. The convolution leads by"
        f" {lead[SIZES[0]]:.1f} points with the fewest and {lead[SIZES[-1]]:.1f} with the most. {describe_seeds(figures)}.",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Accuracy against the number of images."""
    found = means(figures, SCORE)
    curves = {kind: {float(size): found[f"{kind}, {size} images"] for size in SIZES} for kind in VARIANTS}
    plot_lines(axes, curves, x="images to learn from", y="accuracy, %")
    axes.set_xscale("log")
    axes.set_xticks(SIZES, list(map(str, SIZES)))
    axes.minorticks_off()
