"""Diverse beam search: a hypothesis is penalized for the tokens of the others (Vijayakumar et al. 2018, section 4).

The hypotheses of an ordinary beam differ in a word or two. Here each of the `beam_width` hypotheses is a group of its
own, the best setting of the paper for diverse lists. The groups choose one after the other: a token that earlier groups
chose at this step costs `diversity` each time. All groups start with different tokens, as otherwise they would be equal
where the model is confident. The penalty affects only the choice. Scores are those of the model.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.config import check_fields
from regard.core.errors import ConfigError
from regard.decoding.constraints import check_constraints
from regard.decoding.search import Candidates, SearchState, StrategySpec
from regard.decoding.strategies.beam import MAX_LENGTH_PENALTY

FIRST_TOKEN_COST = 1e6  # more than any log probability, so that first tokens differ


@dataclass(frozen=True)
class Config:
    """Number of hypotheses, strength of the penalty, ranking and constraints."""

    beam_width: int = 5  # hypotheses that are decoded together, each penalized for the tokens of those before it
    nbest: int = 1  # hypotheses returned
    diversity: float = 0.5  # cost of a token for each earlier hypothesis that chose it, in nats; 0: no penalty
    length_penalty: float = 1.0  # exponent of the length in the ranking; above 0: longer hypotheses rank higher
    min_length: int = 0  # minimum number of tokens before EOS
    no_repeat_ngram_size: int = 0  # n-grams of this size do not occur twice; 0: no restriction
    suppress_tokens: tuple[int, ...] = ()  # ids of tokens that are never generated

    def __post_init__(self) -> None:
        check_constraints(self)
        check_fields(self, at_least_1=("beam_width", "nbest"), at_least_0=("diversity",))
        if self.nbest > self.beam_width:
            raise ConfigError(f"nbest={self.nbest} must be at most beam_width={self.beam_width}")
        if not 0 <= self.length_penalty <= MAX_LENGTH_PENALTY:
            raise ConfigError(f"length_penalty={self.length_penalty} must be from 0 (none) to {MAX_LENGTH_PENALTY}")


def build(config: Config) -> StrategySpec:
    """Return up to `nbest` hypotheses per source, most likely first; equal hypotheses are returned once."""

    def choose(scores: Tensor, search_state: SearchState) -> Candidates:
        penalties = torch.zeros_like(scores[:, 0])  # (s v)
        is_first = (search_state.lengths == 0)[:, None]
        cost = torch.where(is_first, FIRST_TOKEN_COST, config.diversity).to(penalties)
        chosen = []
        for row in range(scores.shape[1]):
            token = (scores[:, row] - penalties).argmax(dim=1, keepdim=True)
            is_used = (search_state.cum_log_probs[:, row, None] > -torch.inf).to(penalties.dtype)
            penalties.scatter_add_(1, token, cost * is_used)
            chosen.append(token)
        tokens = torch.cat(chosen, dim=1)
        parents = torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape)
        sums = search_state.cum_log_probs + scores.gather(2, tokens[..., None])[..., 0]
        return Candidates(parents, tokens, sums)

    return StrategySpec(
        choose,
        initial_width=config.beam_width,
        capacity=config.beam_width,
        nbest=config.beam_width,  # a hypothesis is finished regardless of the others
        length_penalty=config.length_penalty,
        rerank=lambda hypotheses: list({hypothesis.tokens: hypothesis for hypothesis in hypotheses}.values())[
            : config.nbest
        ],
    )
