"""Output constraints: set the log probabilities of forbidden tokens to -inf.

The other log probabilities are not renormalized, so the score of a hypothesis is the score under the model.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.core.config import check_fields
from regard.core.data_specs import SpecialTokens
from regard.core.errors import ConfigError

NEG_INF = -torch.inf


class Constraints(Protocol):
    """Constraints on the output that every search applies."""

    @property
    def min_length(self) -> int:
        """Minimum number of tokens before EOS; the length limit takes precedence."""

    @property
    def no_repeat_ngram_size(self) -> int:
        """Size of the n-grams that may occur only once; 0: repetition is allowed."""

    @property
    def suppress_tokens(self) -> tuple[int, ...]:
        """Token ids that are never generated. With EOS among them every output has the maximum length."""


@dataclass(frozen=True)
class OutputConstraints:
    """The constraints with their defaults; the Config of a decoding strategy may extend it."""

    min_length: int = 0  # minimum number of tokens before EOS
    no_repeat_ngram_size: int = 0  # n-grams of this size do not occur twice; 0: no restriction
    suppress_tokens: tuple[int, ...] = ()  # ids of tokens that are never generated

    def __post_init__(self) -> None:
        check_constraints(self)


def constraints_of(config: Any) -> OutputConstraints:
    """Return the constraints of a strategy's Config; those that it does not have are off."""
    names = [field.name for field in fields(OutputConstraints)]
    return OutputConstraints(**{name: getattr(config, name) for name in names if hasattr(config, name)})


def check_constraints(constraints: Constraints) -> None:
    """Raise a ConfigError for an invalid setting."""
    check_fields(constraints, at_least_0=("min_length", "no_repeat_ngram_size"))
    if any(token < 0 for token in constraints.suppress_tokens):
        raise ConfigError(f"suppress_tokens contains {min(constraints.suppress_tokens)}; token ids must be at least 0")


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
    """Log probabilities (r v) after the tokens (r t) -> the same with -inf for forbidden tokens. Modifies `scores`.

    Only the last `lengths` (r) tokens of a row are real; those before them are padding. A row that is `at_limit` (r;
    None: none is) may only generate EOS, regardless of the other constraints. The same holds for a row in which all
    tokens are forbidden. `allowed` (r v) is the mask of a grammar.
    """
    # A small vocabulary: the suppressed tokens, PAD, BOS and EOS may be all of it.
    is_small = scores.shape[1] <= len(constraints.suppress_tokens) + 3
    may_be_empty = bool(constraints.no_repeat_ngram_size) or allowed is not None or is_small
    eos_scores = scores[:, special_tokens.eos].clone() if may_be_empty or at_limit is not None else None
    _forbid(scores, (special_tokens.pad, special_tokens.bos, *constraints.suppress_tokens))
    if constraints.no_repeat_ngram_size:
        forbid_repeated_ngrams(
            scores, history, ngram_size=constraints.no_repeat_ngram_size, dummy_token=special_tokens.pad
        )
    if constraints.min_length:
        scores[:, special_tokens.eos].masked_fill_(lengths < constraints.min_length, NEG_INF)
    if allowed is not None:
        scores.masked_fill_(~allowed, NEG_INF)
    if may_be_empty:
        empty = scores.amax(dim=1) == NEG_INF
        at_limit = empty if at_limit is None else at_limit | empty
    if at_limit is not None and eos_scores is not None and bool(at_limit.any()):
        scores[at_limit] = NEG_INF
        scores[at_limit, special_tokens.eos] = eos_scores[at_limit]
    return scores


def _forbid(scores: Tensor, tokens: tuple[int, ...]) -> None:
    vocab_size = scores.shape[1]
    if max(tokens) >= vocab_size:
        raise ConfigError(
            f"suppress_tokens contains {max(tokens)}, but the vocabulary has {vocab_size} tokens: 0 to {vocab_size - 1}"
        )
    scores.index_fill_(1, _columns(tokens, scores.device), NEG_INF)


@lru_cache(maxsize=16)  # called with the same arguments at every step
def _columns(tokens: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(tokens, device=device)


def forbid_repeated_ngrams(scores: Tensor, history: Tensor, *, ngram_size: int, dummy_token: int) -> None:
    """Set the scores (r v) of tokens that would repeat an n-gram of the history (r t), and of `dummy_token`, to
    -inf."""
    length = history.shape[1]
    if length < ngram_size:
        return
    ngrams = history.unfold(1, ngram_size, 1)  # (r, t - n + 1, n); padding never matches the recent tokens
    recent = history[:, None, length - ngram_size + 1 :]  # the prefix of the n-gram that the next token completes
    repeated = (ngrams[..., :-1] == recent).all(dim=2)
    # n-grams that do not match write to a column that is forbidden anyway.
    scores.scatter_(1, torch.where(repeated, ngrams[..., -1], dummy_token), NEG_INF)
