"""Small convolutional network, the baseline of the Vision Transformer: residual blocks of He et al. 2016, section
3.3."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from regard.core.config import check_fields
from regard.core.data_specs import ImageClassificationSpec
from regard.layers.readout import Readout


@dataclass(frozen=True)
class Config:
    """Width and depth."""

    dim: int = 32  # channels of the first stage; each further stage has twice as many, at half the resolution
    stages: int = 3  # number of stages
    blocks: int = 1  # residual blocks per stage
    dropout: float = 0.0  # dropout of the pooled features

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("dim", "stages", "blocks"), probability=("dropout",))


PRESETS = {"small": Config(dim=16)}
TINY = Config(dim=8, stages=2)  # for tests


class ResidualBlock(nn.Module):
    """Two convolutions with a residual connection: x + f(x)."""

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
    """Images (b c h w) in -1 … 1 -> logits of their classes (b v)."""

    def __init__(self, channels: int, config: Config, *, num_classes: int) -> None:
        super().__init__()
        widths = [config.dim << stage for stage in range(config.stages)]
        parts: list[nn.Module] = [nn.Conv2d(channels, widths[0], 3, padding=1), nn.ReLU()]
        for stage, width in enumerate(widths):
            parts.append(ResidualBlock(widths[max(0, stage - 1)], width, stride=2 if stage else 1))
            parts += [ResidualBlock(width, width, stride=1) for _ in range(config.blocks - 1)]
        self.parts, self.dropout = nn.Sequential(*parts), nn.Dropout(config.dropout)
        self.readout = Readout(widths[-1], num_classes)

    def features(self, images: Tensor) -> Tensor:
        """(b c h w) -> (b d)."""
        pooled: Tensor = self.dropout(self.parts(images).mean(dim=(2, 3)))
        return pooled

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.readout(self.features(images))
        return logits


def build(config: Config, sizes: ImageClassificationSpec) -> CNN:
    """Return a model for the given settings and data spec."""
    return CNN(sizes.channels, config, num_classes=sizes.num_classes)
