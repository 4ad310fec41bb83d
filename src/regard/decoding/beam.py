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
from regard.core.protocols import Decoder, Hypothesis, State
from regard.core.sizes import Marks
from regard.decoding._constraints import check
from regard.decoding._search import NONE, Candidates, Plan, Running, Search
from regard.decoding._top import top_k


@dataclass(frozen=True)
class Config:
    """How wide to search, how many hypotheses to return, how to rank them, what they may not contain."""

    width: int = 5
    nbest: int = 1
    length_penalty: float = 1.0
    min_length: int = 0
    no_repeat: int = 0
    forbid: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check(self)
        if self.width < 1:
            raise ConfigError(f"width is {self.width}; a beam is at least 1 wide")
        if not 1 <= self.nbest <= self.width:
            raise ConfigError(f"nbest is {self.nbest}; it must lie between 1 and width, which is {self.width}")
        if not 0 <= self.length_penalty < float("inf"):
            raise ConfigError(f"length_penalty is {self.length_penalty}; it must be 0 (none) or more")


@torch.inference_mode()
def decode(
    model: Decoder, state: State, *, marks: Marks, limits: Tensor, config: Config, first: Tensor | None = None
) -> list[list[Hypothesis]]:
    """The state before the first token, (b) rows -> up to `nbest` hypotheses for each of b sources, best first.

    `limits` (b) is the greatest length; at its limit a hypothesis is ended, and the end mark counted, as if the model
    had chosen it. So the score always is the teacher-forced score of the tokens and the end mark. `first` (b) is the
    token to feed first, in place of the start mark: the last of a prompt whose other tokens the state has seen.
    There are fewer than `nbest` hypotheses only where fewer exist within limit and constraints.
    """
    plan = Plan(room=config.width, nbest=config.nbest, length_penalty=config.length_penalty)
    search = Search(model, choose=_choose, plan=plan, marks=marks, constraints=config)
    return search.run(state, limits=limits, first=first)


def _choose(scores: Tensor, running: Running) -> Candidates:
    """The best continuations of all rows of a source together, as many as it has room for."""
    room = int(running.room.max())
    values, tokens = top_k(scores.flatten(0, 1), room)  # more than `room` of one row are never needed
    sources, each = running.sources.numel(), values.shape[1]
    sums = (running.sums.flatten()[:, None] + values).view(sources, -1)
    sums, order = sums.sort(dim=1, descending=True, stable=True)
    sums, order = sums[:, :room], order[:, :room]
    outside = torch.arange(sums.shape[1], device=sums.device) >= running.room[:, None]
    return Candidates(
        parents=order // each, tokens=tokens.view(sources, -1).gather(1, order), sums=sums.masked_fill(outside, NONE)
    )
