"""Beam search: at every step the `width` best beginnings of each source (Sutskever et al. 2014, section 3.2).

A hypothesis that ends keeps its place in the beam, so that fewer are continued from then on; width 1 is greedy search.
Hypotheses of unlike length are ranked by  log P(y) / |y|^length_penalty,  |y| counting the end mark: 0 ranks by
probability, 1 by the mean log probability of a token (Koehn and Knowles 2017, section 3.6). Wu et al. 2016, equation
14, divide by ((5 + |y|) / 6)^α instead, which favours length less while |y| is small.

A source is over when no running beginning can come among its `nbest`: with log P(y so far) = s <= 0, whatever follows,
the rank is at most  s / (limit + 1)^length_penalty.  That holds for every length_penalty >= 0: stopping loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.errors import ConfigError
from regard.decoding.constraints import check_constraints
from regard.decoding.search import EMPTY_ROW_SCORE, Candidates, SearchState, StrategySpec
from regard.decoding.topk import top_k

MAX_LENGTH_PENALTY = 50  # length penalty: beyond, |y|^length_penalty overflows for long outputs


@dataclass(frozen=True)
class Config:
    """How wide to search, how many hypotheses to return, how to rank them, what they may not contain."""

    beam_width: int = 5  # beginnings that are kept at every step
    nbest: int = 1  # hypotheses that are returned
    length_penalty: float = 1.0  # above 0: longer hypotheses rank higher
    min_length: int = 0  # tokens before the end mark may come
    no_repeat_ngram_size: int = 0  # no n-gram of this size comes twice; 0: they may
    suppress_tokens: tuple[int, ...] = ()  # tokens that never come

    def __post_init__(self) -> None:
        check_constraints(self)
        if self.beam_width < 1:
            raise ConfigError(f"width is {self.beam_width}; a beam is at least 1 wide")
        if not 1 <= self.nbest <= self.beam_width:
            raise ConfigError(f"nbest is {self.nbest}; it must lie between 1 and width, which is {self.beam_width}")
        if not 0 <= self.length_penalty <= MAX_LENGTH_PENALTY:
            raise ConfigError(
                f"length_penalty is {self.length_penalty}; it must lie between 0 (none) and {MAX_LENGTH_PENALTY}"
            )


def build(config: Config) -> StrategySpec:
    """Up to `nbest` hypotheses for each source; fewer only where fewer exist within limit and constraints."""
    return StrategySpec(_choose, capacity=config.beam_width, nbest=config.nbest, length_penalty=config.length_penalty)


def _choose(scores: Tensor, running: SearchState) -> Candidates:
    return best_continuations(scores, running, candidates_per_hypothesis=1)


def best_continuations(scores: Tensor, search_state: SearchState, *, candidates_per_hypothesis: int) -> Candidates:
    """The best continuations of all rows of a source together, best first: `each` for every one it has capacity for."""
    capacity = candidates_per_hypothesis * int(search_state.capacity.max())
    values, tokens = top_k(scores.flatten(0, 1), capacity)  # more than `capacity` of one row are never needed
    sources, count = search_state.source_ids.numel(), values.shape[1]
    sums = (search_state.cum_log_probs.reshape(-1, 1) + values).view(sources, -1)
    sums, order = sums.sort(dim=1, descending=True, stable=True)
    sums, order = sums[:, :capacity], order[:, :capacity]
    outside = (
        torch.arange(sums.shape[1], device=sums.device) >= candidates_per_hypothesis * search_state.capacity[:, None]
    )
    return Candidates(
        parents=order // count,
        tokens=tokens.reshape(sources, -1).gather(1, order),
        cum_log_probs=sums.masked_fill(outside, EMPTY_ROW_SCORE),
    )
