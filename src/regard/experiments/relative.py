"""Music with absolute and with relative positions, at the length of training and at twice that length."""

from __future__ import annotations

from functools import partial
from typing import Any

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

CLAIM = "Relative positions help music, and go on to twice the length of training, where absolute ones fail."
WHERE = "Huang et al. 2019, sections 4.1 and 4.2"
STEPS = 220
CROP = 128  # tokens of a training example: two bars of four voices
VARIANTS = {"learned": "absolute, learned", "sinusoidal": "absolute, sinusoidal", "relative": "relative"}
LENGTHS = {"the length of training": CROP, "twice that": 2 * CROP}
ONCE, TWICE = LENGTHS


def cells(effort: float) -> list[Cell]:
    """Each position scheme in the same model."""
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
    with train_small("music", settings, steps=steps, seed=seed) as made:
        return {f"nats, {name}": _nats(made.parts, window) for name, window in LENGTHS.items()}


def _nats(parts: LoadedRun, window: int) -> float:
    """Mean nats of a note in pieces that are read in windows of so many tokens."""
    task: Any = parts.task
    return float(np.concatenate(task.token_nats(parts.model, "valid", window=window)).mean())


def verdict(figures: Figures) -> ClaimResult:
    """Relative positions have the fewest nats at both lengths, every seed of them, and lose least by the longer."""
    found = {name: means(figures, f"nats, {name}") for name in LENGTHS}
    lost = {kind: found[TWICE][kind] - found[ONCE][kind] for kind in VARIANTS.values()}
    every = [seed_values(figures, f"nats, {name}") for name in LENGTHS]
    best = all(is_separated(each["relative"], each[kind]) for each in every for kind in each if kind != "relative")
    told = "; ".join(
        f"{kind} {found[ONCE][kind]:.3f} and {found[TWICE][kind]:.3f} ({lost[kind]:+.3f})" for kind in VARIANTS.values()
    )
    return ClaimResult(
        best and min(lost, key=lambda kind: lost[kind]) == "relative",
        f"Nats a note where {CROP} tokens are seen at once, as in training, and where {2 * CROP} are: {told}."
        f" {describe_seeds(figures)}.",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Nats of each scheme at both lengths."""
    plot_bars(axes, {name: seed_values(figures, f"nats, {name}") for name in LENGTHS}, y="nats a note")
