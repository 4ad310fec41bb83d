"""Forced prefix, then greedy search: every source gets the same first tokens, each scored by the model.

With EOS as the last token the complete output is forced. This gives the model's score of the output and lets its
attention be inspected.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.errors import ConfigError
from regard.decoding.constraints import check_constraints
from regard.decoding.search import Candidates, SearchState, StrategySpec


@dataclass(frozen=True)
class Config:
    """Forced prefix of every output, and constraints on the rest."""

    tokens: tuple[int, ...] = ()  # token ids; EOS ends the output
    min_length: int = 0  # minimum number of tokens before EOS
    no_repeat_ngram_size: int = 0  # n-grams of this size do not occur twice; 0: no restriction
    suppress_tokens: tuple[int, ...] = ()  # ids of tokens that are never generated

    def __post_init__(self) -> None:
        check_constraints(self)
        if any(token < 0 for token in self.tokens):
            raise ConfigError(f"tokens contains {min(self.tokens)}; token ids must be at least 0")


def build(config: Config) -> StrategySpec:
    """Return one hypothesis per source. If the forced token is not allowed (at the limit), the most likely token is
    used."""
    prefix = torch.tensor([*config.tokens, -1])

    def choose(scores: Tensor, search_state: SearchState) -> Candidates:
        size = scores.shape[2]
        if max(config.tokens, default=0) >= size:
            raise ConfigError(
                f"tokens contains {max(config.tokens)}, but the vocabulary has {size} tokens: 0 to {size - 1}"
            )
        indices = search_state.lengths.clamp(max=len(config.tokens)).to(prefix.device)
        forced = prefix[indices].to(scores.device)[:, None].expand(search_state.cum_log_probs.shape)
        is_allowed = scores.gather(2, forced.clamp_min(0)[..., None])[..., 0] > -torch.inf
        tokens = torch.where((forced >= 0) & is_allowed, forced, scores.argmax(dim=2))
        parents = torch.arange(forced.shape[1], device=scores.device).expand(forced.shape)
        return Candidates(
            parents,
            tokens=tokens,
            cum_log_probs=search_state.cum_log_probs + scores.gather(2, tokens[..., None])[..., 0],
        )

    return StrategySpec(choose)
