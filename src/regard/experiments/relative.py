"""Music models with absolute and with relative positions, at the training length and at twice that length."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from regard.experiments._experiment import (
    Cell,
    ClaimResult,
    Figures,
    budget,
    cells_per_seed,
    describe_seeds,
    is_separated,
    means,
    plot_bars,
    scaled_count,
    seed_values,
)
from regard.experiments._train_small import train_small
from regard.training.load_run import LoadedRun

if TYPE_CHECKING:
    from regard.core.protocols import Decoder
    from regard.tasks.music.task import Music

CLAIM = (
    "Relative positions improve music models and generalize to twice the training length; absolute positions do not."
)
REFERENCE = "Huang et al. 2019, sections 4.1 and 4.2"
STEPS = 220
CROP = 128  # tokens per training example: two bars of four voices
VARIANTS = {"learned": "absolute, learned", "sinusoidal": "absolute, sinusoidal", "relative": "relative"}
LENGTHS = {"training length": CROP, "twice the training length": 2 * CROP}
TRAINED, TWICE = LENGTHS


def cells(effort: float) -> list[Cell]:
    """Return a cell for each position scheme, in the same model."""
    steps, seeds = budget(effort, STEPS)
    return [
        cell
        for kind in VARIANTS
        for cell in cells_per_seed(VARIANTS[kind], seeds, partial(_measure, kind, effort, steps))
    ]


def _measure(kind: str, effort: float, steps: int, seed: int) -> dict[str, float]:
    settings = [
        *(
            f"data.limit={scaled_count(effort, 60, 6)}",
            f"data.crop={CROP}",
            f"data.window={CROP}",
            "data.max_length=1024",
        ),
        *("model=music_transformer", "model.layers=2", "model.dim=64", "model.ffn_dim=128", "model.heads=4"),
        *(f"model.position={kind}", "model.dropout=0.1", "training.optimizer.lr=0.004"),
    ]
    with train_small("music", settings, steps=steps, seed=seed) as trained:
        return {f"nats, {name}": _mean_nats(trained.run, window) for name, window in LENGTHS.items()}


def _mean_nats(run: LoadedRun, window: int) -> float:
    """Return the mean nats per note for pieces in windows of `window` tokens."""
    task, model = cast("Music", run.task), cast("Decoder", run.model)
    return float(np.concatenate(task.token_nats(model, "valid", window=window)).mean())


def verdict(figures: Figures) -> ClaimResult:
    """Check that every seed of relative positions has the fewest nats at both lengths, with the least increase."""
    nats = {name: means(figures, f"nats, {name}") for name in LENGTHS}
    increase = {kind: nats[TWICE][kind] - nats[TRAINED][kind] for kind in VARIANTS.values()}
    by_length = [seed_values(figures, f"nats, {name}") for name in LENGTHS]
    best = all(
        is_separated(values["relative"], values[kind]) for values in by_length for kind in values if kind != "relative"
    )
    details = "; ".join(
        f"{kind} {nats[TRAINED][kind]:.3f} and {nats[TWICE][kind]:.3f} ({increase[kind]:+.3f})"
        for kind in VARIANTS.values()
    )
    return ClaimResult(
        best and min(increase, key=lambda kind: increase[kind]) == "relative",
        f"Nats per note in windows of {CROP} tokens, as in training, and of {2 * CROP}: {details}."
        f" {describe_seeds(figures)}.",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot the nats of each scheme at both lengths."""
    plot_bars(axes, {name: seed_values(figures, f"nats, {name}") for name in LENGTHS}, y="nats per note")
