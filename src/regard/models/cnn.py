"""A small convolutional net, the rival of the Vision Transformer: residual blocks of He et al. 2016, section 3.3."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from regard.core.data_specs import ImageClassificationSpec
from regard.core.errors import ConfigError
from regard.layers.readout import Readout


@dataclass(frozen=True)
class Config:
    """How wide and how deep."""

    dim: int = 32  # channels of the first stage; each further stage has twice as many, and half the rows and columns
    stages: int = 3  # how many
    blocks: int = 1  # residual blocks of each stage
    dropout: float = 0.0  # of the image's vector

    def __post_init__(self) -> None:
        if min(self.dim, self.stages, self.blocks) < 1:
            raise ConfigError("dim, stages and blocks must be at least 1")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout={self.dropout} is not a probability below 1")


PRESETS = {"small": Config(dim=16)}
TINY = Config(dim=8, stages=2)  # for tests


class ResidualBlock(nn.Module):
    """Two convolutions around which the input is led: x + f(x)."""

    def __init__(self, in_channels: int, out_channels: int, *, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.two = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(out_channels) for _ in range(2))
        self.around = (
            nn.Identity()
            if stride == 1 and in_channels == out_channels
            else nn.Conv2d(in_channels, out_channels, 1, stride=stride)
        )

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norms[0](self.one(x)).relu()
        outer: Tensor = (self.around(x) + self.norms[1](self.two(inner))).relu()
        return outer


class CNN(nn.Module):
    """Images (b c h w) of -1 … 1 -> logits of their classes (b v)."""

    def __init__(self, channels: int, config: Config, *, num_classes: int) -> None:
        super().__init__()
        widths = [config.dim << number for number in range(config.stages)]
        parts: list[nn.Module] = [nn.Conv2d(channels, widths[0], 3, padding=1), nn.ReLU()]
        for number, width in enumerate(widths):
            parts.append(ResidualBlock(widths[max(0, number - 1)], width, stride=2 if number else 1))
            parts += [ResidualBlock(width, width, stride=1) for _ in range(config.blocks - 1)]
        self.parts, self.dropout = nn.Sequential(*parts), nn.Dropout(config.dropout)
        self.readout = Readout(widths[-1], num_classes)

    def features(self, images: Tensor) -> Tensor:
        """(b c h w) -> (b d)."""
        made: Tensor = self.dropout(self.parts(images).mean(dim=(2, 3)))
        return made

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.readout(self.features(images))
        return logits


def build(config: Config, sizes: ImageClassificationSpec) -> CNN:
    """A fresh net for images of these sizes."""
    return CNN(sizes.channels, config, num_classes=sizes.num_classes)
