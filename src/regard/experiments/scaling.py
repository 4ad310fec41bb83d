"""Effect of dividing dot products by √d, against the width d."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch

from regard.attention import scores
from regard.attention.weigh import Weigh
from regard.experiments._experiment import Cell, cells_per_seed
from regard.experiments._lookup_task import Lookup, accuracy_curve
from regard.experiments._plateau import LATE_GAIN, late_gain
from regard.experiments._plots import plot_lines
from regard.experiments._verdict import (
    ClaimResult,
    Figures,
    decide,
    difference,
    is_separated,
    means,
    ratio,
    seed_values,
)

CLAIM = (
    "Dot products grow with the width, so that the softmax saturates and its gradient vanishes; dividing by √d prevents"
    " this."
)
REFERENCE = "Vaswani et al. 2017, section 3.2.1"
WIDTHS = (16, 64, 256)
KEYS, QUERIES = 64, 256
NAMES = {"dot": "unscaled", "scaled_dot": "divided by √d"}
SEEDS, STEPS = 3, 3000
CURVE = "accuracy on new data"
RESOLUTION = 0.02  # of accuracy; smaller differences do not matter
MIN_GROWTH, MAX_SCALED_GROWTH, MAX_GRADIENT_RATIO = 0.7, 1.3, 0.5  # relative to √d; of scaled scores; of the gradients
MIN_ACCURACY_GAIN = 0.05  # of the division in the widest layer
STD, ENTROPY = "standard deviation of the scores", "entropy / maximum entropy"
GRADIENT, ACCURACY = "median gradient at the scores", "accuracy after training"


def cells(effort: float) -> list[Cell]:
    """Return each width with and without the division, with three seeds."""
    steps = max(2, round(STEPS * effort))
    return [
        cell
        for dim in WIDTHS
        for score in NAMES
        for cell in cells_per_seed(_cell_name(score, dim), SEEDS, partial(_measure, score, dim, steps))
    ]


def _measure(score: str, dim: int, steps: int, seed: int) -> dict[str, float]:
    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(1, 1, count, dim, generator=generator) for count in (QUERIES, KEYS))
    weigh = Weigh(scores.build(score, dim))
    logits, weights = weigh.scores(q, k), weigh(q, k)
    entropy = -(weights * weights.clamp_min(1e-30).log()).sum(dim=-1).mean()
    direction = torch.randn(weights.shape, generator=generator)
    # gradient of Σ direction·weights with respect to the scores
    gradient = weights * (direction - (weights * direction).sum(dim=-1, keepdim=True))
    torch.manual_seed(seed)
    accuracies = accuracy_curve(Lookup(dim, score), steps, seed=seed)
    return {
        STD: float(logits.std()),
        ENTROPY: float(entropy) / math.log(KEYS),
        GRADIENT: float(gradient.norm(dim=-1).median()),
        ACCURACY: accuracies[-1],
        LATE_GAIN: late_gain(accuracies, higher_is_better=True, resolution=RESOLUTION),
    }


def _cell_name(name: str, dim: int) -> str:
    return f"{NAMES[name]}, d = {dim}"


def verdict(figures: Figures) -> ClaimResult:
    """Check that unscaled scores grow with the width, their gradient vanishes, and the widest layer trains worse."""
    std, entropy, gradient = (means(figures, figure) for figure in (STD, ENTROPY, GRADIENT))
    accuracy, by_seed = means(figures, ACCURACY), seed_values(figures, ACCURACY)
    low, high = WIDTHS[0], WIDTHS[-1]
    unscaled, scaled = _cell_name("dot", high), _cell_name("scaled_dot", high)
    unscaled_growth = std[unscaled] / std[_cell_name("dot", low)]
    scaled_growth = std[scaled] / std[_cell_name("scaled_dot", low)]
    gradient_ratio = gradient[unscaled] / gradient[scaled]
    gain = accuracy[scaled] - accuracy[unscaled]
    gradients = seed_values(figures, GRADIENT)
    conditions = {
        f"unscaled scores grow by more than {MIN_GROWTH} times the square root of the widths": unscaled_growth
        > MIN_GROWTH * math.sqrt(high / low),
        f"scaled ones by less than {MAX_SCALED_GROWTH} times": scaled_growth < MAX_SCALED_GROWTH,
        f"the gradient without the division is below {MAX_GRADIENT_RATIO:.0%} of that with it": gradient_ratio
        < MAX_GRADIENT_RATIO,
        f"the division adds more than {100 * MIN_ACCURACY_GAIN:.0f} points of accuracy in every pair of seeds": gain
        > MIN_ACCURACY_GAIN
        and is_separated(by_seed[unscaled], by_seed[scaled]),
    }
    effects = [
        difference(f"accuracy at d = {high}, divided minus unscaled", by_seed[scaled], by_seed[unscaled], form="+.1%"),
        ratio("gradient without the division relative to that with it", gradients[unscaled], gradients[scaled]),
    ]
    return decide(
        f"From d = {low} to {high} unscaled scores grow by a factor of {unscaled_growth:.1f} (√{high // low} ="
        f" {math.sqrt(high / low):.0f}), scaled scores by {scaled_growth:.1f}. At d = {high} the entropy of the weights"
        f" is {entropy[unscaled]:.0%} of its maximum without and {entropy[scaled]:.0%} with the division. The median"
        f" gradient at the scores without the division is {gradient_ratio:.0%} of that with it. Accuracy of a trained"
        f" layer: {accuracy[unscaled]:.0%} without and {accuracy[scaled]:.0%} with the division. {SEEDS} seeds.",
        conditions,
        effects,
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot entropy and accuracy after training against the width."""
    curves = {}
    for figure, label in ((ENTROPY, "entropy"), (ACCURACY, "accuracy")):
        values = means(figures, figure)
        for score, name in NAMES.items():
            curves[f"{label}, {name}"] = {float(dim): values[_cell_name(score, dim)] for dim in WIDTHS}
    plot_lines(axes, curves, x="width d", y="fraction")
    axes.set_xscale("log", base=2)
    axes.set_xticks(WIDTHS, list(map(str, WIDTHS)))
    axes.set_ylim(0, 1.05)
