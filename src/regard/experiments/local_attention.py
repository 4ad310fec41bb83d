"""Image generation with full, local 1-D and local 2-D attention: quality, and cost against the image size."""

from __future__ import annotations

import time
from functools import partial
from statistics import median
from typing import Any

import torch

from regard.core.data_specs import ImageGenerationSpec
from regard.core.protocols.image_generator import ImageCondition
from regard.experiments._experiment import Cell, budget, cells_per_seed, exponent
from regard.experiments._plots import plot_lines
from regard.experiments._train_small import train_small
from regard.experiments._verdict import (
    ClaimResult,
    Figures,
    decide,
    describe_seeds,
    format_values,
    means,
    power_law,
    ratio,
    seed_values,
)
from regard.models import image_transformer
from regard.tasks.image_generation.generate import teacher_forcing_loss

CLAIM = "Attention over local windows makes images affordable: the cost is linear in the pixels, not quadratic."
REFERENCE = "Parmar et al. 2018, section 3.3"
STEPS = 2400
CURVE = "validation bits"
RESOLUTION = 0.01  # bits; smaller differences do not matter
MIN_EXPONENT_GAP = 0.2
VARIANTS = ("full", "local_1d", "local_2d")
SIDES = (16, 24, 32, 48, 64, 96)
NUM_FITTED_SIZES = 4  # largest sizes, for which a step is mostly attention; the exponent is fitted to these
LEVELS = 16
MAX_BITS_RATIO = 1.1  # bits of local attention relative to full attention
BITS, TIME = "bits per pixel", "milliseconds"


def cells(effort: float) -> list[Cell]:
    """Return cells for each kind: trained on small digits, and timed on larger images."""
    steps, seeds = budget(effort, STEPS)
    sides, repeats = (SIDES if effort >= 1 else SIDES[:2]), max(1, round(3 * effort))
    quality = [
        cell
        for kind in VARIANTS
        for cell in cells_per_seed(f"{kind}, digits", seeds, partial(_measure_quality, kind, steps))
    ]
    return quality + [
        Cell(f"{kind}, side {side}", partial(_measure_cost, kind, side, repeats)) for kind in VARIANTS for side in sides
    ]


def _measure_quality(kind: str, steps: int, seed: int) -> dict[str, float]:
    settings = [
        *(
            "data.batch_size=32",
            "data.valid=150",
            "model.layers=2",
            "model.dim=48",
            "model.heads=2",
            "model.ffn_dim=96",
        ),
        *(f"model.attention={kind}", "model.query_block=[2, 4]", "model.memory_block=[3, 4]", "model.block_1d=[8, 16]"),
        "training.optimizer.lr=0.004",
    ]
    with train_small("image_generation", settings, steps=steps, seed=seed) as trained:
        return {BITS: trained.scores["bits"], **trained.late_gain(resolution=RESOLUTION)}


def _measure_cost(kind: Any, side: int, repeats: int) -> dict[str, float]:
    """Return the processor time of loss and gradient of one image."""
    config = image_transformer.Config(
        layers=2, dim=32, heads=2, attention=kind, block_1d=(64, 64), query_block=(4, 8), memory_block=(4, 4)
    )
    model = image_transformer.build(config, ImageGenerationSpec(side, side, 1, levels=LEVELS))
    image = torch.randint(LEVELS, (1, side * side))
    condition = ImageCondition(torch.zeros(1, dtype=torch.long), torch.zeros(1, 0, dtype=torch.long))
    seconds = []
    for _ in range(repeats + 1):
        started_at = time.process_time()
        teacher_forcing_loss(model, image, condition, num_levels=LEVELS).backward()
        seconds.append(time.process_time() - started_at)
    return {"pixels": side**2, TIME: 1000 * median(seconds[1:])}


def _costs(figures: Figures) -> dict[str, dict[float, float]]:
    """Return {kind: {pixels: milliseconds}}."""
    return {
        kind: {row["pixels"]: row[TIME] for name, row in figures.items() if name.startswith(f"{kind}, side")}
        for kind in VARIANTS
    }


def verdict(figures: Figures) -> ClaimResult:
    """Check that the cost of local attention grows more slowly, with about the bits of full attention."""
    bits = {name.partition(",")[0]: value for name, value in means(figures, BITS).items()}
    costs = _costs(figures)
    fitted = {kind: dict(sorted(curve.items())[-NUM_FITTED_SIZES:]) for kind, curve in costs.items()}
    growth = {kind: exponent(curve, curve.values()) for kind, curve in fitted.items()}
    largest = max(costs["full"])
    last = {kind: curve[largest] for kind, curve in costs.items()}
    bits_by_seed = {name.partition(",")[0]: values for name, values in seed_values(figures, BITS).items()}
    conditions = {
        f"local attention needs less than {MAX_BITS_RATIO} times the bits of full attention": all(
            bits[kind] < MAX_BITS_RATIO * bits["full"] for kind in VARIANTS[1:]
        ),
        f"the exponent of its time is lower by more than {MIN_EXPONENT_GAP}": all(
            growth[kind] < growth["full"] - MIN_EXPONENT_GAP for kind in VARIANTS[1:]
        ),
    }
    effects = [
        *(
            power_law(f"exponent of the pixels in the time, {kind}", curve, curve.values())
            for kind, curve in fitted.items()
        ),
        *(
            ratio(f"bits of {kind} relative to full attention", bits_by_seed[kind], bits_by_seed["full"])
            for kind in VARIANTS[1:]
        ),
    ]
    return decide(
        f"Bits per pixel of digits: {format_values(bits, '.2f')}. Exponent of the pixels in the time of a step, from"
        f" {min(fitted['full']):.0f} pixels on: {format_values(growth, '.2f')}. Milliseconds at {largest:.0f} pixels:"
        f" {format_values(last, '.0f')}. {describe_seeds(figures)}.",
        conditions,
        effects,
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot time against pixels, with the quality in the legend."""
    bits = {name.partition(",")[0]: value for name, value in means(figures, BITS).items()}
    curves = {f"{kind} ({bits[kind]:.2f} bits per pixel)": curve for kind, curve in _costs(figures).items()}
    plot_lines(axes, curves, x="pixels", y="milliseconds per training step")
    sizes = [int(pixels) for pixels in _costs(figures)["full"]]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sizes, list(map(str, sizes)))
    times = [10, 30, 100, 300, 1000, 3000]
    axes.set_yticks(times, list(map(str, times)))
    axes.minorticks_off()
    axes.relim()
    axes.autoscale_view()
