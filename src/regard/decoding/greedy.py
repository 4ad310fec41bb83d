"""Greedy search: at every step the likeliest token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.protocols import Decoder, Hypothesis, State
from regard.core.sizes import Marks
from regard.decoding._constraints import check
from regard.decoding._search import Candidates, Plan, Running, Search
from regard.decoding._top import top_k


@dataclass(frozen=True)
class Config:
    """What the output may not contain."""

    min_length: int = 0
    no_repeat: int = 0
    forbid: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check(self)


@torch.inference_mode()
def decode(
    model: Decoder, state: State, *, marks: Marks, limits: Tensor, config: Config, first: Tensor | None = None
) -> list[list[Hypothesis]]:
    """The state before the first token, (b) rows -> one hypothesis for each of b sources, in a list of one.

    `limits` (b) is the greatest length; at its limit a hypothesis is ended, and the end mark counted, as if the model
    had chosen it. So the score always is the teacher-forced score of the tokens and the end mark. `first` (b) is the
    token to feed first, in place of the start mark: the last of a prompt whose other tokens the state has seen.
    """
    search = Search(model, choose=_choose, plan=Plan(), marks=marks, constraints=config)
    return search.run(state, limits=limits, first=first)


def _choose(scores: Tensor, running: Running) -> Candidates:
    values, tokens = top_k(scores.flatten(0, 1), 1)
    shape = running.sums.shape
    parents = torch.arange(shape[1], device=scores.device).expand(shape)
    return Candidates(parents, tokens=tokens.view(shape), sums=running.sums + values.view(shape))
