"""CNN image encoder: images to a grid of features with position encodings."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from regard.layers.positions._two_dimensional import Position2D


class Backbone(nn.Module):
    """(b c h w) -> (b d h/stride w/stride): per level a convolution of stride 2 and one of stride 1."""

    def __init__(self, channels: int, dim: int, *, stride: int) -> None:
        super().__init__()
        num_levels = stride.bit_length() - 1
        widths = [channels, *(max(8, dim >> (num_levels - 1 - level)) for level in range(num_levels - 1)), dim]
        parts: list[nn.Module] = []
        for in_width, out_width in pairwise(widths):
            for width, conv_stride in ((in_width, 2), (out_width, 1)):
                convolution = nn.Conv2d(width, out_width, 3, stride=conv_stride, padding=1, bias=False)
                parts += [convolution, nn.BatchNorm2d(out_width), nn.ReLU()]
        self.parts = nn.Sequential(*parts)

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.parts(x)
        return features


class GridEncoder(nn.Module):
    """(b c h w) -> (b s d): the cells of the grid in raster order, each with its content and its position."""

    def __init__(self, backbone: nn.Module, inner: int, position: Position2D) -> None:
        super().__init__()
        self.backbone, self.plane = backbone, position
        self.into = nn.Linear(inner, position.dim)
        self.norm = nn.LayerNorm(position.dim)

    def forward(self, x: Tensor) -> Tensor:
        cells = self.backbone(x).flatten(2).mT  # (b s d)
        features: Tensor = self.norm(self.into(cells).relu() + self.plane.encode_raster())
        return features
