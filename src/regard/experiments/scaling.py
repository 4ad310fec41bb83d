"""What dividing dot products by √d does, as the width d grows."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch

from regard.attention import scores
from regard.attention.weigh import Weigh
from regard.experiments._experiment import Cell, ClaimResult, Figures, is_separated, means, plot_lines, seed_values
from regard.experiments._lookup_task import Lookup, accuracy_after

CLAIM = "Dot products grow with the width, so the softmax saturates and its gradient dies; dividing by √d prevents it."
WHERE = "Vaswani et al. 2017, section 3.2.1"
WIDTHS = (16, 64, 256)
KEYS, QUERIES = 64, 256
NAMES = {"dot": "not divided", "scaled_dot": "divided by √d"}
SEEDS = 3
MIN_ACCURACY_GAIN = 0.05  # share of right answers that the division must be worth in the widest layer
ENTROPY, SLOPE, QUALITY = (
    "entropy, share of the most",
    "gradient at the scores of half the queries",
    "accuracy when trained",
)


def cells(effort: float) -> list[Cell]:
    """Each width with and without the division, three seeds."""
    steps = max(2, round(250 * effort))
    return [
        Cell(f"{NAMES[score]}, d = {dim}, seed {seed}", partial(_measure, score, dim, steps, seed))
        for dim in WIDTHS
        for score in NAMES
        for seed in range(1, SEEDS + 1)
    ]


def _measure(score: str, dim: int, steps: int, seed: int) -> dict[str, float]:
    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(1, 1, count, dim, generator=generator) for count in (QUERIES, KEYS))
    weigh = Weigh(scores.build(score, dim))
    made, weights = weigh.scores(q, k), weigh(q, k)
    entropy = -(weights * weights.clamp_min(1e-30).log()).sum(dim=-1).mean()
    change = torch.randn(weights.shape, generator=generator)
    slope = weights * (change - (weights * change).sum(dim=-1, keepdim=True))  # of Σ change·weights, at the scores
    torch.manual_seed(seed)
    return {
        "deviation of scores": float(made.std()),
        ENTROPY: float(entropy) / math.log(KEYS),
        SLOPE: float(slope.norm(dim=-1).median()),
        QUALITY: accuracy_after(Lookup(dim, score), steps, seed=seed),
    }


def _at(name: str, dim: int) -> str:
    return f"{NAMES[name]}, d = {dim}"


def verdict(figures: Figures) -> ClaimResult:
    """Undivided scores grow with the width, the gradient at them dies, and the widest model learns clearly worse."""
    spread, entropy, slope = (means(figures, figure) for figure in ("deviation of scores", ENTROPY, SLOPE))
    quality, every = means(figures, QUALITY), seed_values(figures, QUALITY)
    low, high = WIDTHS[0], WIDTHS[-1]
    grows = spread[_at("dot", high)] / spread[_at("dot", low)]
    stays = spread[_at("scaled_dot", high)] / spread[_at("scaled_dot", low)]
    left = slope[_at("dot", high)] / slope[_at("scaled_dot", high)]
    better = quality[_at("scaled_dot", high)] - quality[_at("dot", high)]
    learns = better > MIN_ACCURACY_GAIN and is_separated(every[_at("dot", high)], every[_at("scaled_dot", high)])
    holds = grows > 0.7 * math.sqrt(high / low) and stays < 1.3 and left < 0.5 and learns
    return ClaimResult(
        holds,
        f"From d = {low} to {high} scores grow {grows:.1f} times where they are not divided (√{high // low} ="
        f" {math.sqrt(high / low):.0f}) and {stays:.1f} times where they are. At d = {high} the entropy of the weights"
        f" is {entropy[_at('dot', high)]:.0%} of the most without and {entropy[_at('scaled_dot', high)]:.0%} with the"
        f" division, and without it half of the queries have {left:.0%} or less of the gradient at their scores"
        f" that is usual with it; a trained layer answers"
        f" {quality[_at('dot', high)]:.0%} and"
        f" {quality[_at('scaled_dot', high)]:.0%} rightly. {SEEDS} seeds.",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Entropy and trained accuracy against the width."""
    curves = {}
    for figure, word in ((ENTROPY, "entropy"), (QUALITY, "accuracy")):
        found = means(figures, figure)
        for score, name in NAMES.items():
            curves[f"{word}, {name}"] = {float(dim): found[_at(score, dim)] for dim in WIDTHS}
    plot_lines(axes, curves, x="width d", y="share")
    axes.set_xscale("log", base=2)
    axes.set_xticks(WIDTHS, list(map(str, WIDTHS)))
    axes.set_ylim(0, 1.05)
