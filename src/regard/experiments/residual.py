"""Blocks without residual connections, without norms, and without both, at several depths.

This module is also the model: a GPT with a configurable wrapper around the sublayers of its blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from regard.core.data_specs import LanguageSpec
from regard.data.builtin import reviews
from regard.experiments._experiment import Cell, budget, cells_per_seed, scaled_count
from regard.experiments._plots import plot_lines
from regard.experiments._train_small import train_small
from regard.experiments._verdict import (
    ClaimResult,
    Figures,
    decide,
    describe_seeds,
    difference,
    is_separated,
    means,
    seed_values,
)
from regard.layers.norm import PreNorm, Sublayer
from regard.models import gpt

CLAIM = (
    "Residual connections and layer norms preserve information and gradients; deep stacks do not train without them."
)
REFERENCE = "Vaswani et al. 2017, section 3.1; He et al. 2016; Ba et al. 2016"
STEPS = 360
LEARNING_RATES = (0.001, 0.003, 0.01)  # each variant is trained with its best one
PILOT_FRACTION = 0.25  # of the steps, to choose the learning rate
CURVE = "validation loss"
RESOLUTION = 0.02  # nats; smaller differences do not matter
DEPTHS, MORE_DEPTHS = (2, 12), (2, 6, 12)  # of a quick and of a longer measurement
SHALLOW_FACTOR = 2  # shallow stacks improve for longer, so that they get twice as many steps
NATS, SIMILARITY = "nats per token", "similarity of positions at initialization"
RATE = "learning rate"
Wrapper = Literal["both", "no residual", "no norm", "neither"]
VARIANTS: tuple[Wrapper, ...] = ("both", "no residual", "no norm", "neither")


@dataclass(frozen=True)
class Config:
    """Depth, and the wrapper of sublayers."""

    layers: int = 2
    around: Wrapper = "both"


class NoResidual(nn.Module):
    """f(norm(x))."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return sublayer(self.norm(x))


class NoNorm(nn.Module):
    """x + f(x)."""

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return x + sublayer(x)


class Neither(nn.Module):
    """f(x)."""

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return sublayer(x)


def build(config: Config, sizes: LanguageSpec) -> Any:
    """Build a GPT of width 32 with another wrapper around the sublayers of its blocks."""
    model: Any = gpt.build(gpt.Config(layers=config.layers, dim=32, heads=2), sizes)
    for block in model.encoder.layers:
        for name in ("around_self", "around_feedforward"):
            setattr(block, name, _build_wrapper(config.around, getattr(block, name)))
    if config.around in ("no norm", "neither"):
        model.encoder.last = nn.Identity()
    return model


def _build_wrapper(kind: Wrapper, default: PreNorm) -> nn.Module:
    wrappers: dict[str, nn.Module] = {
        "no residual": NoResidual(default.norm),
        "no norm": NoNorm(),
        "neither": Neither(),
    }
    return wrappers.get(kind, default)


def cells(effort: float) -> list[Cell]:
    """Return each variant at each depth."""
    steps, seeds = budget(effort, STEPS)
    depths = MORE_DEPTHS if effort >= 4 else DEPTHS
    return [
        cell
        for kind in VARIANTS
        for depth in depths
        for cell in cells_per_seed(
            f"{kind}, {depth} layers",
            seeds,
            partial(_measure, kind, depth, effort, SHALLOW_FACTOR * steps if depth == min(depths) else steps),
        )
    ]


def _measure(kind: Wrapper, depth: int, effort: float, steps: int, seed: int) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        text = Path(folder) / "reviews.txt"
        generated = reviews.generate("train", scaled_count(effort, 1500, 40), language="en", seed=1)
        text.write_text("\n".join(review.text for review in generated) + "\n", encoding="utf-8")
        settings = [
            *(
                f'data.paths=["{text}"]',
                "data.tokenizer=word",
                "data.context=32",
                "data.batch_size=16",
                "data.eval_tokens=4000",
            ),
            *(f"model={__name__}", f"model.layers={depth}", f"model.around={kind}"),
        ]
        rate = _best_learning_rate(settings, max(2, round(PILOT_FRACTION * steps)), seed)
        rated = [*settings, f"training.optimizer.lr={rate}"]
        with train_small("language", rated, steps=steps, seed=seed) as trained:
            metrics = {NATS: trained.scores["nats"], SIMILARITY: _position_similarity(kind, depth, seed), RATE: rate}
            return metrics | trained.late_gain(resolution=RESOLUTION)


