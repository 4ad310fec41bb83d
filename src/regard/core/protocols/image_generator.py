"""Interface between autoregressive image models and the image generation task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from regard.core.protocols import State

if TYPE_CHECKING:
    from torch import Tensor


class ImageCondition(NamedTuple):
    """The conditioning of a batch of images: a class, a low-resolution image, or neither."""

    labels: Tensor  # (b) class indices; the number of classes itself means unconditional
    low_res: Tensor  # (b h·w·c) intensity levels of the images to upscale, in raster order; (b 0) if there are none


class ImageGenerator(Protocol):
    """A decoder whose sequence is an image, in the generation order of the model."""

    @property
    def order(self) -> Tensor:
        """(t) or (t c): raster indices (h·w·c) of the level of each position, or of the levels of all its channels."""

    @property
    def readout(self) -> Any:
        """A readout over intensity levels, with `logits(features, previous_channels)` and `loss(features, labels)`."""

    def start(self, image_condition: ImageCondition) -> State:
        """Return the state before the first position."""

    def features(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Levels of the previous position, (b t) or (b t c) -> features (b t d), and the state after these positions.

        The previous level of the first position is the number of levels.
        """


@runtime_checkable
class FittedToImages(Protocol):
    """An image generator with parts that are fitted to images before the first training step."""

    def fit_initial(self, images: Tensor, image_condition: ImageCondition) -> None:
        """Fit these parts to the levels of images (b n) in raster order."""
