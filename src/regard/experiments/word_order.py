"""Self-attention with and without position encodings: sensitivity to order."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from regard.core.registry import registered_names
from regard.experiments._experiment import Cell, budget, cells_per_seed
from regard.experiments._plateau import LATE_GAIN, late_gain
from regard.experiments._plots import plot_bars
from regard.experiments._previous_token_task import SHORT, SYMBOLS, Reader, train
from regard.experiments._verdict import ClaimResult, Figures, decide, describe_seeds, difference, means, seed_values

CLAIM = (
    "Self-attention treats its input as a set: permuting the input permutes the output; position encodings add order."
)
REFERENCE = "Vaswani et al. 2017, section 3.5"
STEPS = 900
CURVE = "accuracy on new data"
RESOLUTION = 0.02  # of accuracy; smaller differences do not matter
MAX_SET_CHANGE = 1e-4  # by rounding
MAX_SET_ACCURACY, MIN_ACCURACY = 0.5, 0.9  # without positions, and with the best scheme
PERMUTATION_CHANGE, ACCURACY = "change under permutation", f"accuracy at {SHORT} tokens"


def cells(effort: float) -> list[Cell]:
    """Return a cell for each position scheme, trained to predict the previous token at every position."""
    steps, seeds = budget(effort, STEPS)
    return [
        cell
        for name in registered_names("regard.layers.positions")
        for cell in cells_per_seed(name, seeds, partial(_measure, name, steps))
    ]


def _measure(name: str, steps: int, seed: int) -> dict[str, float]:
    torch.manual_seed(seed)
    model = Reader(name, max_length=SHORT)
    change = _permutation_change(model, torch.Generator().manual_seed(seed))
    accuracies = train(model, steps, seed=seed)
    gain = late_gain(accuracies, higher_is_better=True, resolution=RESOLUTION)
    return {PERMUTATION_CHANGE: change, ACCURACY: accuracies[-1], LATE_GAIN: gain}


@torch.no_grad()
def _permutation_change(model: Reader, generator: torch.Generator) -> float:
    """Return the largest difference between the output of a permuted input and the permuted output; 0 for a set."""
    tokens = torch.randint(1, SYMBOLS, (8, SHORT), generator=generator)
    order = torch.randperm(SHORT, generator=generator)
    return float((model(tokens[:, order]) - model(tokens)[:, order]).abs().max())


def verdict(figures: Figures) -> ClaimResult:
    """Check that the model is equivariant only without positions, and that the best scheme finds the previous token."""
    change, accuracy, by_seed = (
        means(figures, PERMUTATION_CHANGE),
        means(figures, ACCURACY),
        seed_values(figures, ACCURACY),
    )
    schemes = [name for name in change if name != "none"]
    best = max(schemes, key=lambda name: accuracy[name])
    accurate = ", ".join(name for name in schemes if accuracy[name] > MIN_ACCURACY) or "none"
    conditions = {
        "a permutation changes the outputs without positions only by rounding, and with every scheme by more": change[
            "none"
        ]
        < MAX_SET_CHANGE
        < min(change[name] for name in schemes),
        f"accuracy is below {MAX_SET_ACCURACY:.0%} without positions": accuracy["none"] < MAX_SET_ACCURACY,
        f"above {MIN_ACCURACY:.0%} with the best scheme": accuracy[best] > MIN_ACCURACY,
    }
    return decide(
        f"Without positions a permutation changes the outputs only by rounding ({change['none']:.0e}), and the previous"
        f" token is predicted in {accuracy['none']:.0%} of cases. Above {MIN_ACCURACY:.0%} at the training length of"
        f" {SHORT}: {accurate}. {describe_seeds(figures)}.",
        conditions,
        [difference(f"accuracy, {best} minus none", by_seed[best], by_seed["none"], form="+.1%")],
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot the accuracy of each scheme."""
    plot_bars(axes, {ACCURACY: seed_values(figures, ACCURACY)}, y="accuracy of the previous token, fraction")
