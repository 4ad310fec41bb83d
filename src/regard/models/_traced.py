"""A step of few rows as a traced graph: the same operations on the same tensors, without Python between them.

For one sentence of a small model most of a step is Python. Tracing takes as long as about a hundred steps, so it is
done once that many have been made: it never costs more than was spent already, and a lone sentence does not pay.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch.jit._trace import TracerWarning

FEW = 8  # rows; with more, Python is a small part of a step
STEPS = 100  # steps of few rows before a trace is made

Step = Callable[..., Tensor]  # tensors -> (r d)


class Tracing:
    """Gives the step to be run next: as it is, or traced, one trace where a source has one row and one for beams."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._left = STEPS
        self._traced: dict[bool, Step] = {}

    def step(self, *, rows: int, sources: int) -> Step:
        """The step for so many rows."""
        alone = rows == sources
        if alone in self._traced:
            return self._traced[alone]
        self._left -= 1
        return self._step if self._left > 0 else self._first(alone)

    def _first(self, alone: bool) -> Step:
        """A step that leaves a trace of itself."""

        def step(*given: Tensor) -> Tensor:
            found = self._step(*given)
            self._traced[alone] = trace(self._step, given)
            return found

        return step


def trace(step: Step, given: tuple[Tensor, ...]) -> Step:
    """A step and tensors to try it with, which are not changed -> the same function as a graph, for any sizes."""

    def graph(*tensors: Tensor) -> Tensor:  # a function: the method of a module cannot be traced
        return step(*tensors)

    with warnings.catch_warnings(), torch.inference_mode(False), torch.no_grad():
        # PyTorch means to replace tracing by compiling, which takes 50 times as long and gains no more here.
        warnings.filterwarnings("ignore", message=r".*torch\.jit.* is deprecated", category=DeprecationWarning)
        # Whether a source has one row is asked of sizes: either case has a trace of its own, so the answer stays true.
        warnings.filterwarnings("ignore", category=TracerWarning)
        tried = tuple(tensor.clone() for tensor in given)
        made: Step = torch.jit.trace(graph, tried, check_trace=False)
    return made
