"""What an output may not contain: log probabilities -> log probabilities with -inf where a token is forbidden.

The others keep their value, so that a hypothesis is scored by what the model said and not by what was left over.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.errors import ConfigError

NEG_INF = -torch.inf


class Constraints(Protocol):
    """The settings every decoder's Config has."""

    @property
    def min_length(self) -> int:
        """Tokens before the end mark may come (a smaller limit wins)."""

    @property
    def no_repeat_ngram_size(self) -> int:
        """No n-gram of this size comes twice; 0: they may."""

    @property
    def suppress_tokens(self) -> tuple[int, ...]:
        """Tokens that never come. With the end mark among them every output is as long as its limit."""


def check_constraints(constraints: Constraints) -> None:
    """Raise an error for a setting that cannot be."""
    if constraints.min_length < 0:
        raise ConfigError(f"min_length is {constraints.min_length}; it must be 0 or more")
    if constraints.no_repeat_ngram_size < 0:
        raise ConfigError(
            f"no_repeat_ngram_size is {constraints.no_repeat_ngram_size}; it must be an n-gram size, or 0 to allow repetition"
        )
    if any(token < 0 for token in constraints.suppress_tokens):
        raise ConfigError(f"suppress_tokens holds {min(constraints.suppress_tokens)}; token numbers are 0 or more")


def apply_constraints(
    scores: Tensor,
    history: Tensor,
    *,
    lengths: Tensor,
    at_limit: Tensor | None,
    special_tokens: SpecialTokens,
    constraints: Constraints,
    allowed: Tensor | None = None,
) -> Tensor:
    """Log probabilities (r v) after the tokens (r t), with -inf for what may not come next. Changes `scores`.

    The last `lengths` (r) of the tokens are a row's own, those before them padding. A row that is `full` (r; None: none
    is) may only end, whatever else is asked; so may a row in which all tokens are forbidden. `allowed` (r v) is what a
    grammar leaves.
    """
    few = scores.shape[1] <= len(constraints.suppress_tokens) + 3  # so few that all of them may be forbidden one by one
    stuck = bool(constraints.no_repeat_ngram_size) or allowed is not None or few  # whether a row may be
    end = scores[:, special_tokens.eos].clone() if stuck or at_limit is not None else None
    _forbid(scores, (special_tokens.pad, special_tokens.bos, *constraints.suppress_tokens))
    if constraints.no_repeat_ngram_size:
        forbid_repeated_ngrams(
            scores, history, ngram_size=constraints.no_repeat_ngram_size, dummy_token=special_tokens.pad
        )
    if constraints.min_length:
        scores[:, special_tokens.eos].masked_fill_(lengths < constraints.min_length, NEG_INF)
    if allowed is not None:
        scores.masked_fill_(~allowed, NEG_INF)
    if stuck:
        empty = scores.amax(dim=1) == NEG_INF
        at_limit = empty if at_limit is None else at_limit | empty
    if at_limit is not None and end is not None and bool(at_limit.any()):
        scores[at_limit] = NEG_INF
        scores[at_limit, special_tokens.eos] = end[at_limit]
    return scores


def _forbid(scores: Tensor, tokens: tuple[int, ...]) -> None:
    size = scores.shape[1]
    if max(tokens) >= size:
        raise ConfigError(f"suppress_tokens holds {max(tokens)}, but the vocabulary has {size} tokens: 0 to {size - 1}")
    scores.index_fill_(1, _columns(tokens, scores.device), NEG_INF)


@lru_cache(maxsize=16)  # the same at every step
def _columns(tokens: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(tokens, device=device)


def forbid_repeated_ngrams(scores: Tensor, history: Tensor, *, ngram_size: int, dummy_token: int) -> None:
    """Scores (r v) with -inf for tokens that would complete an n-gram of the tokens (r t) again, and for `spare`."""
    length = history.shape[1]
    if length < ngram_size:
        return
    grams = history.unfold(1, ngram_size, 1)  # (r, t - size + 1, size); padding among them is met by no recent token
    recent = history[:, None, length - ngram_size + 1 :]  # what the next token would complete
    repeated = (grams[..., :-1] == recent).all(dim=2)
    # Grams that do not match write to a column that is forbidden in any case.
    scores.scatter_(1, torch.where(repeated, grams[..., -1], dummy_token), NEG_INF)
