"""Beam search: keep the `beam_width` best prefixes of each source at every step (Sutskever et al. 2014, section 3.2).

Hypotheses are ranked in `search.Search._collect_ended` by  log P(y) / |y|^length_penalty,  |y| including EOS. A penalty
of 0 ranks by probability, 1 by the mean log probability per token (Koehn and Knowles 2017, section 3.6). Wu et al.
2016, equation 14, divide by ((5 + |y|) / 6)^α instead, which favors length less while |y| is small.

An ended hypothesis keeps its slot in the beam, so that fewer are continued afterwards; beam_width=1 is greedy search. A
source is finished when no growing prefix can reach its `nbest`: if the prefix has log P = s <= 0, the rank score is at
most  s / (limit + 1)^length_penalty,  whatever follows. That holds for every length_penalty >= 0, so stopping does not
miss a better hypothesis.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.config import check_fields
from regard.core.errors import ConfigError
from regard.decoding.constraints import check_constraints
from regard.decoding.search import EMPTY_ROW_SCORE, Candidates, SearchState, StrategySpec
from regard.decoding.topk import top_k

MAX_LENGTH_PENALTY = 50  # above, |y|^length_penalty overflows for long outputs


@dataclass(frozen=True)
class Config:
    """Beam width, number of hypotheses, ranking and constraints."""

    beam_width: int = 5  # prefixes kept at every step
    nbest: int = 1  # hypotheses returned
    length_penalty: float = 1.0  # exponent of the length in the ranking; above 0: longer hypotheses rank higher
    min_length: int = 0  # minimum number of tokens before EOS
    no_repeat_ngram_size: int = 0  # n-grams of this size do not occur twice; 0: no restriction
    suppress_tokens: tuple[int, ...] = ()  # ids of tokens that are never generated

    def __post_init__(self) -> None:
        check_constraints(self)
        check_fields(self, at_least_1=("beam_width", "nbest"))
        if self.nbest > self.beam_width:
            raise ConfigError(f"nbest={self.nbest} must be at most beam_width={self.beam_width}")
        if not 0 <= self.length_penalty <= MAX_LENGTH_PENALTY:
            raise ConfigError(f"length_penalty={self.length_penalty} must be from 0 (none) to {MAX_LENGTH_PENALTY}")


def build(config: Config) -> StrategySpec:
    """Return up to `nbest` hypotheses per source; fewer only if fewer exist within limit and constraints."""
    return StrategySpec(_choose, capacity=config.beam_width, nbest=config.nbest, length_penalty=config.length_penalty)


def _choose(scores: Tensor, search_state: SearchState) -> Candidates:
    return best_continuations(scores, search_state, candidates_per_hypothesis=1)


def best_continuations(scores: Tensor, search_state: SearchState, *, candidates_per_hypothesis: int) -> Candidates:
    """Return the best continuations of all rows of a source, best first: `candidates_per_hypothesis` times its
    remaining capacity."""
    max_candidates = candidates_per_hypothesis * int(search_state.capacity.max())
    values, tokens = top_k(scores.flatten(0, 1), max_candidates)  # one row never needs more
    sources, per_row = search_state.source_ids.numel(), values.shape[1]
    sums = (search_state.cum_log_probs.reshape(-1, 1) + values).view(sources, -1)
    sums, order = sums.sort(dim=1, descending=True, stable=True)
    sums, order = sums[:, :max_candidates], order[:, :max_candidates]
    is_excess = (
        torch.arange(sums.shape[1], device=sums.device) >= candidates_per_hypothesis * search_state.capacity[:, None]
    )
    return Candidates(
        parents=order // per_row,
        tokens=tokens.reshape(sources, -1).gather(1, order),
        cum_log_probs=sums.masked_fill(is_excess, EMPTY_ROW_SCORE),
    )