def _best_learning_rate(settings: list[str], steps: int, seed: int) -> float:
    """Return the learning rate with the fewest nats after a short training; a diverged one has infinitely many."""
    nats = {}
    for rate in LEARNING_RATES:
        with train_small("language", [*settings, f"training.optimizer.lr={rate}"], steps=steps, seed=seed) as trained:
            value = trained.scores.get("nats", math.inf)
            nats[rate] = value if math.isfinite(value) else math.inf
    return min(nats, key=lambda rate: nats[rate])


@torch.no_grad()
def _position_similarity(kind: Wrapper, depth: int, seed: int) -> float:
    """Return the mean cosine between the features of two positions before training; 1 if all positions are equal.

    Features are normalized in double precision, because they may have nearly vanished.
    """
    torch.manual_seed(seed)
    model = build(Config(depth, kind), LanguageSpec(vocab_size=100, max_length=32))
    tokens = torch.randint(4, 100, (16, 32))
    x = model.encoder.forward_with_cache(tokens, model.encoder.empty_cache(tokens))[0]
    unit = normalize(x.double(), dim=-1, eps=1e-200)
    cosines = unit @ unit.mT  # (b t t)
    off_diagonal = cosines.sum() - cosines.diagonal(dim1=1, dim2=2).sum()
    return float(off_diagonal / (cosines.numel() - cosines.shape[0] * cosines.shape[1]))


def verdict(figures: Figures) -> ClaimResult:
    """Check that at the largest depth every variant without one of them is clearly worse than with both."""
    nats, similarity = means(figures, NATS), means(figures, SIMILARITY)
    depths = sorted({int(name.split(", ")[1].split()[0]) for name in nats})
    low, high = depths[0], depths[-1]
    deep = {kind: nats[f"{kind}, {high} layers"] for kind in VARIANTS}
    shallow = {kind: nats[f"{kind}, {low} layers"] for kind in VARIANTS}
    nats_by_seed = seed_values(figures, NATS)
    worse = {
        kind: is_separated(nats_by_seed[f"both, {high} layers"], nats_by_seed[f"{kind}, {high} layers"])
        for kind in VARIANTS[1:]
    }
    needed = [kind.removeprefix("no ") for kind in VARIANTS[1:3] if worse[kind]]
    summary = (
        "both are needed" if len(needed) == 2 else f"only the {needed[0]} is needed" if needed else "neither is needed"
    )
    details = "; ".join(
        f"{kind} {shallow[kind]:.2f} and {deep[kind]:.2f}, {similarity[f'{kind}, {high} layers']:.2f}"
        for kind in VARIANTS
    )
    conditions = {
        f"with {high} layers every seed of {kind} has more nats than every seed of both": is_worse
        for kind, is_worse in worse.items()
    }
    effects = [
        difference(
            f"nats per token with {high} layers, {kind} minus both",
            nats_by_seed[f"{kind}, {high} layers"],
            nats_by_seed[f"both, {high} layers"],
        )
        for kind in VARIANTS[1:]
    ]
    return decide(
        f"With {high} layers {summary}. Nats per token with {low} and with {high} layers, and similarity of the"
        f" features of two positions after {high} layers before training (1: positions cannot be distinguished):"
        f" {details}. {describe_seeds(figures)}.",
        conditions,
        effects,
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot nats against depth."""
    curves: dict[str, dict[float, float]] = {kind: {} for kind in VARIANTS}
    for name, value in means(figures, NATS).items():
        kind, depth = name.split(", ")
        curves[kind][float(depth.split()[0])] = value
    plot_lines(axes, curves, x="layers", y="nats per token")
    axes.set_xticks(sorted({depth for points in curves.values() for depth in points}))
