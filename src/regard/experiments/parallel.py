"""How many operations wait for one another as a sequence grows, in training and in decoding, and what that costs."""

from __future__ import annotations

import time
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from regard.core.data_specs import Seq2SeqSpec, SpecialTokens
from regard.core.protocols import Padded
from regard.decoding.strategy import build as decoder
from regard.experiments._experiment import Cell, ClaimResult, Figures, exponent, plot_lines
from regard.models import bahdanau, seq2seq, transformer

CLAIM = (
    "A Transformer is trained without a loop over time, all places at once, where a recurrent network goes from one to"
    " the next; at test both make one token after the other."
)
WHERE = "Vaswani et al. 2017, sections 1 and 3.1"
LENGTHS = (16, 32, 64, 128)
BATCH_SIZE, TOKENS = 8, 100
VARIANTS = ("seq2seq", "bahdanau", "transformer")


def _model(kind: str) -> Any:
    sizes = Seq2SeqSpec(TOKENS, TOKENS, max_length=2 * LENGTHS[-1])
    if kind == "seq2seq":
        return seq2seq.build(seq2seq.Config(dim=64, embedding=64, dropout=0.0), sizes)
    if kind == "bahdanau":
        return bahdanau.build(bahdanau.Config(dim=64, encoder=32, embedding=64, dropout=0.0), sizes)
    return transformer.build(transformer.Config(layers=2, dim=64, ffn_dim=128, heads=4, dropout=0.0), sizes)


def cells(effort: float) -> list[Cell]:
    """Each kind at each length; nothing is trained, more effort repeats the timing more often."""
    repeats, lengths = max(1, round(5 * effort)), LENGTHS if effort >= 1 else LENGTHS[:2]
    return [Cell(f"{kind}, n = {n}", partial(_measure, kind, n, repeats)) for kind in VARIANTS for n in lengths]


def _measure(kind: str, n: int, repeats: int) -> dict[str, float]:
    model, marks = _model(kind), SpecialTokens()
    source = Padded(torch.randint(marks.first_regular_id, TOKENS, (BATCH_SIZE, n)), torch.full((BATCH_SIZE,), n))
    target = torch.randint(marks.first_regular_id, TOKENS, (BATCH_SIZE, n + 1))

    def learn() -> Tensor:
        features, _ = model.features(target[:, :-1], model.start(source))
        loss: Tensor = model.readout.loss(features.flatten(0, 1), target[:, 1:].flatten())
        loss.backward()
        return loss

    def tell() -> None:
        search = decoder("greedy", min_length=n)
        with torch.no_grad():
            search(model, model.start(source), special_tokens=marks, limits=torch.full((BATCH_SIZE,), n))

    waits = longest_chain(learn())
    seconds = {"training": _seconds(learn, repeats), "decoding": _seconds(tell, repeats)}
    return {
        "n": n,
        "operations in a chain, training": waits,
        "calls of the decoder, training": _calls(model, learn),
        "calls of the decoder, decoding": _calls(model, tell),
        **{f"tokens/s, {what}": BATCH_SIZE * n / taken for what, taken in seconds.items()},
    }


def longest_chain(result: Tensor) -> int:
    """A result with a gradient -> the most operations that it came about by, each waiting for the one before."""
    depth: dict[Any, int] = {}
    stack = [result.grad_fn]
    while stack:
        node: Any = stack[-1]
        before = [one for one, _ in node.next_functions if one is not None]
        open_ones = [one for one in before if one not in depth]
        if open_ones:
            stack += open_ones
        else:
            depth[stack.pop()] = 1 + max((depth[one] for one in before), default=0)
    return depth[result.grad_fn]


def _calls(model: Any, work: Any) -> int:
    """How often the decoder is asked: once for a whole sequence, or once for each token."""
    count, inner = 0, model.features

    def counted(*given: Any) -> Any:
        nonlocal count
        count += 1
        return inner(*given)

    model.features = counted
    try:
        work()
    finally:
        del model.features
    return count


def _seconds(work: Any, repeats: int) -> float:
    work()
    taken = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return median(taken)


def _curve(figures: Figures, kind: str, figure: str) -> dict[float, float]:
    return {row["n"]: row[figure] for name, row in figures.items() if name.startswith(f"{kind},")}


def verdict(figures: Figures) -> ClaimResult:
    """The chain of the Transformer does not grow in training, that of the others does; decoding takes n calls."""
    chains = {kind: _curve(figures, kind, "operations in a chain, training") for kind in VARIANTS}
    growth = {kind: exponent(chain, chain.values()) for kind, chain in chains.items()}
    calls = {kind: _curve(figures, kind, "calls of the decoder, decoding") for kind in VARIANTS}
    longest = max(chains["transformer"])
    speed = {kind: _curve(figures, kind, "tokens/s, training")[longest] for kind in VARIANTS}
    told = {kind: _curve(figures, kind, "tokens/s, decoding")[longest] for kind in VARIANTS}
    step_by_step = all(count >= n for each in calls.values() for n, count in each.items())
    holds = growth["transformer"] < 0.1 and min(growth["seq2seq"], growth["bahdanau"]) > 0.7 and step_by_step
    waits = ", ".join(f"{kind} {chains[kind][longest]:.0f} (n^{growth[kind]:.1f})" for kind in VARIANTS)
    rates = ", ".join(f"{kind} {speed[kind]:.0f} and {told[kind]:.0f}" for kind in VARIANTS)
    return ClaimResult(
        holds,
        f"At {longest:.0f} tokens so many operations wait for one another in a training step: {waits}. In decoding"
        f" every one of them is asked {min(each[longest] for each in calls.values()):.0f} times for a token. Tokens a"
        f" second in training and in decoding, {BATCH_SIZE} rows at once: {rates}.",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Chains against length."""
    curves = {f"{kind}, training": _curve(figures, kind, "operations in a chain, training") for kind in VARIANTS}
    curves["every one, decoding (calls)"] = _curve(figures, "transformer", "calls of the decoder, decoding")
    plot_lines(axes, curves, x="tokens n", y="operations, one after the other")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
