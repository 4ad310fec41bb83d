"""Interfaces between models, decoders, tasks and the trainer. Importing this module does not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:  # annotations only: engines without torch use Hypothesis too
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

State = Any  # decoder state: a tree of tensors (see core.state_tree) whose type the model defines
Indices: TypeAlias = "NDArray[np.int64]"  # indices of examples


class Padded(NamedTuple):
    """A batch of sequences of different lengths, padded on the right."""

    tokens: Tensor  # (b t)
    lengths: Tensor  # (b)


class Readout(Protocol):
    """The output layer of a model together with its loss."""

    def __call__(self, features: Tensor) -> Tensor:
        """(… d) -> (… v): logits, or the parameters of another output distribution."""

    def loss(self, features: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """Features (n d) and labels (n) -> the sum of -log p(label), differentiable."""


class Decoder(Protocol):
    """An autoregressive model with explicit state.

    Chunking invariance: the logits do not depend on how the tokens are split into successive calls.
    """

    @property
    def readout(self) -> Readout: ...

    def start(self, source: Any) -> State:
        """Return the state before the first token. `source` is the model input in the task's batch."""

    def features(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """(b t) -> features (b t d) and the state after these tokens, without the readout."""

    def __call__(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """(b t) -> logits (b t v), which are readout(features), and the state after these tokens."""


class Grammar(Protocol):
    """A constraint on the next token when not every sequence is valid: music, code, an output with a fixed part."""

    def allowed(self, history: Tensor) -> Tensor:
        """Tokens decoded so far (r t) -> (r v) bool, True = allowed next. The grammar knows the prompt before them."""


class Hypothesis(NamedTuple):
    """One finished output, without BOS and EOS."""

    tokens: tuple[int, ...]
    score: float  # sum of log probabilities, EOS included; equals the teacher-forced score
    rank_score: float  # the score that hypotheses are ranked by (length penalty applied)


class Loss(NamedTuple):
    """A sum and a count, so that gradient accumulation and data parallelism are exact."""

    total: Tensor  # () the sum that is minimized, differentiable
    count: int  # type: ignore[assignment]  # replaces tuple.count; the number of examples or tokens in the sum
    parts: Mapping[str, Tensor] = MappingProxyType({})  # named sums, logged next to the total after division by `count`


class TargetMetric(NamedTuple):
    """The metric that selects the best checkpoint of a task."""

    metric: str
    higher_is_better: bool
