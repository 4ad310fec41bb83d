"""Images to a grid of features: convolutions, the places of the cells, and one more layer that joins both."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from regard.layers.positions._two_dimensional import Position2D


class Backbone(nn.Module):
    """(b c h w) -> (b d h/stride w/stride): convolutions, each halving both sides, with one more on each level."""

    def __init__(self, channels: int, dim: int, *, stride: int) -> None:
        super().__init__()
        count = stride.bit_length() - 1
        widths = [channels, *(max(8, dim >> (count - 1 - number)) for number in range(count - 1)), dim]
        parts: list[nn.Module] = []
        for inner, outer in pairwise(widths):
            for width, step in ((inner, 2), (outer, 1)):
                convolution = nn.Conv2d(width, outer, 3, stride=step, padding=1, bias=False)
                parts += [convolution, nn.BatchNorm2d(outer), nn.ReLU()]
        self.parts = nn.Sequential(*parts)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.parts(x)
        return made


class GridEncoder(nn.Module):
    """(b c h w) -> (b s d): the cells of an image row by row, each with what is there and where it is."""

    def __init__(self, backbone: nn.Module, inner: int, position: Position2D) -> None:
        super().__init__()
        self.backbone, self.plane = backbone, position
        self.into = nn.Linear(inner, position.dim)
        self.norm = nn.LayerNorm(position.dim)

    def forward(self, x: Tensor) -> Tensor:
        cells = self.backbone(x).flatten(2).mT  # (b s d)
        made: Tensor = self.norm(self.into(cells).relu() + self.plane.encode_raster())
        return made
