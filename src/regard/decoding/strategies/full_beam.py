"""Beam search with a full beam: `beam_width` prefixes are continued until the end, however many hypotheses have ended.

Hypotheses are ranked as in `beam`, by  log P(y) / |y|^length_penalty,  in `search.Search._collect_ended`. At every step
the 2·beam_width best continuations of a source are considered. Those that end among the best `beam_width` are
collected, and the best `beam_width` of the others continue. A source is finished when `beam_width` hypotheses have
ended and no growing one, at its current length, ranks above the worst of them. This is the search of the Hugging Face
transformers library (Wolf et al. 2020). The settings are those of `beam`, which is cheaper because an ended hypothesis
keeps its slot there.
"""

from __future__ import annotations

from torch import Tensor

from regard.decoding.search import Candidates, SearchState, StrategySpec
from regard.decoding.stopping import FullBeam
from regard.decoding.strategies.beam import Config, best_continuations

__all__ = ["Config", "build"]


def build(config: Config) -> StrategySpec:
    """Return up to `nbest` hypotheses per source."""
    return StrategySpec(
        _choose,
        capacity=config.beam_width,
        nbest=config.nbest,
        length_penalty=config.length_penalty,
        stopping_rule=FullBeam(),
    )


def _choose(scores: Tensor, search_state: SearchState) -> Candidates:
    return best_continuations(scores, search_state, candidates_per_hypothesis=2)
