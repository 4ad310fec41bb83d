"""Gradient of the last output with respect to inputs at increasing distances."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.experiments._experiment import Cell, cells_per_seed
from regard.experiments._plots import plot_lines
from regard.experiments._verdict import ClaimResult, Figures, decide, means, ratio, seed_values
from regard.layers.multihead import HeadDims, MultiHeadAttention

CLAIM = "Recurrent networks lose early inputs; attention shortens the path from an output to any input to one step."
REFERENCE = "Bahdanau et al. 2015, section 1; Vaswani et al. 2017, table 1"
DIM, BATCH_SIZE, LENGTH = 32, 16, 128
DISTANCES = (1, 8, 32, 64, 127)
SEEDS = 3
MIN_DECAY, MAX_DECAY = 100, 10  # of recurrent networks, and of attention
Net = Callable[[Tensor], Tensor]  # inputs (b t d) -> last output (b d)


def _recurrent(kind: type[nn.RNN | nn.LSTM]) -> Net:
    net: nn.Module = kind(DIM, DIM, batch_first=True).double()
    return lambda x: net(x)[0][:, -1]


def _attention() -> MultiHeadAttention:
    return MultiHeadAttention(Attend(scores.build("scaled_dot", DIM)), HeadDims.split_evenly(DIM, 1)).double()


def _attention_over_states() -> Net:
    net, heads = nn.LSTM(DIM, DIM, batch_first=True).double(), _attention()

    def last(x: Tensor) -> Tensor:
        states = net(x)[0]
        out: Tensor = heads(states[:, -1:], heads.project_kv(states))[:, 0]
        return out

    return last


def _self_attention() -> Net:
    heads = _attention()
    return lambda x: heads(x, heads.project_kv(x), Mask.causal())[:, -1]


NETS: dict[str, Callable[[], Net]] = {
    "RNN": lambda: _recurrent(nn.RNN),
    "LSTM": lambda: _recurrent(nn.LSTM),
    "LSTM with attention": _attention_over_states,
    "self-attention": _self_attention,
}


def cells(effort: float) -> list[Cell]:
    """Return each network at initialization with three seeds; nothing is trained, so effort has no effect."""
    return [cell for name in NETS for cell in cells_per_seed(name, SEEDS, partial(_measure, name))]


def _measure(name: str, seed: int) -> dict[str, float]:
    torch.manual_seed(seed)
    net, x = NETS[name](), torch.randn(BATCH_SIZE, LENGTH, DIM, dtype=torch.float64, requires_grad=True)
    out = net(x)
    (gradient,) = torch.autograd.grad((out * torch.randn_like(out)).sum(), x)
    by_position = gradient.norm(dim=2).mean(dim=0)  # (t)
    total = float(by_position.sum())
    return {f"{distance} back": float(by_position[LENGTH - 1 - distance]) / total for distance in DISTANCES}


def _decay_ratio(figures: Figures, name: str) -> float:
    """Return the gradient one step back divided by that at the most distant input."""
    near, far = (means(figures, f"{distance} back")[name] for distance in (DISTANCES[0], DISTANCES[-1]))
    return near / far


def verdict(figures: Figures) -> ClaimResult:
    """Check that gradients of recurrent networks decay by orders of magnitude, and those of attention do not."""
    ratios = {name: _decay_ratio(figures, name) for name in NETS}
    details = ", ".join(f"{name} {value:.2g}" for name, value in ratios.items())
    recurrent, attention = ("RNN", "LSTM"), ("LSTM with attention", "self-attention")
    conditions = {
        f"gradients of recurrent networks decay by more than {MIN_DECAY} times": min(ratios[name] for name in recurrent)
        > MIN_DECAY,
        f"those of attention by less than {MAX_DECAY} times": max(ratios[name] for name in attention) < MAX_DECAY,
    }
    near, far = (seed_values(figures, f"{distance} back") for distance in (DISTANCES[0], DISTANCES[-1]))
    return decide(
        f"Ratio of the gradient at the input one step back to that at the input {DISTANCES[-1]} steps back, before"
        f" training: {details}. Mean of {SEEDS} seeds, width {DIM}.",
        conditions,
        [ratio(f"decay of the gradient, {name}", near[name], far[name], form=".2g") for name in NETS],
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot the fraction of the gradient against distance."""
    curves = {
        name: {float(distance): means(figures, f"{distance} back")[name] for distance in DISTANCES} for name in NETS
    }
    plot_lines(axes, curves, x="steps back", y="fraction of the gradient")
    axes.set_yscale("log")
