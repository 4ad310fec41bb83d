"""A small gated PixelCNN, the rival of the Image Transformer: van den Oord et al. 2016b, section 2.

    levels so far -> masked convolutions: a stack that sees the rows above, and one that sees what is left of a pixel

It is made in raster order. It has no cache: every place reads the image anew, which is what it is compared for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.core.data_specs import ImageGenerationSpec
from regard.core.errors import ConfigError
from regard.core.protocols.image_generator import ImageCondition
from regard.core.state_tree import Shared
from regard.layers.pixel_readout import Categorical, LevelReadout, LogisticMixture
from regard.layers.recurrent import repeat_per_hypothesis


@dataclass(frozen=True)
class Config:
    """How wide and how deep."""

    dim: int = 32  # channels of each stack
    layers: int = 6  # gated layers
    side: int = 5  # rows and columns of the convolutions, odd
    output: Literal["categorical", "logistic"] = "categorical"  # logit for each level, or a mixture of logistics
    mixtures: int = 10  # logistics in the mixture

    def __post_init__(self) -> None:
        if min(self.dim, self.layers, self.mixtures) < 1 or self.side < 3 or self.side % 2 == 0:
            raise ConfigError(
                f"dim, layers and mixtures must be at least 1; side={self.side} must be odd, and 3 or more"
            )


PRESETS = {"small": Config(dim=16, layers=4)}
TINY = Config(dim=8, layers=2, side=3, mixtures=3)  # for tests


class GatedLayer(nn.Module):
    """One layer of both stacks: tanh(a) · sigmoid(b), section 2.2 and figure 2."""

    def __init__(self, dim: int, *, kernel_size: int, input_channels: int = 0) -> None:
        super().__init__()
        inner, self.reach, self.first = input_channels or dim, kernel_size // 2, bool(input_channels)
        self.above = nn.Conv2d(inner, 2 * dim, (self.reach + 1, kernel_size))
        self.left = nn.Conv2d(
            inner, 2 * dim, (1, self.reach + 1 - self.first)
        )  # the first layer not at the pixel itself
        self.across, self.out = nn.Conv2d(2 * dim, 2 * dim, 1), nn.Conv2d(dim, dim, 1)
        self.condition = nn.Linear(dim, 4 * dim)

    def forward(self, above: Tensor, left: Tensor, class_embedding: Tensor) -> tuple[Tensor, Tensor]:
        """Two stacks (b d h w) and the class (b d) -> both stacks."""
        up, side = self.condition(class_embedding)[:, :, None, None].chunk(2, dim=1)
        r = self.reach
        high = self.above(pad(above, (r, r, r, 0)))
        seen = pad(high, (0, 0, 1, 0))[:, :, :-1]  # the rows above, and no more: moved down by one
        wide = pad(left, (r, -1, 0, 0)) if self.first else pad(left, (r, 0, 0, 0))
        beside = self.out(_gate(self.left(wide) + self.across(seen) + side))
        return _gate(high + up), beside if self.first else beside + left


def _gate(x: Tensor) -> Tensor:
    one, other = x.chunk(2, dim=1)
    return one.tanh() * other.sigmoid()


class PixelState(NamedTuple):
    """The levels so far, one row an image; the class, one row a subject."""

    generated: Tensor  # (b n c)
    position: int
    condition: Shared[Tensor]  # (b d)


class PixelCNN(nn.Module):
    """The whole model, a `Painter` in the sense of core.protocols; a place is a pixel with all its channels."""

    order: Tensor

    def __init__(self, sizes: ImageGenerationSpec, config: Config, readout: LevelReadout) -> None:
        super().__init__()
        self.sizes, self.readout = sizes, readout
        self.classes = nn.Embedding(sizes.num_classes + 1, config.dim)
        first = GatedLayer(config.dim, kernel_size=config.side, input_channels=sizes.channels + 1)
        self.layers = nn.ModuleList(
            [first, *(GatedLayer(config.dim, kernel_size=config.side) for _ in range(config.layers - 1))]
        )
        pixels = torch.arange(sizes.height * sizes.width)[:, None]
        self.register_buffer("order", pixels * sizes.channels + torch.arange(sizes.channels), persistent=False)

    def start(self, image_condition: ImageCondition) -> PixelState:
        made = image_condition.labels.new_zeros(len(image_condition.labels), 0, self.sizes.channels, dtype=torch.int16)
        return PixelState(made, 0, Shared(self.classes(image_condition.labels)))

    def features(self, tokens: Tensor, state: PixelState) -> tuple[Tensor, PixelState]:
        """Tokens (b t c) of the pixels before each -> (b t d)."""
        known, end = tokens[:, 1:] if state.position == 0 else tokens, state.position + tokens.shape[1]
        made = torch.cat([state.generated, known.to(state.generated.dtype)], dim=1)
        x = self._stack(made, repeat_per_hypothesis(state.condition.value, len(tokens)))
        return x[:, state.position : end], PixelState(made, end, state.condition)

    def _stack(self, made: Tensor, told: Tensor) -> Tensor:
        """The levels (b n c) of the first n pixels -> features (b h·w d) of every pixel; those behind see nothing."""
        height, width = self.sizes.height, self.sizes.width
        brightness = made.to(told.dtype) * (2 / (self.sizes.levels - 1)) - 1
        image = pad(brightness, (0, 1), value=1.0)  # one channel more says which pixels are there
        image = pad(image, (0, 0, 0, height * width - made.shape[1])).mT.unflatten(2, (height, width))
        above = left = image
        for layer in self.layers:
            above, left = layer(above, left, told)
        features: Tensor = left.flatten(2).mT
        return features

    def forward(self, tokens: Tensor, state: PixelState) -> tuple[Tensor, PixelState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state


def build(config: Config, sizes: ImageGenerationSpec) -> PixelCNN:
    """A fresh net for images of these sizes; it enlarges none."""
    if sizes.low_res_size != (0, 0):
        raise ConfigError("pixel_cnn cannot enlarge images; use model=image_transformer, or data.low_resolution=0")
    readout: LevelReadout = Categorical(config.dim, levels=sizes.levels, channels=sizes.channels)
    if config.output == "logistic":
        readout = LogisticMixture(config.dim, levels=sizes.levels, channels=sizes.channels, mixtures=config.mixtures)
    return PixelCNN(sizes, config, readout)
