"""A Vision Transformer against a small convolutional network for training sets of increasing size.

The images are generated, so that there are as many as needed: each shows one shape of six near its center.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.builtin import scenes
from regard.data.builtin.scenes import Scene
from regard.experiments._experiment import Cell, budget, cells_per_seed, scaled_count
from regard.experiments._plots import plot_lines
from regard.experiments._train_small import train_small
from regard.experiments._verdict import ClaimResult, Effect, Figures, decide, describe_seeds, means, seed_values

CLAIM = "Transformers need much data to replace convolution: with few images a CNN is far better."
REFERENCE = "Dosovitskiy et al. 2021, section 4.3"
STEPS = 1200
SIZES, MORE_SIZES = (100, 4000), (100, 1000, 4000, 10_000)  # training images, and those of a longer measurement
NUM_TEST_IMAGES = 600
SIDE, SCENE_SIDE = 24, 72  # pixels of an image, and of the scene from which it is cut
MAX_SHIFT = 3  # pixels between the center of the shape and that of the image
VARIANTS = {  # with the faster optimizer of two for each; a convolutional network has no matrices for Muon
    "ViT": (
        *("model=vit", "model.layers=3", "model.dim=48", "model.heads=4", "model.patch=4"),
        "training.optimizer.name=muon",
    ),
    "CNN": ("model=cnn", "model.dim=16", "model.stages=2"),
}
LEARNING_RATES = (0.001, 0.003, 0.006)  # each cell is trained with its best one
PILOT_FRACTION = 0.15  # of the steps, to choose the learning rate
MIN_ERROR_RATIO = 1.5  # of the ViT relative to the CNN, with the fewest images
CURVE = "validation accuracy"
RESOLUTION = 0.01  # of accuracy; smaller differences do not matter
ERROR = "error"


def cells(effort: float) -> list[Cell]:
    """Return each model with each number of images, trained until its validation accuracy stops rising."""
    steps, seeds = budget(effort, STEPS)
    return [
        cell
        for kind in VARIANTS
        for size in (MORE_SIZES if effort >= 4 else SIZES)
        for cell in cells_per_seed(f"{kind}, {size} images", seeds, partial(_measure, kind, size, effort, steps))
    ]


def _measure(kind: str, size: int, effort: float, steps: int, seed: int) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "shapes.npz"
        write_shapes(path, scaled_count(effort, size, 40), scaled_count(effort, NUM_TEST_IMAGES, 20), seed=seed)
        settings = [f"data.path={path}", "data.batch_size=32", "data.crop=1", *VARIANTS[kind]]
        rate = _best_learning_rate(settings, max(2, round(PILOT_FRACTION * steps)), seed)
        rated = [*settings, f"training.optimizer.lr={rate}"]
        with train_small("image_classification", rated, steps=steps, seed=seed) as trained:
            metrics = {
                ERROR: _smoothed_error(trained.scores["accuracy"], scaled_count(effort, NUM_TEST_IMAGES, 20)),
                "learning rate": rate,
                "parameters": trained.parameters,
            }
            return metrics | trained.late_gain(resolution=RESOLUTION)


def _smoothed_error(accuracy: float, count: int) -> float:
    """Return the fraction of wrong images with half an error and one image added, so that no error has a logarithm."""
    return ((1 - accuracy) * count + 0.5) / (count + 1)


def write_shapes(path: Path, num_train: int, num_test: int, *, seed: int) -> None:
    """Write images with one shape each and the number of the shape; every combination of traits is in both splits."""
    generated = scenes.generate("train", num_train + num_test, seed=seed, side=SCENE_SIDE, things=(1, 1))
    rng = np.random.default_rng(seed)
    pixels = np.stack([_cut_out(scene, rng.integers(-MAX_SHIFT, MAX_SHIFT + 1, size=2)) for scene in generated])
    labels = np.array([list(scenes.SHAPES).index(scene.objects[0].shape) for scene in generated])
    np.savez(
        path,
        x_train=pixels[:num_train],
        y_train=labels[:num_train],
        x_valid=pixels[num_train:],
        y_valid=labels[num_train:],
    )


def _cut_out(scene: Scene, shift: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the pixels around the center of the only shape, moved by `shift` (columns, rows)."""
    left, top, right, bottom = scene.objects[0].box
    center = SCENE_SIDE * np.array([left + right, top + bottom]) / 2
    column, row = np.clip(np.rint(center - SIDE / 2).astype(int) + shift, 0, SCENE_SIDE - SIDE)
    return scene.pixels[row : row + SIDE, column : column + SIDE]


def _best_learning_rate(settings: list[str], steps: int, seed: int) -> float:
    """Return the learning rate with the lowest validation loss after a short training."""
    losses = {}
    for rate in LEARNING_RATES:
        rated = [*settings, f"training.optimizer.lr={rate}"]
        with train_small("image_classification", rated, steps=steps, seed=seed) as trained:
            losses[rate] = trained.scores["loss"]
    return min(losses, key=lambda rate: losses[rate])


def _sizes(figures: Figures) -> list[int]:
    return sorted({int(name.split(", ")[1].split()[0]) for name in figures})


def _log_error_ratio(figures: Figures, size: int) -> Effect:
    """Return log(error of the ViT / error of the CNN), with an interval over all pairs of seeds."""
    errors = seed_values(figures, ERROR)
    vit, cnn = ([math.log(value) for value in errors[f"{kind}, {size} images"]] for kind in VARIANTS)
    name = f"log(error of the ViT / error of the CNN), {size} images"
    return Effect(name, fmean(vit) - fmean(cnn), min(vit) - max(cnn), max(vit) - min(cnn))


def verdict(figures: Figures) -> ClaimResult:
    """Check that the ViT has more errors with the fewest images, and that its disadvantage falls with their number."""
    sizes, error = _sizes(figures), means(figures, ERROR)
    few, many = (_log_error_ratio(figures, size) for size in (sizes[0], sizes[-1]))
    details = "; ".join(
        f"{size} images: ViT {error[f'ViT, {size} images']:.1%}, CNN {error[f'CNN, {size} images']:.1%}"
        for size in sizes
    )
    conditions = {
        f"with {sizes[0]} images the ViT has more than {MIN_ERROR_RATIO} times the errors of the CNN in every pair of"
        " seeds": few.low > math.log(MIN_ERROR_RATIO),
        f"the ratio of errors is lower with {sizes[-1]} images in every pair of seeds": many.high < few.low,
    }
    text = f"Errors on generated shapes of six kinds, by training images: {details}. {describe_seeds(figures)}."
    return decide(text, conditions, [few, many])


def draw(figures: Figures, axes: Any) -> None:
    """Plot the error against the number of images."""
    sizes, error = _sizes(figures), means(figures, ERROR)
    curves = {kind: {float(size): error[f"{kind}, {size} images"] for size in sizes} for kind in VARIANTS}
    plot_lines(axes, curves, x="training images", y="error, fraction of the images")
    axes.set_xscale("log")
    axes.set_xticks(sizes, list(map(str, sizes)))
    axes.minorticks_off()
