"""Score functions f(Q, K): queries (b h t d), keys (b h s d) -> scores (b h t s). The base class and its types."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from regard.core.errors import ShapeError


class Dot(NamedTuple):
    """A score in the form scale · q·k, up to a constant per query: the form that the fused kernel computes."""

    q: Tensor
    k: Tensor
    scale: float


class ProjectedKeys(NamedTuple):
    """Keys that a score has projected: the result of `Attend.project`, and an input of `Attend`.

    A separate type, so that keys can neither be left unprojected nor be projected twice.
    """

    tensor: Tensor  # (b h s d)


class ScoreFunction(nn.Module):
    """Base class of all scores. A new score implements `forward`, and `as_dot` or `project_keys` if they help.

    `dim` and `key_dim` are the widths of queries and keys that the score was built for; they are checked before use.
    None allows any width. `dot_scale` promises that the score is dot_scale · q·k of the queries and the projected keys,
    which enables kernels that never call `forward`; a score that sets it defines `as_dot` too.
    """

    dim: int | None = None
    key_dim: int | None = None
    built_for: tuple[int | None, int | None] = (None, None)  # the widths that `scores.build` was called with
    dot_scale: float | None = None
    allows_mixed_dtypes: bool = False  # queries may have another dtype than keys
    uses_previous_weights: bool = False  # queries may end with the weights of the previous step (previous_weights.py)

    defines_dot: bool = False  # a subclass overrides `as_dot`; torch.compile cannot compare the methods

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.defines_dot = cls.as_dot is not ScoreFunction.as_dot

    def project_keys(self, k: Tensor) -> Tensor:
        """Compute the part of the score that depends on the keys alone.

        `Attend.project` calls this once per key sequence; `forward` and `as_dot` get the result.
        """
        return k

    @property
    def projects_keys(self) -> bool:
        """True if the score projects keys. Otherwise keys can be passed to `Attend` directly."""
        return type(self).project_keys is not ScoreFunction.project_keys

    def as_dot(self, q: Tensor, k: Tensor) -> Dot | None:
        """Return the same score as an inner product, or None if it is not one."""
        return None

    @property
    def elements_per_pair(self) -> int:
        """Intermediate values per query-key pair while scoring; this bounds the size of chunks."""
        return 1


def require_same_dim(score: str, dim: int, key_dim: int | None) -> int:
    """Return the common width of queries and keys, which an inner product needs; raise a ShapeError if they differ."""
    if key_dim is not None and key_dim != dim:
        raise ShapeError(
            f"score {score!r}: queries have width {dim} but keys {key_dim}; "
            "project them to one width (W_Q, W_K) or use 'general'"
        )
    return dim
