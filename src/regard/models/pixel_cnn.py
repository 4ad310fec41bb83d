"""Small gated PixelCNN, the baseline of the Image Transformer: van den Oord et al. 2016b, section 2.

    previous levels -> masked convolutions: a stack for the rows above, and one for the pixels to the left

Images are generated in raster order. There is no cache: every step reads the whole image again, which is the cost that
it is compared for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.core.config import check_fields
from regard.core.data_specs import ImageGenerationSpec
from regard.core.errors import ConfigError
from regard.core.protocols.image_generator import ImageCondition
from regard.core.state_tree import Shared
from regard.layers.pixel_readout import Categorical, LevelReadout, LogisticMixture
from regard.layers.recurrent import repeat_per_hypothesis


@dataclass(frozen=True)
class Config:
    """Width and depth."""

    dim: int = 32  # channels per stack
    layers: int = 6  # gated layers
    side: int = 5  # kernel size of the convolutions, odd
    output: Literal["categorical", "logistic"] = "categorical"  # one logit per level, or a mixture of logistics
    mixtures: int = 10  # components of the mixture

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("dim", "layers", "mixtures"))
        if self.side < 3 or self.side % 2 == 0:
            raise ConfigError(f"side={self.side} must be odd and at least 3")


PRESETS = {"small": Config(dim=16, layers=4)}
TINY = Config(dim=8, layers=2, side=3, mixtures=3)  # for tests


class GatedLayer(nn.Module):
    """One layer of both stacks: tanh(a) · sigmoid(b), section 2.2 and figure 2."""

    def __init__(self, dim: int, *, kernel_size: int, input_channels: int = 0) -> None:
        super().__init__()
        in_channels, self.reach, self.first = input_channels or dim, kernel_size // 2, bool(input_channels)
        self.above = nn.Conv2d(in_channels, 2 * dim, (self.reach + 1, kernel_size))
        self.left = nn.Conv2d(
            in_channels, 2 * dim, (1, self.reach + 1 - self.first)
        )  # the first layer excludes the pixel
        self.across, self.out = nn.Conv2d(2 * dim, 2 * dim, 1), nn.Conv2d(dim, dim, 1)
        self.condition = nn.Linear(dim, 4 * dim)

    def forward(self, above: Tensor, left: Tensor, class_embedding: Tensor) -> tuple[Tensor, Tensor]:
        """Two stacks (b d h w) and the class (b d) -> both stacks."""
        above_bias, left_bias = self.condition(class_embedding)[:, :, None, None].chunk(2, dim=1)
        r = self.reach
        above_features = self.above(pad(above, (r, r, r, 0)))
        from_above = pad(above_features, (0, 0, 1, 0))[:, :, :-1]  # only the rows above: shifted down by one
        padded = pad(left, (r, -1, 0, 0)) if self.first else pad(left, (r, 0, 0, 0))
        output = self.out(_gate(self.left(padded) + self.across(from_above) + left_bias))
        return _gate(above_features + above_bias), output if self.first else output + left


def _gate(x: Tensor) -> Tensor:
    values, gates = x.chunk(2, dim=1)
    return values.tanh() * gates.sigmoid()


class PixelState(NamedTuple):
    """The levels so far, one row per image; the class embedding, one row per source."""

    generated: Tensor  # (b n c)
    position: int
    condition: Shared[Tensor]  # (b d)


class PixelCNN(nn.Module):
    """The complete model, an `ImageGenerator` in the sense of core.protocols; a position is a pixel with all its
    channels."""

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
        generated = image_condition.labels.new_zeros(
            len(image_condition.labels), 0, self.sizes.channels, dtype=torch.int16
        )
        return PixelState(generated, 0, Shared(self.classes(image_condition.labels)))

    def features(self, tokens: Tensor, state: PixelState) -> tuple[Tensor, PixelState]:
        """Tokens (b t c): levels of the pixel before each -> features (b t d)."""
        new_levels, end = tokens[:, 1:] if state.position == 0 else tokens, state.position + tokens.shape[1]
        generated = torch.cat([state.generated, new_levels.to(state.generated.dtype)], dim=1)
        x = self._stack(generated, repeat_per_hypothesis(state.condition.value, len(tokens)))
        return x[:, state.position : end], PixelState(generated, end, state.condition)

    def _stack(self, generated: Tensor, class_embedding: Tensor) -> Tensor:
        """Levels (b n c) of the first n pixels -> features (b h·w d) of every pixel; later pixels are empty."""
        height, width = self.sizes.height, self.sizes.width
        brightness = generated.to(class_embedding.dtype) * (2 / (self.sizes.levels - 1)) - 1
        image = pad(brightness, (0, 1), value=1.0)  # an additional channel flags the generated pixels
        image = pad(image, (0, 0, 0, height * width - generated.shape[1])).mT.unflatten(2, (height, width))
        above = left = image
        for layer in self.layers:
            above, left = layer(above, left, class_embedding)
        features: Tensor = left.flatten(2).mT
        return features

    def forward(self, tokens: Tensor, state: PixelState) -> tuple[Tensor, PixelState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state


def build(config: Config, sizes: ImageGenerationSpec) -> PixelCNN:
    """Return a model for the given settings and data spec; super-resolution is not supported."""
    if sizes.low_res_size != (0, 0):
        raise ConfigError(
            "pixel_cnn does not support super-resolution; use model=image_transformer or data.low_resolution=0"
        )
    readout: LevelReadout = Categorical(config.dim, levels=sizes.levels, channels=sizes.channels)
    if config.output == "logistic":
        readout = LogisticMixture(config.dim, levels=sizes.levels, channels=sizes.channels, mixtures=config.mixtures)
    return PixelCNN(sizes, config, readout)
