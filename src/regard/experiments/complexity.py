"""What a layer costs against the length n and the width d, and how many layers a path through the sequence takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import EVERYTHING, Mask
from regard.experiments._experiment import Cell, Figures, Verdict, exponent, lines

CLAIM = (
    "A layer of self-attention costs O(n²·d), a recurrent one O(n·d²), a convolution O(k·n·d²); attention over a window"
    " O(w·n·d). One end reaches the other in one step of attention, n of recurrence, many layers of convolution."
)
WHERE = "Vaswani et al. 2017, table 1"
LENGTHS, WIDTHS = (512, 1024, 2048, 4096), (64, 128, 256, 512)
LENGTH, WIDTH = 256, 64  # of the other, while one grows
KERNEL, WINDOW = 3, 64
EXPECTED = {"self-attention": (2, 1), "local attention": (1, 1), "recurrent": (1, 2), "convolution": (1, 2)}
Layer = Callable[[Tensor], Tensor]


def _attention(dim: int, mask: Mask) -> Layer:
    """The mixing alone, as in the paper's table: its projections are d² however it mixes."""
    attend = Attend(scores.build("scaled_dot", dim))
    return lambda x: attend(x[:, None], x[:, None], x[:, None], mask)


def _recurrent(dim: int) -> Layer:
    net = nn.LSTM(dim, dim, batch_first=True)
    return lambda x: net(x)[0]


def _convolution(dim: int) -> Layer:
    net = nn.Conv1d(dim, dim, KERNEL, padding=KERNEL // 2)
    return lambda x: net(x.mT)


KINDS: dict[str, Callable[[int], Layer]] = {
    "self-attention": lambda dim: _attention(dim, EVERYTHING),
    "local attention": lambda dim: _attention(dim, Mask.local(back=WINDOW, ahead=WINDOW)),
    "recurrent": _recurrent,
    "convolution": _convolution,
}


def cells(effort: float) -> list[Cell]:
    """Times of each kind against the length and against the width, and the way of the gradient."""
    repeats = max(1, round(5 * effort))
    long = LENGTHS if effort >= 1 else LENGTHS[:2]
    sizes = [(n, WIDTH) for n in long] + [(LENGTH, d) for d in WIDTHS[: len(long)]]
    timed = [
        Cell(f"{kind}, n = {n}, d = {d}", partial(_measure, kind, n, d, repeats)) for kind in KINDS for n, d in sizes
    ]
    return [*timed, *(Cell(f"{kind}, path", partial(_path, kind)) for kind in KINDS)]


@torch.no_grad()
def _measure(kind: str, n: int, d: int, repeats: int) -> dict[str, float]:
    layer, x = KINDS[kind](d), torch.randn(1, n, d)
    layer(x)
    taken = []
    for _ in range(repeats):
        begun = time.process_time()
        layer(x)
        taken.append(time.process_time() - begun)
    return {"n": n, "d": d, "milliseconds": 1000 * median(taken)}


def _path(kind: str) -> dict[str, float]:
    """How many inputs the last output has a gradient to after one layer, and after how many layers to all."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # what a recurrent net passes on from far is less than float32 knows
    try:
        x = torch.randn(1, LENGTH, WIDTH, requires_grad=True)
        out = KINDS[kind](WIDTH)(x)
    finally:
        torch.set_default_dtype(usual)
    last = out[..., -1] if kind == "convolution" else out.reshape(1, LENGTH, -1)[:, -1]
    (slope,) = torch.autograd.grad(last.sum(), x)
    seen = int((slope.abs().sum(dim=2) > 0).sum())
    return {"inputs seen": seen, "layers to all": -(-(LENGTH - 1) // (seen - 1))}


def _exponents(figures: Figures) -> dict[str, tuple[float, float]]:
    """Kind -> the fitted exponents of the length and of the width."""
    found = {}
    for kind in KINDS:
        timed = [numbers for name, numbers in figures.items() if name.startswith(f"{kind}, n")]
        by_length, by_width = ([row for row in timed if row[a] == b] for a, b in (("d", WIDTH), ("n", LENGTH)))
        found[kind] = (
            exponent([row["n"] for row in by_length], [row["milliseconds"] for row in by_length]),
            exponent([row["d"] for row in by_width], [row["milliseconds"] for row in by_width]),
        )
    return found


def verdict(figures: Figures) -> Verdict:
    """Fitted exponents of the length are as claimed; those of the width are told, small matrices being faster."""
    fitted = _exponents(figures)
    holds = all(abs(fitted[kind][0] - EXPECTED[kind][0]) < 0.5 for kind in KINDS)
    told = "; ".join(
        f"{kind} n^{n:.1f} (claimed {EXPECTED[kind][0]}), d^{d:.1f} (claimed {EXPECTED[kind][1]})"
        for kind, (n, d) in fitted.items()
    )
    paths = ", ".join(f"{kind} {figures[f'{kind}, path']['layers to all']:.0f}" for kind in KINDS)
    return Verdict(
        holds,
        f"Fitted to times: {told}. Judged by the exponents of n; those of d are flattened where small products are far"
        f" from the speed of the machine. Layers until the last of {LENGTH} outputs sees every input: {paths}.",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Time against length."""
    curves: dict[str, dict[float, float]] = {kind: {} for kind in KINDS}
    for name, numbers in figures.items():
        if numbers.get("d") == WIDTH:
            curves[name.partition(",")[0]][numbers["n"]] = numbers["milliseconds"]
    curves = {kind: dict(sorted(points.items())) for kind, points in curves.items()}
    lines(axes, curves, x=f"length n (d = {WIDTH})", y="milliseconds")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
