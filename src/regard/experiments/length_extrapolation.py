"""Position encodings at lengths that were not trained, up to three times the length of training sequences."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from regard.core.registry import registered_names
from regard.experiments._experiment import Cell, budget, cells_per_seed
from regard.experiments._plateau import LATE_GAIN, late_gain
from regard.experiments._plots import plot_lines
from regard.experiments._previous_token_task import SHORT, Reader, accuracy, train
from regard.experiments._verdict import (
    MORE,
    ClaimResult,
    Figures,
    decide,
    describe_seeds,
    difference,
    format_values,
    means,
    seed_values,
)

CLAIM = "Sinusoidal position encodings let a model extrapolate to sequences longer than those in training."
REFERENCE = "Vaswani et al. 2017, section 3.5; against it Press et al. 2022, section 2"
STEPS = 900
CURVE = "accuracy on new data"
RESOLUTION = 0.02  # of accuracy; smaller differences do not matter
LENGTHS = (SHORT, 2 * SHORT, 3 * SHORT)
CLAIMED = "sinusoidal"
MIN_ACCURACY = 0.9  # at the training length, above which a scheme is judged
MIN_RETAINED = 0.9  # of that accuracy, at the greatest length
ACCURACIES = {length: f"accuracy at {length} tokens" for length in LENGTHS}


def cells(effort: float) -> list[Cell]:
    """Return a cell for each position scheme, trained at one length and tested at several."""
    steps, seeds = budget(effort, STEPS)
    return [
        cell
        for name in registered_names("regard.layers.positions")
        if name != "none"
        for cell in cells_per_seed(name, seeds, partial(_measure, name, steps))
    ]


def _measure(name: str, steps: int, seed: int) -> dict[str, float]:
    torch.manual_seed(seed)
    model = Reader(name, max_length=LENGTHS[-1])
    curve = train(model, steps, seed=seed)
    accuracies = {figure: accuracy(model, length, seed=seed) for length, figure in ACCURACIES.items()}
    return accuracies | {LATE_GAIN: late_gain(curve, higher_is_better=True, resolution=RESOLUTION)}


def verdict(figures: Figures) -> ClaimResult:
    """Check that sinusoids retain their accuracy at three times the training length in every seed."""
    short, long = (means(figures, ACCURACIES[length]) for length in (LENGTHS[0], LENGTHS[-1]))
    short_by_seed, long_by_seed = (seed_values(figures, ACCURACIES[length]) for length in (LENGTHS[0], LENGTHS[-1]))
    retained = {name: long[name] / max(short[name], 1e-9) for name in short if short[name] > MIN_ACCURACY}
    extrapolating = [name for name, fraction in retained.items() if fraction >= MIN_RETAINED]
    weak = short[CLAIMED] <= MIN_ACCURACY
    conditions = {
        f"every seed of {CLAIMED} retains {MIN_RETAINED:.0%} of its accuracy at {LENGTHS[-1]} tokens": all(
            after >= MIN_RETAINED * before
            for before, after in zip(short_by_seed[CLAIMED], long_by_seed[CLAIMED], strict=True)
        )
    }
    effects = [
        difference(
            f"accuracy at {LENGTHS[-1]} minus at {SHORT} tokens, {name}",
            long_by_seed[name],
            short_by_seed[name],
            form="+.1%",
        )
        for name in retained
    ]
    return decide(
        f"Accuracy of the previous token at {SHORT} tokens, as in training: {format_values(short, '.0%')}; at"
        f" {LENGTHS[-1]} tokens: {format_values(long, '.0%')}. Schemes that retain {MIN_RETAINED:.0%}:"
        f" {', '.join(extrapolating) or 'none'}. {describe_seeds(figures)}.",
        conditions,
        effects,
        undecided=f"At the training length {CLAIMED} is below {MIN_ACCURACY:.0%}; {MORE}." if weak else "",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot the accuracy of each scheme against the length."""
    by_length = {length: means(figures, figure) for length, figure in ACCURACIES.items()}
    curves = {name: {float(length): by_length[length][name] for length in LENGTHS} for name in by_length[SHORT]}
    plot_lines(axes, curves, x="tokens", y="accuracy of the previous token, fraction")
    axes.set_xticks(LENGTHS)
    axes.set_ylim(0, 1.05)
