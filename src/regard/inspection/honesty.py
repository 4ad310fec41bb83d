"""Two figures beside each map, so that attention is never shown as explanation by itself.

Agreement with gradient × input: the rank correlation between the weights of a row and how much the log probability of
the emitted token depends on each token (Jain and Wallace 2019, section 4.1). Removal: how often taking away the token a
head looks at most changes what the model says there. Both compare a head with one table of output × token, made once
per example.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.core.protocols import Padded
from regard.core.sizes import Marks
from regard.core.tree import spread
from regard.inspection.example import Pair
from regard.inspection.format import Honesty
from regard.inspection.pack import Numbers

Array = NDArray[np.float64]
FEWEST = 3  # tokens that must be ranked before a rank correlation says anything


class Evidence(NamedTuple):
    """How much each output (t) depends on each token, by gradient and by removal."""

    source_gradient: Array  # (t s)
    read_gradient: Array  # (t t) of the tokens the decoder had read
    source_removal: Array  # (t s) 1 = the output changes
    read_removal: Array  # (t t)


def evidence(model: Any, pair: Pair, marks: Marks) -> Evidence:
    """A model and an example -> the four tables the figures are made from."""
    gradients = _gradients(model, pair)
    with torch.no_grad():
        usual = model(pair.target[:, :-1], model.start(pair.source))[0].argmax(dim=-1)  # (1 t)
        source = _without_source(model, pair, usual)
        read = _without_read(model, pair, usual, unknown=marks.unknown)
    return Evidence(*gradients, source, read)


def _gradients(model: Any, pair: Pair) -> tuple[Array, Array]:
    """|gradient × input| of the log probability of each emitted token, summed over features."""
    read, emitted = pair.target[:, :-1], pair.target[0, 1:]
    with torch.enable_grad(), _embedded(model, pair.source.tokens, read) as inputs:
        logits, _ = model(read, model.start(pair.source))
        chosen = logits.log_softmax(dim=-1)[0, torch.arange(len(emitted)), emitted]  # (t)
        rows: dict[str, list[Tensor]] = {"source": [], "read": []}
        for one in chosen:
            found = torch.autograd.grad(one, list(inputs.values()), retain_graph=True, allow_unused=True)
            for (name, x), gradient in zip(inputs.items(), found, strict=True):
                product = torch.zeros_like(x) if gradient is None else gradient * x.detach()
                rows[name].append(product.sum(dim=-1).abs()[0])
    return (_table(rows["source"]), _table(rows["read"]))


@contextmanager
def _embedded(model: nn.Module, source: Tensor, read: Tensor) -> Iterator[dict[str, Tensor]]:
    """The embeddings of source and read tokens, caught on their way as leaves that gradients reach."""
    caught: dict[str, Tensor] = {}

    def hook(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor | None:
        for name, tokens in (("source", source), ("read", read)):
            if name not in caught and torch.equal(inputs[0], tokens):
                caught[name] = output.detach().requires_grad_()
                return caught[name]
        return None

    hooks = [module.register_forward_hook(hook) for module in model.modules() if isinstance(module, nn.Embedding)]
    try:
        yield caught
    finally:
        for one in hooks:
            one.remove()


def _without_source(model: Any, pair: Pair, usual: Tensor) -> Array:
    """(t s): does output t change when source token s is taken out of the sentence?"""
    tokens = pair.source.tokens[0]
    size = len(tokens)
    if size < 2:
        return np.zeros((usual.shape[1], size))
    others = torch.stack([torch.cat([tokens[:i], tokens[i + 1 :]]) for i in range(size)])  # (s s-1)
    state = model.start(Padded(others, torch.full((size,), size - 1, device=tokens.device)))
    logits, _ = model(pair.target[:, :-1].expand(size, -1), state)
    return _array((logits.argmax(dim=-1) != usual).T)


def _without_read(model: Any, pair: Pair, usual: Tensor, *, unknown: int) -> Array:
    """(t t): does output t change when an earlier token is read as unknown?"""
    read = pair.target[:, :-1]
    size = read.shape[1]
    others = read.repeat(size, 1)
    others.fill_diagonal_(unknown)
    logits, _ = model(others, spread(model.start(pair.source), size))
    return _array((logits.argmax(dim=-1) != usual).T)


def figures(group: str, weights: Numbers, found: Evidence) -> Honesty:
    """A map (h t s) of a group -> its two figures per head."""
    if group == "encoder":
        return _encoder_figures(weights, found)
    gradient = found.source_gradient if group == "cross" else found.read_gradient
    removal = found.source_removal if group == "cross" else found.read_removal
    limits = [weights.shape[2] if group == "cross" else t + 1 for t in range(weights.shape[1])]
    agreement = tuple(
        _mean([_rank_agreement(row[:n], g[:n]) for row, g, n in zip(head, gradient, limits, strict=True)])
        for head in weights
    )
    removed = tuple(_mean([removal[t, int(row.argmax())] for t, row in enumerate(head)]) for head in weights)
    return Honesty(agreement, removed)


def _encoder_figures(weights: Numbers, found: Evidence) -> Honesty:
    """Rows of an encoder emit nothing: what each token receives is compared with what all outputs owe it."""
    owed, matters = found.source_gradient.sum(axis=0), found.source_removal.max(axis=0)
    agreement = tuple(_rank_agreement(head.mean(axis=0), owed) for head in weights)
    removed = tuple(_mean([float(matters[int(row.argmax())]) for row in head]) for head in weights)
    return Honesty(agreement, removed)


def _rank_agreement(one: Any, other: Any) -> float | None:
    """Spearman's rank correlation, or None where there is nothing to rank."""
    if len(one) < FEWEST or np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    ranks = [np.argsort(np.argsort(values, kind="stable"), kind="stable") for values in (one, other)]
    return float(np.asarray(np.corrcoef(np.stack(ranks)))[0, 1])


def _mean(values: list[Any]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _table(rows: list[Tensor]) -> Array:
    return _array(torch.stack(rows))


def _array(x: Tensor) -> Array:
    return np.asarray(x.detach().cpu().numpy(), dtype=np.float64)
