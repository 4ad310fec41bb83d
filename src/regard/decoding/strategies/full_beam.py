"""Beam search that stays full: `width` beginnings are continued until the end, however many hypotheses have ended.

At every step the 2·width best continuations of a source are looked at: those that end among the best `width` are set
aside, and the best `width` of the others go on. A source is over when `width` hypotheses have ended and none that grows
ranks above the worst of them as it stands. This is how the Transformers library of Hugging Face searches (Wolf et al.
2020); settings and ranks are those of `beam`, which costs less, since there a hypothesis that ends keeps its place.
"""

from __future__ import annotations

from torch import Tensor

from regard.decoding.search import Candidates, SearchState, StrategySpec
from regard.decoding.stopping import FullBeam
from regard.decoding.strategies.beam import Config, best_continuations

__all__ = ["Config", "build"]


def build(config: Config) -> StrategySpec:
    """Up to `nbest` hypotheses for each source."""
    return StrategySpec(
        _choose,
        capacity=config.beam_width,
        nbest=config.nbest,
        length_penalty=config.length_penalty,
        stopping_rule=FullBeam(),
    )


def _choose(scores: Tensor, running: SearchState) -> Candidates:
    return best_continuations(scores, running, candidates_per_hypothesis=2)
