"""Music models with absolute and with relative positions, at the training length and at twice that length.

This module is also a model: a music Transformer whose absolute positions start at a random number in training.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from regard.core.data_specs import MusicSpec
from regard.experiments._experiment import Cell, budget, cells_per_seed, scaled_count
from regard.experiments._plots import plot_bars
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
from regard.layers.positions._base import PositionScheme
from regard.models import music_transformer
from regard.models.music_transformer import Config, MusicTransformer
from regard.training.load_run import LoadedRun

if TYPE_CHECKING:
    from regard.core.protocols import Decoder
    from regard.tasks.music.task import Music

CLAIM = (
    "Relative positions improve music models and generalize to twice the training length; absolute positions do not."
)
REFERENCE = "Huang et al. 2019, sections 4.1 and 4.2"
STEPS = 600
CURVE = "validation nats"
RESOLUTION = 0.01  # nats; smaller differences do not matter
CROP = 128  # tokens per training example: two bars of four voices
RANDOM_START = "absolute, sinusoidal, random start"
VARIANTS = {
    "absolute, learned": ("model=music_transformer", "model.position=learned"),
    "absolute, sinusoidal": ("model=music_transformer", "model.position=sinusoidal"),
    RANDOM_START: (f"model={__name__}", "model.position=sinusoidal"),
    "relative": ("model=music_transformer", "model.position=relative"),
}
START_AT_0 = ("absolute, learned", "absolute, sinusoidal")
MAX_INCREASE = 0.05  # nats by which a model that generalizes may be worse at twice the training length
LENGTHS = {"training length": CROP, "twice the training length": 2 * CROP}
TRAINED, TWICE = LENGTHS


__all__ = ["Config"]


class RandomStart(PositionScheme):
    """Absolute positions that start at a random number in training, so that larger ones are trained, too."""

    def __init__(self, inner: PositionScheme, largest: int) -> None:
        super().__init__(inner.dim, max_length=inner.longest)
        self.inner, self.largest = inner, largest

    def forward(self, x: Tensor, start: Tensor | int = 0) -> Tensor:
        added = int(torch.randint(self.largest + 1, ())) if self.training else 0
        out: Tensor = self.inner(x, start + added)
        return out


def build(config: Config, sizes: MusicSpec) -> MusicTransformer:
    """Build a music Transformer with a random first position in training."""
    model = music_transformer.build(config, sizes)
    model.embedding.position = RandomStart(model.embedding.position, CROP)
    return model


def cells(effort: float) -> list[Cell]:
    """Return a cell for each position scheme, in the same model."""
    steps, seeds = budget(effort, STEPS)
    return [cell for kind in VARIANTS for cell in cells_per_seed(kind, seeds, partial(_measure, kind, effort, steps))]


def _measure(kind: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    settings = [
        *(
            f"data.limit={scaled_count(effort, 60, 6)}",
            f"data.crop={CROP}",
            f"data.window={CROP}",
            "data.max_length=1024",
        ),
        *(*VARIANTS[kind], "model.layers=2", "model.dim=64", "model.ffn_dim=128", "model.heads=4"),
        *("model.dropout=0.1", "training.optimizer.lr=0.004"),
    ]
    with train_small("music", settings, steps=steps, seed=seed) as trained:
        metrics = {f"nats, {name}": _mean_nats(trained.run, window) for name, window in LENGTHS.items()}
        return metrics | trained.late_gain(resolution=RESOLUTION)


def _mean_nats(run: LoadedRun, window: int) -> float:
    """Return the mean nats per note for pieces in windows of `window` tokens."""
    task, model = cast("Music", run.task), cast("Decoder", run.model)
    return float(np.concatenate(task.token_nats(model, "valid", window=window)).mean())


def verdict(figures: Figures) -> ClaimResult:
    """Check that relative positions have the fewest nats at both lengths, and keep them at twice the length.

    Absolute positions with a random start are a control: they have been trained at all positions.
    """
    nats = {name: means(figures, f"nats, {name}") for name in LENGTHS}
    increase = {kind: nats[TWICE][kind] - nats[TRAINED][kind] for kind in VARIANTS}
    by_length = [seed_values(figures, f"nats, {name}") for name in LENGTHS]
    details = "; ".join(
        f"{kind} {nats[TRAINED][kind]:.3f} and {nats[TWICE][kind]:.3f} ({increase[kind]:+.3f})" for kind in VARIANTS
    )
    absolute = [kind for kind in VARIANTS if kind != "relative"]
    conditions = {
        "at both lengths every seed of relative positions has fewer nats than every seed of the others": all(
            is_separated(values["relative"], values[kind]) for values in by_length for kind in absolute
        ),
        f"every seed of relative positions loses at most {MAX_INCREASE:g} nats at {TWICE}": max(
            _increases(figures, "relative")
        )
        <= MAX_INCREASE,
        "every seed of absolute positions that always start at 0 loses more": min(
            value for kind in START_AT_0 for value in _increases(figures, kind)
        )
        > MAX_INCREASE,
    }
    effects = []
    for name, values in zip(LENGTHS, by_length, strict=True):
        best = min(absolute, key=nats[name].__getitem__)
        title = f"nats per note at {name}, relative minus the best absolute ({best.removeprefix('absolute, ')})"
        effects.append(difference(title, values["relative"], values[best], form="+.3f"))
    return decide(
        f"Nats per note in windows of {CROP} tokens, as in training, and of {2 * CROP}: {details}."
        f" {describe_seeds(figures)}.",
        conditions,
        effects,
    )


def _increases(figures: Figures, kind: str) -> list[float]:
    """Return by how much the nats of each seed are higher at twice the training length."""
    twice, trained = (seed_values(figures, f"nats, {name}")[kind] for name in (TWICE, TRAINED))
    return [a - b for a, b in zip(twice, trained, strict=True)]


def draw(figures: Figures, axes: Any) -> None:
    """Plot the nats of each scheme at both lengths."""
    plot_bars(axes, {name: seed_values(figures, f"nats, {name}") for name in LENGTHS}, y="nats per note")
