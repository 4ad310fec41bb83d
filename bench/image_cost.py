"""Growth of the cost of a training step with the side of an image: full, local 1-D and local 2-D attention, in one run.

    python bench/image_cost.py [--rounds 3] [--quick]

One grey image of 8x8 … 128x128 (256 levels), 2 layers of 64, 2 heads; local_1d has blocks and memories of 64 positions,
local_2d blocks of 4x8 and a memory of 4 rows and 4 columns around them. Every point is measured in a separate process:
the seconds of a step (the minimum of the rounds) and the increase of peak memory in megabytes. Exponents are fitted on
all sides: cost = a + b · side^p, where a does not grow with the image, by least squares of the logarithms. Figures are
stored in docs/image_cost.json, the plot in docs/images/image_cost.png.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import least_squares

from regard.core.data_specs import ImageGenerationSpec
from regard.core.protocols.image_generator import ImageCondition
from regard.models import image_transformer
from regard.tasks.image_generation.generate import teacher_forcing_loss

DOCS = Path(__file__).parents[1] / "docs"
FIGURES, PLOT = DOCS / "image_cost.json", DOCS / "images" / "image_cost.png"
KINDS = ("full", "local_1d", "local_2d")
SIDES = (8, 12, 16, 24, 32, 48, 64, 96, 128)
LEAST = 0.5  # seconds that a point is repeated for


def worker(kind: str, side: int, rounds: int) -> None:
    """Print seconds and megabytes of one point."""
    torch.manual_seed(0)
    config = image_transformer.Config(
        layers=2, dim=64, heads=2, attention=kind, block_1d=(64, 64), query_block=(4, 8), memory_block=(4, 4)
    )
    model = image_transformer.build(config, ImageGenerationSpec(side, side, 1, levels=256))
    image = torch.randint(256, (1, side * side))
    nothing = ImageCondition(torch.zeros(1, dtype=torch.long), torch.zeros(1, 0, dtype=torch.long))

    def step() -> None:
        teacher_forcing_loss(model, image, nothing, num_levels=256).backward()
        model.zero_grad(set_to_none=True)

    before = peak()
    step()
    megabytes = peak() - before
    print(json.dumps({"seconds": min(seconds(step) for _ in range(rounds)), "megabytes": megabytes}))


def seconds(step: Any) -> float:
    """Return the mean time of as many steps as fit into the budget."""
    started_at, count, spent = time.perf_counter(), 0, 0.0
    while spent < LEAST:
        step()
        count, spent = count + 1, time.perf_counter() - started_at
    return spent / count


def peak() -> float:
    """Return the peak memory of this process in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def exponent(points: dict[str, dict[str, float]], what: str) -> float:
    """Return p of the best fit a + b · side^p."""
    chosen = [(int(side), point[what]) for side, point in points.items() if point[what] > 0]
    if len(chosen) < 4:
        return float("nan")
    sides, costs = np.array(chosen).T

    def misses(parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        constant, slope, power = parameters
        return np.logaddexp(constant, slope + power * np.log(sides)) - np.log(costs)

    start = [np.log(costs[0]), np.log(costs[-1]) - 2 * np.log(sides[-1]), 2.0]
    return float(least_squares(misses, start).x[2])


def last_doubling(points: dict[str, dict[str, float]], what: str) -> str:
    """Return the exponent of the cost between half the largest side and the largest."""
    most = max(int(side) for side in points)
    half = points.get(str(most // 2))
    if half is None or half[what] <= 0:
        return ""
    return f" (from {most // 2} to {most}: {np.log2(points[str(most)][what] / half[what]):.2f})"


def crossover(full: dict[str, dict[str, float]], local: dict[str, dict[str, float]], what: str) -> int | None:
    """Return the smallest side from which local attention is cheaper than full attention."""
    sides = sorted(int(side) for side in full)
    cheaper = [side for side in sides if local[str(side)][what] < full[str(side)][what]]
    return next((side for side in cheaper if all(larger in cheaper for larger in sides if larger >= side)), None)


def summary(figures: dict[str, Any]) -> list[str]:
    """Return one line per kind: the exponents, and the side from which it is cheaper than full attention."""
    lines = []
    for kind, points in figures.items():
        slopes = ", ".join(
            f"{what} ~ side^{exponent(points, what):.2f}{last_doubling(points, what)}"
            for what in ("seconds", "megabytes")
        )
        side = None if kind == "full" else crossover(figures["full"], points, "seconds")
        lines.append(
            f"{kind}: {slopes}" + ("" if side is None else f"; a step is faster than full from side {side} on")
        )
    return lines


def plot(figures: dict[str, Any]) -> None:
    """Write docs/images/image_cost.png: both costs over the side, with their slopes."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(1, 2, figsize=(9, 3.8), dpi=130)
    for axis, what, title in zip(
        axes, ("seconds", "megabytes"), ("seconds of a training step", "megabytes"), strict=True
    ):
        for kind, points in figures.items():
            sides = [int(side) for side, point in points.items() if point[what] > 0]
            costs = [points[str(side)][what] for side in sides]
            axis.plot(sides, costs, marker="o", label=f"{kind}: side^{exponent(points, what):.1f}")
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(SIDES, [str(side) for side in SIDES])
        axis.set_xlabel("side of the image, pixels")
        axis.set_title(title)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    plt.tight_layout()
    plt.savefig(PLOT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="two small sides, to see that it runs; nothing is kept")
    parser.add_argument("--worker", nargs=2, metavar=("KIND", "SIDE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(args.worker[0], int(args.worker[1]), args.rounds)
        return
    figures: dict[str, Any] = {kind: {} for kind in KINDS}
    for side in (8, 12) if args.quick else SIDES:
        for kind in KINDS:
            command = [sys.executable, __file__, "--worker", kind, str(side), "--rounds", str(args.rounds)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            figures[kind][str(side)] = json.loads(done.stdout.splitlines()[-1])
            print(side, kind, figures[kind][str(side)], flush=True)
    print("\n".join(summary(figures)))
    if not args.quick:
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
        plot(figures)


if __name__ == "__main__":
    main()
