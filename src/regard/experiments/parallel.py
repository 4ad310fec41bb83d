"""Sequential operations against the sequence length, in training and in decoding, and their speed."""

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
from regard.experiments._experiment import Cell, exponent
from regard.experiments._plots import plot_lines
from regard.experiments._verdict import ClaimResult, Figures, decide, power_law
from regard.models import bahdanau, seq2seq, transformer

CLAIM = (
    "A Transformer is trained on all positions in parallel, whereas a recurrent network steps through time; both"
    " generate token by token."
)
REFERENCE = "Vaswani et al. 2017, sections 1 and 3.1"
LENGTHS = (16, 32, 64, 128)
BATCH_SIZE, VOCAB_SIZE = 8, 100
VARIANTS = ("seq2seq", "bahdanau", "transformer")
MAX_PARALLEL_EXPONENT, MIN_SEQUENTIAL_EXPONENT = 0.1, 0.7


def _build_model(kind: str) -> Any:
    sizes = Seq2SeqSpec(VOCAB_SIZE, VOCAB_SIZE, max_length=2 * LENGTHS[-1])
    if kind == "seq2seq":
        return seq2seq.build(seq2seq.Config(dim=64, embedding=64, dropout=0.0), sizes)
    if kind == "bahdanau":
        return bahdanau.build(bahdanau.Config(dim=64, encoder=32, embedding=64, dropout=0.0), sizes)
    return transformer.build(transformer.Config(layers=2, dim=64, ffn_dim=128, heads=4, dropout=0.0), sizes)


def cells(effort: float) -> list[Cell]:
    """Return each model at each length; nothing is trained, and more effort repeats the timing."""
    repeats, lengths = max(1, round(5 * effort)), LENGTHS if effort >= 1 else LENGTHS[:2]
    return [Cell(f"{kind}, n = {n}", partial(_measure, kind, n, repeats)) for kind in VARIANTS for n in lengths]


def _measure(kind: str, n: int, repeats: int) -> dict[str, float]:
    model, special_tokens = _build_model(kind), SpecialTokens()
    source = Padded(
        torch.randint(special_tokens.first_regular_id, VOCAB_SIZE, (BATCH_SIZE, n)), torch.full((BATCH_SIZE,), n)
    )
    target = torch.randint(special_tokens.first_regular_id, VOCAB_SIZE, (BATCH_SIZE, n + 1))

    def train_step() -> Tensor:
        features, _ = model.features(target[:, :-1], model.start(source))
        loss: Tensor = model.readout.loss(features.flatten(0, 1), target[:, 1:].flatten())
        loss.backward()
        return loss

    def decode() -> None:
        search = decoder("greedy", min_length=n)
        with torch.no_grad():
            search(model, model.start(source), special_tokens=special_tokens, limits=torch.full((BATCH_SIZE,), n))

    chain = longest_chain(train_step())
    seconds = {"training": _seconds(train_step, repeats), "decoding": _seconds(decode, repeats)}
    return {
        "n": n,
        "sequential operations, training": chain,
        "decoder calls, training": _count_calls(model, train_step),
        "decoder calls, decoding": _count_calls(model, decode),
        **{f"tokens/s, {phase}": BATCH_SIZE * n / duration for phase, duration in seconds.items()},
    }


def longest_chain(result: Tensor) -> int:
    """Return the number of operations in the longest chain of the autograd graph of a result."""
    depth: dict[Any, int] = {}
    stack = [result.grad_fn]
    while stack:
        node: Any = stack[-1]
        inputs = [function for function, _ in node.next_functions if function is not None]
        pending = [function for function in inputs if function not in depth]
        if pending:
            stack += pending
        else:
            depth[stack.pop()] = 1 + max((depth[function] for function in inputs), default=0)
    return depth[result.grad_fn]


def _count_calls(model: Any, work: Any) -> int:
    """Count the calls of the decoder: one per sequence, or one per token."""
    count, inner = 0, model.features

    def counted(*args: Any) -> Any:
        nonlocal count
        count += 1
        return inner(*args)

    model.features = counted
    try:
        work()
    finally:
        del model.features
    return count


def _seconds(work: Any, repeats: int) -> float:
    work()
    durations = []
    for _ in range(repeats):
        started_at = time.perf_counter()
        work()
        durations.append(time.perf_counter() - started_at)
    return median(durations)


def _curve(figures: Figures, kind: str, figure: str) -> dict[float, float]:
    return {row["n"]: row[figure] for name, row in figures.items() if name.startswith(f"{kind},")}


def verdict(figures: Figures) -> ClaimResult:
    """Check that in training only the chains of recurrent models grow, and that decoding takes n calls."""
    chains = {kind: _curve(figures, kind, "sequential operations, training") for kind in VARIANTS}
    growth = {kind: exponent(chain, chain.values()) for kind, chain in chains.items()}
    calls = {kind: _curve(figures, kind, "decoder calls, decoding") for kind in VARIANTS}
    longest = max(chains["transformer"])
    training_speed = {kind: _curve(figures, kind, "tokens/s, training")[longest] for kind in VARIANTS}
    decoding_speed = {kind: _curve(figures, kind, "tokens/s, decoding")[longest] for kind in VARIANTS}
    step_by_step = all(count >= n for by_length in calls.values() for n, count in by_length.items())
    conditions = {
        f"the chain of the Transformer grows more slowly than n^{MAX_PARALLEL_EXPONENT}": growth["transformer"]
        < MAX_PARALLEL_EXPONENT,
        f"those of recurrent networks grow faster than n^{MIN_SEQUENTIAL_EXPONENT}": min(
            growth["seq2seq"], growth["bahdanau"]
        )
        > MIN_SEQUENTIAL_EXPONENT,
        "decoding takes at least one call per token": step_by_step,
    }
    effects = [
        power_law(f"exponent of n in the chain, {kind}", chain, chain.values()) for kind, chain in chains.items()
    ]
    chain_details = ", ".join(f"{kind} {chains[kind][longest]:.0f} (n^{growth[kind]:.1f})" for kind in VARIANTS)
    speeds = ", ".join(f"{kind} {training_speed[kind]:.0f} and {decoding_speed[kind]:.0f}" for kind in VARIANTS)
    return decide(
        f"Sequential operations of a training step at {longest:.0f} tokens: {chain_details}. In decoding every model is"
        f" called {min(by_length[longest] for by_length in calls.values()):.0f} times. Tokens per second in training"
        f" and in decoding, batch size {BATCH_SIZE}: {speeds}.",
        conditions,
        effects,
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot sequential operations against length."""
    curves = {f"{kind}, training": _curve(figures, kind, "sequential operations, training") for kind in VARIANTS}
    curves["all models, decoding (calls)"] = _curve(figures, "transformer", "decoder calls, decoding")
    plot_lines(axes, curves, x="tokens n", y="sequential operations")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
