"""The shapes of things: what a decoder, a task and a hypothesis are. No code, so that no package needs another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

State = Any  # a tree of tensors (see core.tree); its type is the model's own affair
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Marks:
    """Token numbers with a meaning of their own."""

    pad: int = 0
    unknown: int = 1
    start: int = 2
    end: int = 3


@dataclass(frozen=True)
class Sizes:
    """What the data decided, as against the choices in a Config."""

    source: int  # source vocabulary
    target: int  # target vocabulary
    longest: int  # longest sequence, in tokens, end mark included
    marks: Marks = Marks()
    joint: bool = False  # source and target are one vocabulary


class Padded(NamedTuple):
    """Sequences of different lengths as one tensor, padding on the right."""

    tokens: Tensor  # (b t)
    lengths: Tensor  # (b)


class Decoder(Protocol):
    """What decoders know of a model. The law of cuts: however tokens are cut into chunks, the logits are the same."""

    readout: nn.Module  # (… d) -> (… v)

    def start(self, source: Any) -> State:
        """The state before the first token; `source` is what the task's batch holds for it."""

    def features(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """(b t) -> (b t d) and the state after them: all but the last linear layer."""

    def __call__(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """(b t) -> logits (b t v) and the state after them: readout(features)."""


class Hypothesis(NamedTuple):
    """One finished output, without start and end marks."""

    tokens: tuple[int, ...]
    score: float  # sum of log probabilities, end mark included: equal to the teacher-forced score
    rank_score: float  # what hypotheses were ranked by (length penalty applied)


class Loss(NamedTuple):
    """A sum and a count, so that accumulation and many processes are exact."""

    total: Tensor  # () sum over tokens, differentiable
    count: int  # type: ignore[assignment]  # a tuple's own count() is not wanted here; tokens counted


class Task(Protocol):
    """Data, loss, score, and how an example is shown. The trainer knows nothing else of the work."""

    sizes: Sizes

    def plan(self, epoch: int, seed: int) -> list[Indices]:
        """The epoch's global batches as example numbers; the same on every process."""

    def batch(self, examples: Indices) -> Any:
        """A batch of tensors (a NamedTuple, so that core.tree can move it to a device)."""

    def loss(self, model: Any, batch: Any) -> Loss:
        """The training loss."""

    def evaluate(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        """Free-running scores on a split ('valid' or 'test'); higher or lower is said by `better`."""

    def save(self, folder: Path) -> None:
        """Write what reading new input needs (tokenizer.json …) beside the weights."""
