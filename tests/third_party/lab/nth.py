"""The nth most likely token at every step."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.search import Candidates, SearchState, StrategySpec


@dataclass(frozen=True)
class Config:
    """Rank of the chosen token."""

    nth: int = 1  # 1: greedy search


def build(config: Config) -> StrategySpec:
    """Return one hypothesis per source, continued by its nth most likely token."""

    def choose(log_probs: Tensor, search: SearchState) -> Candidates:
        """Log probabilities (s 1 v), -inf for forbidden tokens -> one candidate of each source (s 1)."""
        ranked, tokens = log_probs.sort(dim=-1, descending=True)
        num_allowed = (ranked > -torch.inf).sum(dim=-1, keepdim=True)
        rank = (num_allowed - 1).clamp(max=config.nth - 1)
        parents = torch.zeros_like(rank[..., 0])  # the only hypothesis of a source is continued
        return Candidates(
            parents, tokens.gather(-1, rank)[..., 0], search.cum_log_probs + ranked.gather(-1, rank)[..., 0]
        )

    return StrategySpec(choose)
