"""Images as sequences of places: what each place is, what enters there, and what of its surroundings is known.

Parmar et al. 2018, section 3.1: a place is told by its row, its column and its channel.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad, unfold

from regard.core.data_specs import ImageGenerationSpec
from regard.layers.positions._two_dimensional import Position2D
from regard.layers.positions.sinusoidal import sinusoids


class Places(NamedTuple):
    """Where each place of a sequence is in the image. With `each` a place is one channel, else a whole pixel."""

    rows: Tensor  # (t)
    columns: Tensor  # (t)
    channels: Tensor  # (t) 0 where a place is a pixel
    each: int  # channels of a place
    kinds: int  # places of a pixel

    @staticmethod
    def of(order: Tensor, sizes: ImageGenerationSpec, *, each: int) -> Places:
        """`order` (t): where each place is in the raster order of the image, counted in places."""
        per_pixel = sizes.channels // each
        pixels = order // per_pixel
        return Places(pixels // sizes.width, pixels % sizes.width, order % per_pixel, each, per_pixel)

    def raster(self, sizes: ImageGenerationSpec) -> Tensor:
        """(t) or (t c): where the levels of each place are in the raster order of all levels."""
        first = (self.rows * sizes.width + self.columns) * sizes.channels + self.channels
        return first if self.each == 1 else first[:, None] + torch.arange(self.each)


class PixelEmbedding(nn.Module):
    """The levels of the place before -> features (b t d), to which belongs `ground`: which place it is that comes."""

    def __init__(self, dim: int, plane: Position2D, places: Places, *, levels: int) -> None:
        super().__init__()
        self.levels, self.plane = levels, plane
        kinds = places.kinds
        self.level = nn.Embedding(max(kinds, places.each) * (levels + 1), dim)
        self.channel = nn.Embedding(kinds, dim)
        nn.init.normal_(self.channel.weight, std=0.02)
        with torch.no_grad():  # near levels begin alike
            near = sinusoids(torch.arange(levels) * (256 / levels), dim).repeat(max(kinds, places.each), 1, 1)
            table = nn.init.normal_(self.level.weight, std=0.2).view(-1, levels + 1, dim)
            table[:, :levels] += 0.5 * near
        self.register_buffer("rows", places.rows, persistent=False)
        self.register_buffer("columns", places.columns, persistent=False)
        self.register_buffer("channels", places.channels, persistent=False)

    def ground(self) -> Tensor:
        """(n d): what every place is told of where it is."""
        place = self.plane(self.get_buffer("rows"), self.get_buffer("columns"))
        told: Tensor = place.to(self.channel.weight.dtype) + self.channel(self.get_buffer("channels"))
        return told

    def forward(self, tokens: Tensor, start: int) -> Tensor:
        """Tokens (b t) or (b t c) of the places before start, start + 1, …"""
        kinds = self.channel.num_embeddings
        if tokens.dim() == 2:
            before = self.get_buffer("channels")[start : start + tokens.shape[1]] - 1  # the channel of the place before
            entered: Tensor = self.level(tokens + before % kinds * (self.levels + 1))
        else:
            shelf = torch.arange(tokens.shape[2], device=tokens.device)
            entered = self.level(tokens + shelf * (self.levels + 1)).sum(dim=2)
        return entered


class NeighbourPixels(nn.Module):
    """The pixels around each place that are made already, as they are -> features (b t d)."""

    def __init__(self, dim: int, places: Places, *, sizes: ImageGenerationSpec, reach: int) -> None:
        super().__init__()
        self.levels, self.channels = sizes.levels, sizes.channels
        neighbours = _neighbours(places, sizes, reach)  # (t k) pixels in the order of the sequence, or -1
        self.register_buffer("neighbours", neighbours, persistent=False)
        self.project = nn.Linear(neighbours.shape[1] * (1 + sizes.channels), dim)

    def forward(self, made: Tensor, start: int, count: int) -> Tensor:
        """`made` (b n): the levels of all places so far, in the order of the sequence, channels last."""
        near = self.get_buffer("neighbours")[start : start + count]  # (t k)
        there = near >= 0
        entries = near[..., None] * self.channels + torch.arange(self.channels, device=near.device)  # (t k c)
        brightness = pad(made.to(self.project.weight.dtype) * (2 / (self.levels - 1)) - 1, (0, 1))  # the last is 0
        entries = entries.where(there[..., None], made.shape[1])
        values = brightness.index_select(1, entries.flatten()).view(len(made), count, -1)
        flags = there.to(values.dtype).expand(len(made), -1, -1)
        projected: Tensor = self.project(torch.cat([values, flags], dim=-1))
        return projected


def _neighbours(places: Places, sizes: ImageGenerationSpec, reach: int) -> Tensor:
    """(t k): of every place, the pixels up to `reach` rows and columns away that are made before its own."""
    number = torch.full((sizes.height + 2 * reach, sizes.width + 2 * reach), -1)
    rows, columns = places.rows[:: places.kinds], places.columns[:: places.kinds]
    number[rows + reach, columns + reach] = torch.arange(len(rows))
    steps = torch.arange(-reach, reach + 1)
    down, across = (x.flatten() for x in torch.meshgrid(steps, steps, indexing="ij"))
    around = number[places.rows[:, None] + down + reach, places.columns[:, None] + across + reach]
    own = torch.arange(len(places.rows)) // places.kinds
    return around.where(around < own[:, None], -1)


class UpsampledCondition(nn.Module):
    """A small image, enlarged, around every place -> features (b t d): a guide for what is to be made there."""

    def __init__(self, dim: int, places: Places, *, sizes: ImageGenerationSpec, reach: int) -> None:
        super().__init__()
        self.sizes, self.side = sizes, 2 * reach + 1
        self.project = nn.Linear(sizes.channels * self.side**2, dim)
        self.register_buffer("pixels", places.rows * sizes.width + places.columns, persistent=False)

    def forward(self, small: Tensor) -> Tensor:
        """(b h·w·c) levels in raster order -> (b t d)."""
        sizes = self.sizes
        brightness = small.view(-1, *sizes.small, sizes.channels).permute(0, 3, 1, 2)
        brightness = brightness.to(self.project.weight.dtype) * (2 / (sizes.levels - 1)) - 1
        large = interpolate(brightness, (sizes.height, sizes.width), mode="bicubic", align_corners=False)
        around = unfold(large, self.side, padding=self.side // 2).mT  # (b h·w c·k)
        projected: Tensor = self.project(around)[:, self.get_buffer("pixels")]
        return projected
