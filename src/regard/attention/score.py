"""What a score is: (b h t d), (b h s d) -> (b h t s), how well each query fits each key.

Widths that must agree.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from regard.core.errors import ShapeError


class Dot(NamedTuple):
    """A score as a scaled inner product, scale · q·k, up to a constant per query: what the fused kernel computes."""

    q: Tensor
    k: Tensor
    scale: float


class ProjectedKeys(NamedTuple):
    """Keys that a score has projected, once per memory: what `Attend.project` gives, and `Attend` takes. A type of
    their own, so that keys can be neither left as they came nor projected twice."""

    tensor: Tensor  # (b h s d)


class ScoreFunction(nn.Module):
    """The base of every `Score`. A new score overrides `forward`, and `as_dot` or `project_keys` where they help.

    `dim` and `key_dim` are the widths of queries and keys that it was made for, checked before it is used; None where
    any will do. `scale` is given where the score is scale · q·k of queries and projected keys as they are.
    """

    dim: int | None = None
    key_dim: int | None = None
    scale: float | None = None
    allows_mixed_dtypes: bool = False  # may queries be of another precision than keys?

    def project_keys(self, k: Tensor) -> Tensor:
        """What depends on the keys alone, computed once per memory by `Attend.project`; `forward` and `as_dot` get its
        result."""
        return k

    @property
    def projects_keys(self) -> bool:
        """Whether it makes something of the keys first. If not, keys can be handed to `Attend` as they are."""
        return type(self).project_keys is not ScoreFunction.project_keys

    def as_dot(self, q: Tensor, k: Tensor) -> Dot | None:
        """The same score as an inner product, or None where it is not one."""
        return None

    @property
    def elements_per_pair(self) -> int:
        """Numbers held per query-key pair while scoring: what bounds the size of chunks."""
        return 1


def require_same_dim(score: str, dim: int, key_dim: int | None) -> int:
    """The common width, or an error: an inner product needs one."""
    if key_dim is not None and key_dim != dim:
        raise ShapeError(
            f"score {score!r}: queries have width {dim} but keys {key_dim}; "
            "project them to one width (W_Q, W_K) or use 'general'"
        )
    return dim
