"""Greedy search: the most likely token at every step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.constraints import check_constraints
from regard.decoding.search import Candidates, SearchState, StrategySpec
from regard.decoding.topk import top_k


@dataclass(frozen=True)
class Config:
    """Constraints on the output."""

    min_length: int = 0  # minimum number of tokens before EOS
    no_repeat_ngram_size: int = 0  # n-grams of this size do not occur twice; 0: no restriction
    suppress_tokens: tuple[int, ...] = ()  # ids of tokens that are never generated

    def __post_init__(self) -> None:
        check_constraints(self)


def build(config: Config) -> StrategySpec:
    """Return one hypothesis per source, continued by its most likely token."""
    return StrategySpec(_choose)


def _choose(scores: Tensor, search_state: SearchState) -> Candidates:
    values, tokens = top_k(scores.flatten(0, 1), 1)
    shape = search_state.cum_log_probs.shape
    parents = torch.arange(shape[1], device=scores.device).expand(shape)
    return Candidates(parents, tokens=tokens.view(shape), cum_log_probs=search_state.cum_log_probs + values.view(shape))
