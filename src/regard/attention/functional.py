"""Functional attention on plain tensors: `regard.attend(query, key, value, score="dot", mask=Mask.causal())`."""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.attend import Attend, check_dtypes, check_shapes, fold_hypotheses, unfold_hypotheses
from regard.attention.kernels.masked_nan import is_finite, may_hide_keys, zero_hidden_keys
from regard.attention.masks import NO_MASK, Mask
from regard.attention.score import ScoreFunction
from regard.attention.scores import build
from regard.core.errors import ConfigError, DataError, ShapeError
from regard.core.tracing import can_inspect


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

    The training mode of modules that are passed in does not change: `Hard()` samples in training, and takes the best
    key after `.eval()`.

    >>> import torch
    >>> scores = torch.tensor([112.0, 96.0])            # a textbook example of q·k, with d = 64
    >>> query = torch.zeros(1, 64); query[0, 0] = 16.0
    >>> key = torch.zeros(2, 64); key[:, 0] = scores / 16
    >>> value = torch.eye(2)                            # v1, v2
    >>> [round(weight, 2) for weight in attend(query, key, value)[0].tolist()]   # z1 = 0.88 v1 + 0.12 v2
    [0.88, 0.12]
    """
    _check(query, key, value)
    mask = NO_MASK if mask is None else mask
    check_dtypes(query, key, value, mask=mask, allows_mixed_dtypes=False)
    function = _score(score, query.shape[-1], key.shape[-1])
    q, k, v = (_with_heads(x) for x in (query, key, value))
    module = Attend(function, normalizer=normalizer)
    if may_hide_keys(mask, q.shape[2], k.shape[2]) and not is_finite(k):
        k, v = zero_hidden_keys(k, v, mask, q.shape[2])  # before the score projects them
    output: Tensor = module(q, module.project(k), v, mask)
    if can_inspect(output) and not output.isfinite().all():
        _check_finite(query, key, value)
    return output.reshape(*query.shape[:-1], value.shape[-1])


def attention_map(
    query: Tensor,
    key: Tensor,
    *,
    score: str | ScoreFunction = "scaled_dot",
    mask: Mask | None = None,
    normalizer: nn.Module | None = None,
) -> Tensor:
    """Queries (… t d), keys (… s d) -> the attention weights (… t s) with which `attend` mixes the values.

    The arguments are those of `attend`. A row of a query that may attend to nothing is zero.

    >>> import torch
    >>> query, key = torch.eye(2), torch.tensor([[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]])
    >>> mask = Mask.lengths(torch.tensor([2]), size=3)
    >>> [[round(weight, 2) for weight in row] for row in attention_map(query, key, score="dot", mask=mask).tolist()]
    [[0.73, 0.27, 0.0], [0.27, 0.73, 0.0]]
    """
    _check(query, key, key)
    mask = NO_MASK if mask is None else mask
    check_dtypes(query, key, key, mask=mask, allows_mixed_dtypes=False)
    module = Attend(_score(score, query.shape[-1], key.shape[-1]), normalizer=normalizer)
    q, k = _with_heads(query), _with_heads(key)
    check_shapes(q, k, k)
    mask.check_batch(k.shape[0], k.shape[1])
    if may_hide_keys(mask, q.shape[2], k.shape[2]) and not is_finite(k):
        k, _ = zero_hidden_keys(k, k, mask, q.shape[2])  # NaN in padding does not reach the weights
    k = module.project(k).tensor
    folded = q if q.shape[0] == k.shape[0] else fold_hypotheses(q, k, mask)
    weights: Tensor = module.weigh(folded, k, mask)
    if can_inspect(weights) and not weights.isfinite().all():
        _check_finite(query, key, key)
    unfolded = weights if folded is q else unfold_hypotheses(weights, q.shape[0])
    return unfolded.reshape(*query.shape[:-1], key.shape[-2])


def _with_heads(x: Tensor) -> Tensor:
    """(t d), (b t d) or (b h t d) -> (b h t d)."""
    if x.dim() == 3:
        return x[:, None]
    return x.reshape((1,) * (4 - x.dim()) + tuple(x.shape))


def _check(query: Tensor, key: Tensor, value: Tensor) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor):
            raise ShapeError(f"attend: {name} is a {type(tensor).__name__}; give a tensor: torch.as_tensor(…).float()")
        if not 2 <= tensor.dim() <= 4:
            raise ShapeError(f"attend: {name} has shape {tuple(tensor.shape)}; give (t d), (b t d) or (b h t d)")
        if not tensor.is_floating_point():
            dtype = str(tensor.dtype).removeprefix("torch.")
            raise ShapeError(f"attend: {name} is {dtype}; give floats: {name}.float()")
        if tensor.dim() != query.dim():
            shapes = f"query {tuple(query.shape)}, {name} {tuple(tensor.shape)}"
            raise ShapeError(
                f"attend: {name} has {tensor.dim()} axes but query {query.dim()}; give both the same axes: {shapes}"
            )


def _check_finite(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise a DataError for an input that is not finite. Masked padding never makes the output non-finite."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not tensor.isfinite().all():
            raise DataError(f"attend: {name} contains NaN or infinity; check for a division by zero before this call")


def _score(score: str | ScoreFunction, dim: int, key_dim: int) -> ScoreFunction:
    if isinstance(score, str):
        built = build(score, dim, key_dim)
        if any(weight.dim() for weight in built.parameters()):
            sizes = f"{dim}" if dim == key_dim else f"{dim}, {key_dim}"
            raise ShapeError(
                f"attend: score {score!r} has learned weights; create it once, regard.score({score!r}, {sizes}), "
                "and pass the object"
            )
        return built
    if not isinstance(score, ScoreFunction):
        raise ConfigError(
            f"attend: score is a {type(score).__name__}; give a name, or an object: regard.score(name, width) or a "
            "subclass of ScoreFunction (CONTRIBUTING: Add a score)"
        )
    if score.dim not in (None, dim) or score.key_dim not in (None, key_dim):
        raise ShapeError(
            f"attend: the score was built for widths {score.dim} and {score.key_dim}, "
            f"but query has {dim} and key {key_dim}; build it for these widths"
        )
    return score
