"""What decoders, tasks and trainers know of a model: the shapes of things, without code."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:  # nothing here runs them, and what answers without torch knows a Hypothesis too
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

State = Any  # a tree of tensors (see core.tree); its type is the model's own affair
Indices: TypeAlias = "NDArray[np.int64]"


class Padded(NamedTuple):
    """Sequences of different lengths as one tensor, padding on the right."""

    tokens: Tensor  # (b t)
    lengths: Tensor  # (b)


class MusicCondition(NamedTuple):
    """What is told of a piece beforehand: classes, as those of `Padded`, and tokens that it will have."""

    tokens: Tensor  # (b c) classes
    lengths: Tensor  # (b)
    fixed_tokens: Padded  # (b s) the token of each place, 0 where it is open


class Readout(Protocol):
    """The last layer of a model and its loss, so that a task need not know how either is made."""

    def __call__(self, features: Tensor) -> Tensor:
        """(… d) -> (… v): logits, or whatever numbers describe the distribution."""

    def loss(self, features: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """Features (n d) and labels (n) -> the sum of -log p(label), differentiable."""


class Decoder(Protocol):
    """What decoders know of a model. The law of cuts: however tokens are cut into chunks, the logits are the same."""

    @property
    def readout(self) -> Readout: ...

    def start(self, source: Any) -> State:
        """The state before the first token; `source` is what the task's batch holds for it."""

    def features(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """(b t) -> (b t d) and the state after them: all but the readout."""

    def __call__(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """(b t) -> logits (b t v) and the state after them: readout(features)."""


class ImageCondition(NamedTuple):
    """What images are to be of."""

    labels: Tensor  # (b) classes; the number of classes itself where none is told
    low_res: (
        Tensor  # (b h·w·c) levels of the images that are to be enlarged, in raster order; (b 0) where there are none
    )


class ImageGenerator(Protocol):
    """What a task knows of a model that makes images: a decoder whose sequence is an image in an order of its own."""

    @property
    def order(self) -> Tensor:
        """(t) or (t c): where in raster order (h·w·c) the level of each place is, or the levels of all its channels."""

    @property
    def readout(self) -> Any:
        """A readout over levels, with `logits(features, given)` and `loss(features, labels)`."""

    def start(self, image_condition: ImageCondition) -> State:
        """The state before the first place."""

    def features(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """The level(s) of the place before each, (b t) or (b t c), the number of levels before the first place ->
        features (b t d) of each place, and the state after them."""


class Grammar(Protocol):
    """What may come next where not every sequence is valid: music, code, a fixed part of the output."""

    def allowed(self, history: Tensor) -> Tensor:
        """The tokens decoded so far (r t) -> (r v) bool, True = may come; it knows itself what came before them."""


class Hypothesis(NamedTuple):
    """One finished output, without start and end marks."""

    tokens: tuple[int, ...]
    score: float  # sum of log probabilities, end mark included: equal to the teacher-forced score
    rank_score: float  # what hypotheses were ranked by (length penalty applied)


class Loss(NamedTuple):
    """A sum and a count, so that accumulation and many processes are exact."""

    total: Tensor  # () the sum that is minimised, differentiable
    count: int  # type: ignore[assignment]  # a tuple's own count() is not wanted here; examples or tokens counted
    parts: Mapping[str, Tensor] = MappingProxyType({})  # named sums, logged beside the total, each divided by the count


class TargetMetric(NamedTuple):
    """What "best" means for a task: which of its scores decides, and in which direction."""

    metric: str
    higher_is_better: bool  # True: a larger value is better
