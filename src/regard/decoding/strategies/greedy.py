"""Greedy search: at every step the likeliest token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.constraints import check_constraints
from regard.decoding.search import Candidates, SearchState, StrategySpec
from regard.decoding.topk import top_k


@dataclass(frozen=True)
class Config:
    """What the output may not contain."""

    min_length: int = 0  # tokens before the end mark may come
    no_repeat_ngram_size: int = 0  # no n-gram of this size comes twice; 0: they may
    suppress_tokens: tuple[int, ...] = ()  # tokens that never come

    def __post_init__(self) -> None:
        check_constraints(self)


def build(config: Config) -> StrategySpec:
    """One hypothesis a source, continued by its likeliest token."""
    return StrategySpec(_choose)


def _choose(scores: Tensor, running: SearchState) -> Candidates:
    values, tokens = top_k(scores.flatten(0, 1), 1)
    shape = running.cum_log_probs.shape
    parents = torch.arange(shape[1], device=scores.device).expand(shape)
    return Candidates(parents, tokens=tokens.view(shape), cum_log_probs=running.cum_log_probs + values.view(shape))
