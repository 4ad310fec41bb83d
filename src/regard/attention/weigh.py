"""Weigh is the definition of attention weights: Normalize[f(Q, K) + M]. All attention weights are defined here."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor, nn

from regard.attention.masks import NO_MASK, Mask
from regard.attention.normalizers import Softmax
from regard.attention.score import Dot, ScoreFunction
from regard.core.errors import ConfigError


class PositionBias(Protocol):
    """A position encoding that is part of the score (relative, rotary).

    `query_offset` is the position of the first query among the keys. `start` (b) is the position at which each row
    starts if rows are padded on the left; encodings of relative distances can ignore it. `is_dot_product` is True if
    `as_dot` gives the same as `score`. `formula` is the score for display; {} is the score of the content.
    """

    is_dot_product: bool
    formula: str

    def score(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Tensor:
        """(b h t d), (b h s d) -> scores (b h t s) that include positions."""

    def as_dot(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Dot | None:
        """Return the same scores as an inner product, or None if they are not one."""


class NoPositionBias:
    """No position in the score: it depends on the content alone."""

    is_dot_product = True
    formula = "{}"

    def score(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Tensor:
        scores: Tensor = score(q, k)
        return scores

    def as_dot(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Dot | None:
        return score.as_dot(q, k)


class Weigh(nn.Module):
    """Normalize[f(Q, K) + M]: queries (b h t d), projected keys (b h s d) -> weights (b h t s)."""

    def __init__(
        self, score: ScoreFunction, *, normalizer: nn.Module | None = None, position_bias: PositionBias | None = None
    ) -> None:
        super().__init__()
        _check(score, normalizer)
        self.score = score
        self.normalizer = Softmax() if normalizer is None else normalizer
        self.place: PositionBias = NoPositionBias() if position_bias is None else position_bias
        self.soft = isinstance(self.normalizer, Softmax)

    def forward(self, q: Tensor, k: Tensor, mask: Mask = NO_MASK, query_offset: int | None = None) -> Tensor:
        allowed = mask.dense(q.shape[-2], k.shape[-2], query_offset=query_offset, device=q.device)
        weights: Tensor = self.normalizer(self.scores(q, k, query_offset, mask.start), allowed)
        return weights

    def scores(self, q: Tensor, k: Tensor, query_offset: int | None = None, start: Tensor | None = None) -> Tensor:
        """Return f(Q, K) (b h t s), before mask and normalizer."""
        query_offset = k.shape[-2] - q.shape[-2] if query_offset is None else query_offset
        return self.place.score(self.score, q, k, query_offset, start)

    def as_dot(self, q: Tensor, k: Tensor, start: Tensor | None = None) -> Dot | None:
        """Return the scores as an inner product if they are one and the normalizer is a softmax, else None."""
        if not self.soft:
            return None
        return self.place.as_dot(self.score, q, k, k.shape[-2] - q.shape[-2], start)

    @property
    def scale(self) -> float | None:
        """The scale if the scores are scale · q·k and the normalizer is a softmax, else None."""
        return self.score.dot_scale if self.soft and not self.depends_on_position else None

    @property
    def adds_products(self) -> bool:
        """True if the scores are a sum of products, such as q·k + q·e[distance], that is not one inner product."""
        return self.soft and self.score.dot_scale is not None and not self.place.is_dot_product

    @property
    def depends_on_position(self) -> bool:
        """True if the score depends on the positions of queries and keys."""
        return not isinstance(self.place, NoPositionBias)


def _check(score: Any, normalizer: Any) -> None:
    """Raise a ConfigError for a name or a function in place of a score or normalizer object."""
    if isinstance(score, str):
        raise ConfigError(f"attention: score is the name {score!r}; create it: regard.score({score!r}, width)")
    if not isinstance(score, ScoreFunction):
        raise ConfigError(
            f"attention: score is a {type(score).__name__}; give regard.score(name, width), or a subclass of "
            "ScoreFunction (CONTRIBUTING: Add a score)"
        )
    if score.dot_scale is not None and not score.defines_dot:
        raise ConfigError(
            f"attention: {type(score).__module__} sets dot_scale but does not define as_dot; define both if the score "
            "is dot_scale · q·k, else rename the attribute"
        )
    if isinstance(normalizer, str):
        raise ConfigError(
            f"attention: normalizer is the name {normalizer!r}; give the object: Softmax() or Hard() of "
            "regard.attention.normalizers"
        )
    if normalizer is not None and not isinstance(normalizer, nn.Module):
        raise ConfigError(
            f"attention: normalizer is a {type(normalizer).__name__}; give a module: Softmax() or Hard() of "
            "regard.attention.normalizers, or a custom one (scores, allowed) -> weights"
        )
