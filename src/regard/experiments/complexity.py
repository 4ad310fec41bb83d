"""Time and memory of layers against the length n and the width d, and the path length through them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import NO_MASK, Mask
from regard.attention.weigh import Weigh
from regard.experiments._experiment import Cell, ClaimResult, Figures, exponent, format_values, plot_lines

CLAIM = (
    "A layer of self-attention costs O(n²·d), a recurrent layer O(n·d²), a convolution O(k·n·d²), and attention over a"
    " window O(w·n·d). The path between the ends of the input has one step in attention, n in recurrence, and many"
    " layers in convolution."
)
REFERENCE = "Vaswani et al. 2017, table 1"
LENGTHS, WIDTHS = (512, 1024, 2048, 4096), (64, 128, 256, 512)
LENGTH, WIDTH = 256, 64  # fixed value of one while the other varies
KERNEL, WINDOW = 3, 64
TABLE = "self-attention, explicit weights"
EXPECTED = {
    "self-attention": (2, 1),
    TABLE: (2, 1),
    "local attention": (1, 1),
    "recurrent": (1, 2),
    "convolution": (1, 2),
}
TIME, SAVED_MEMORY = "milliseconds", "kB saved for backward"
STEPS = "path length"
Layer = Callable[[Tensor], Tensor]


def _attention(dim: int, mask: Mask) -> Layer:
    """Attention without projections, as in the table of the paper: projections always cost d²."""
    attend = Attend(scores.build("scaled_dot", dim))
    return lambda x: attend(x[:, None], x[:, None], x[:, None], mask)


def _explicit_attention(dim: int) -> Layer:
    """Attention that materializes the weights of all pairs."""
    weigh = Weigh(scores.build("scaled_dot", dim))
    return lambda x: weigh(x[:, None], x[:, None]) @ x[:, None]


def _recurrent(dim: int) -> Layer:
    net = nn.LSTM(dim, dim, batch_first=True)
    return lambda x: net(x)[0]


def _convolution(dim: int) -> Layer:
    net = nn.Conv1d(dim, dim, KERNEL, padding=KERNEL // 2)
    return lambda x: net(x.mT)


VARIANTS: dict[str, Callable[[int], Layer]] = {
    "self-attention": lambda dim: _attention(dim, NO_MASK),
    TABLE: _explicit_attention,
    "local attention": lambda dim: _attention(dim, Mask.local(back=WINDOW, ahead=WINDOW)),
    "recurrent": _recurrent,
    "convolution": _convolution,
}


def cells(effort: float) -> list[Cell]:
    """Return timings of each layer against the length and the width, and its path length."""
    repeats = max(1, round(5 * effort))
    lengths = LENGTHS if effort >= 1 else LENGTHS[:2]
    sizes = [(n, WIDTH) for n in lengths] + [(LENGTH, d) for d in WIDTHS[: len(lengths)]]
    timings = [
        Cell(f"{kind}, n = {n}, d = {d}", partial(_measure, kind, n, d, repeats)) for kind in VARIANTS for n, d in sizes
    ]
    return [*timings, *(Cell(f"{kind}, path", partial(_measure_path, kind)) for kind in VARIANTS)]


def _measure(kind: str, n: int, d: int, repeats: int) -> dict[str, float]:
    layer, x = VARIANTS[kind](d), torch.randn(1, n, d)
    seconds = []
    with torch.no_grad():
        layer(x)
        for _ in range(repeats):
            started_at = time.process_time()
            layer(x)
            seconds.append(time.process_time() - started_at)
    return {"n": n, "d": d, TIME: 1000 * median(seconds), SAVED_MEMORY: saved_tensor_bytes(layer, x) / 1000}


def saved_tensor_bytes(layer: Layer, x: Tensor) -> int:
    """Return the bytes that a layer saves for backward, each tensor once and without parameters."""
    sizes: dict[int, int] = {}

    def record_size(tensor: Tensor) -> Tensor:
        if not tensor.is_leaf or not tensor.requires_grad:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(record_size, lambda tensor: tensor):
        result = layer(x.clone().requires_grad_())
    del result
    return sum(sizes.values())


def _measure_path(kind: str) -> dict[str, float]:
    """Return the number of inputs that the last output depends on, the layers needed to reach all, and the path length.

    A recurrent layer passes through every position in between.
    """
    default_dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # distant gradients of a recurrent network underflow in float32
    try:
        x = torch.randn(1, LENGTH, WIDTH, requires_grad=True)
        out = VARIANTS[kind](WIDTH)(x)
    finally:
        torch.set_default_dtype(default_dtype)
    last = out[..., -1] if kind == "convolution" else out.reshape(1, LENGTH, -1)[:, -1]
    (gradient,) = torch.autograd.grad(last.sum(), x)
    reached = int((gradient.abs().sum(dim=2) > 0).sum())
    layers = -(-(LENGTH - 1) // (reached - 1))
    path_length = (LENGTH - 1 if kind == "recurrent" else 1) * layers
    return {"inputs reached": reached, "layers to reach all": layers, STEPS: path_length}


def _curve(figures: Figures, kind: str, figure: str, *, along: str = "n") -> dict[float, float]:
    """Return a figure of one layer by length or by width, with the other fixed."""
    fixed, size = ("d", WIDTH) if along == "n" else ("n", LENGTH)
    rows = [row for name, row in figures.items() if name.startswith(f"{kind}, n = ") and row[fixed] == size]
    return {row[along]: row[figure] for row in sorted(rows, key=lambda row: row[along])}


def _fit_exponents(figures: Figures, figure: str, *, along: str = "n") -> dict[str, float]:
    """Return the fitted exponent of a figure by layer."""
    curves = {kind: _curve(figures, kind, figure, along=along) for kind in VARIANTS}
    return {kind: exponent(points, points.values()) for kind, points in curves.items()}


def crossover_length(faster_growing: dict[float, float], slower_growing: dict[float, float]) -> float:
    """Return the length from which the first curve is above the second, by linear fits of the logarithms."""
    (p, first_mean), (q, second_mean) = (
        (exponent(points, points.values()), fmean(map(math.log, points.values())))
        for points in (faster_growing, slower_growing)
    )
    mean_log_length = fmean(map(math.log, faster_growing))
    return math.exp(mean_log_length + (second_mean - first_mean) / (p - q)) if p > q else math.inf


def verdict(figures: Figures) -> ClaimResult:
    """Check that the exponents of the length are as claimed, and that only attention has a path of one step.

    Exponents of the width are only reported, because small matrices are faster.
    """
    by_length, by_width, memory = (
        _fit_exponents(figures, TIME),
        _fit_exponents(figures, TIME, along="d"),
        _fit_exponents(figures, SAVED_MEMORY),
    )
    steps = {kind: figures[f"{kind}, path"][STEPS] for kind in VARIANTS}
    shortest = [kind for kind in VARIANTS if steps[kind] == 1]
    as_claimed = all(abs(by_length[kind] - EXPECTED[kind][0]) < 0.5 for kind in VARIANTS)
    details = "; ".join(
        f"{kind} n^{by_length[kind]:.1f} (claimed {n}) and d^{by_width[kind]:.1f} (claimed {d}), memory"
        f" n^{memory[kind]:.1f}"
        for kind, (n, d) in EXPECTED.items()
    )
    times = {kind: _curve(figures, kind, TIME) for kind in VARIANTS}
    crossovers = ", ".join(
        f"{crossover_length(times[TABLE], times[kind]):.0f} for {kind}" for kind in ("recurrent", "convolution")
    )
    return ClaimResult(
        as_claimed and set(shortest) == {"self-attention", TABLE},
        f"Fitted to times: {details}. The verdict uses the exponents of n; those of d are smaller than claimed because"
        f" small matrix products do not reach the peak speed of the machine. Operation counts cross at n = d = {WIDTH};"
        f" here explicit weights take longer from n = {crossovers}. Path length from the first of {LENGTH} inputs to"
        f" the last output: {format_values(steps, '.0f')}.",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot time against length."""
    curves = {kind: _curve(figures, kind, TIME) for kind in VARIANTS}
    plot_lines(axes, curves, x=f"length n (d = {WIDTH})", y="milliseconds")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
