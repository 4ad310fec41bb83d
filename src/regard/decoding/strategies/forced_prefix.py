"""A beginning that is given, then greedy search: every source gets the same tokens first, each scored by the model.

With an end mark as its last token, the whole output is given: the model says how likely it finds it, and is looked at
while it reads it.
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
    """What every output begins with, and what the rest may not contain."""

    tokens: tuple[int, ...] = ()  # token numbers; an end mark among them ends the output
    min_length: int = 0  # tokens before the end mark may come
    no_repeat_ngram_size: int = 0  # no n-gram of this size comes twice; 0: they may
    suppress_tokens: tuple[int, ...] = ()  # tokens that never come

    def __post_init__(self) -> None:
        check_constraints(self)
        if any(token < 0 for token in self.tokens):
            raise ConfigError(f"tokens holds {min(self.tokens)}; token numbers are 0 or more")


def build(config: Config) -> StrategySpec:
    """One hypothesis a source. Where the token that is given may not come (at the limit), the likeliest one does."""
    beginning = torch.tensor([*config.tokens, -1])

    def choose(scores: Tensor, running: SearchState) -> Candidates:
        size = scores.shape[2]
        if max(config.tokens, default=0) >= size:
            raise ConfigError(
                f"tokens holds {max(config.tokens)}, but the vocabulary has {size} tokens: 0 to {size - 1}"
            )
        places = running.lengths.clamp(max=len(config.tokens)).to(beginning.device)
        wanted = beginning[places].to(scores.device)[:, None].expand(running.cum_log_probs.shape)
        there = scores.gather(2, wanted.clamp_min(0)[..., None])[..., 0] > -torch.inf
        tokens = torch.where((wanted >= 0) & there, wanted, scores.argmax(dim=2))
        parents = torch.arange(wanted.shape[1], device=scores.device).expand(wanted.shape)
        return Candidates(
            parents, tokens=tokens, cum_log_probs=running.cum_log_probs + scores.gather(2, tokens[..., None])[..., 0]
        )

    return StrategySpec(choose)
