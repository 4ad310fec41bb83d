"""A Vision Transformer against a small convolutional network for training sets of increasing size."""

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

CLAIM = "Transformers need much data to replace convolution: with few images a CNN is far better."
REFERENCE = "Dosovitskiy et al. 2021, section 4.3"
STEPS = 1000
SIZES = (60, 250, 1000)
VARIANTS = {
    "ViT": ("model=vit", "model.layers=2", "model.dim=48", "model.heads=4", "model.patch=2"),
    "CNN": ("model=cnn", "model.dim=16", "model.stages=2"),
}
MAX_ACCURACY_GAP = 0.03  # within which the CNN counts as replaced
ACCURACY = "accuracy"


def cells(effort: float) -> list[Cell]:
    """Return each model with each number of images and the same number of steps."""
    steps, seeds = budget(effort, STEPS)
    return [
        cell
        for kind in VARIANTS
        for size in SIZES
        for cell in cells_per_seed(f"{kind}, {size} images", seeds, partial(_measure, kind, size, steps))
    ]


def _measure(kind: str, size: int, steps: int, seed: int) -> dict[str, float]:
    settings = [f"data.examples={size}", *VARIANTS[kind], "training.optimizer.lr=0.003"]
    with train_small("regard.experiments._digits_subset_task", settings, steps=steps, seed=seed) as trained:
        return {ACCURACY: trained.scores["accuracy"], "parameters": trained.parameters}


def verdict(figures: Figures) -> ClaimResult:
    """Check that the CNN is clearly better with the fewest images, and hardly with the most."""
    accuracy = means(figures, ACCURACY)
    lead = {size: accuracy[f"CNN, {size} images"] - accuracy[f"ViT, {size} images"] for size in SIZES}
    details = "; ".join(
        f"{size} images: ViT {accuracy[f'ViT, {size} images']:.1%}, CNN {accuracy[f'CNN, {size} images']:.1%}"
        for size in SIZES
    )
    return ClaimResult(
        lead[SIZES[0]] > MAX_ACCURACY_GAP > lead[SIZES[-1]],
        f"Accuracy on digits after the same number of steps, by training images: {details}. The CNN leads by"
        f" {100 * lead[SIZES[0]]:.1f} points with the fewest and {100 * lead[SIZES[-1]]:.1f} with the most."
        f" {describe_seeds(figures)}.",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot accuracy against the number of images."""
    accuracy = means(figures, ACCURACY)
    curves = {kind: {float(size): accuracy[f"{kind}, {size} images"] for size in SIZES} for kind in VARIANTS}
    plot_lines(axes, curves, x="training images", y="accuracy")
    axes.set_xscale("log")
    axes.set_xticks(SIZES, list(map(str, SIZES)))
    axes.minorticks_off()
