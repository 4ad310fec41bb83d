"""The mechanism alone, for plain tensors: `regard.attend(query, key, value, score="scaled_dot", mask=Mask.causal())`."""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.attention.score import ScoreFunction
from regard.attention.scores import build
from regard.core.errors import ShapeError


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: str | ScoreFunction = "scaled_dot",
    mask: Mask | None = None,
    normalizer: nn.Module | None = None,
) -> Tensor:
    """Queries (… t d), keys (… s d), values (… s e) -> (… t e), with up to two leading axes (batch, heads).

    >>> import torch
    >>> scores = torch.tensor([112.0, 96.0])            # q·k of the textbook, with d = 64
    >>> query = torch.zeros(1, 64); query[0, 0] = 16.0
    >>> key = torch.zeros(2, 64); key[:, 0] = scores / 16
    >>> value = torch.eye(2)                            # v1, v2
    >>> [round(weight, 2) for weight in attend(query, key, value)[0].tolist()]   # z1 = 0.88 v1 + 0.12 v2
    [0.88, 0.12]
    """
    for name, given in (("query", query), ("key", key), ("value", value)):
        _check(name, given)
    if mask is not None and not isinstance(mask, Mask):
        raise ShapeError(
            f"attend: mask is a {type(mask).__name__}; say what it means: Mask.explicit(tensor) with True = may look, "
            "Mask.causal(), Mask.lengths(lengths)"
        )
    made = _score(score, query.shape[-1], key.shape[-1])
    q, k, v = (x.reshape((1,) * (4 - x.dim()) + tuple(x.shape)) for x in (query, key, value))
    if query.dim() == 3:  # (b t d): one head
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    mixed: Tensor = Attend(made, normalizer=normalizer).eval()(q, made.prepare(k), v, mask or Mask())
    if query.dim() == 3:
        mixed = mixed.transpose(0, 1)
    return mixed.reshape(*query.shape[:-1], value.shape[-1])


def _check(name: str, given: Tensor) -> None:
    if not 2 <= given.dim() <= 4:
        raise ShapeError(f"attend: {name} has shape {tuple(given.shape)}; give (t d), (b t d) or (b h t d)")
    if given.isnan().any():
        raise ShapeError(f"attend: {name} has NaN in it; look for a division by zero or a broken input before this call")


def _score(score: str | ScoreFunction, dim: int, key_dim: int) -> ScoreFunction:
    if isinstance(score, ScoreFunction):
        return score
    made = build(score, dim, key_dim)
    if any(weight.dim() for weight in made.parameters()):
        raise ShapeError(f"attend: score {score!r} has weights to be learned; make one, regard.score({score!r}, {dim}), and hand it in")
    return made
