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


class PixelPositions(NamedTuple):
    """Where each place of a sequence is in the image. With `each` a place is one channel, else a whole pixel."""

    rows: Tensor  # (t)
    columns: Tensor  # (t)
    channels: Tensor  # (t) 0 where a place is a pixel
    channels_per_position: int  # channels of a place
    positions_per_pixel: int  # places of a pixel

    @staticmethod
    def from_order(order: Tensor, sizes: ImageGenerationSpec, *, channels_per_position: int) -> PixelPositions:
        """`order` (t): where each place is in the raster order of the image, counted in places."""
        per_pixel = sizes.channels // channels_per_position
        pixels = order // per_pixel
        return PixelPositions(
            pixels // sizes.width, pixels % sizes.width, order % per_pixel, channels_per_position, per_pixel
        )

    def raster_indices(self, sizes: ImageGenerationSpec) -> Tensor:
        """(t) or (t c): where the levels of each place are in the raster order of all levels."""
        first = (self.rows * sizes.width + self.columns) * sizes.channels + self.channels
        return first if self.channels_per_position == 1 else first[:, None] + torch.arange(self.channels_per_position)


class PixelEmbedding(nn.Module):
    """The levels of the place before -> features (b t d), to which belongs `ground`: which place it is that comes."""

    def __init__(self, dim: int, position: Position2D, positions: PixelPositions, *, levels: int) -> None:
        super().__init__()
        self.levels, self.plane = levels, position
        kinds = positions.positions_per_pixel
        self.level = nn.Embedding(max(kinds, positions.channels_per_position) * (levels + 1), dim)
        self.channel = nn.Embedding(kinds, dim)
        nn.init.normal_(self.channel.weight, std=0.02)
        with torch.no_grad():  # near levels begin alike
            near = sinusoids(torch.arange(levels) * (256 / levels), dim).repeat(
                max(kinds, positions.channels_per_position), 1, 1
            )
            table = nn.init.normal_(self.level.weight, std=0.2).view(-1, levels + 1, dim)
            table[:, :levels] += 0.5 * near
        self.register_buffer("rows", positions.rows, persistent=False)
        self.register_buffer("columns", positions.columns, persistent=False)
        self.register_buffer("channels", positions.channels, persistent=False)

    def position_features(self) -> Tensor:
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

    def __init__(self, dim: int, positions: PixelPositions, *, sizes: ImageGenerationSpec, radius: int) -> None:
        super().__init__()
        self.levels, self.channels = sizes.levels, sizes.channels
        neighbours = _neighbours(positions, sizes, radius)  # (t k) pixels in the order of the sequence, or -1
        self.register_buffer("neighbours", neighbours, persistent=False)
        self.project = nn.Linear(neighbours.shape[1] * (1 + sizes.channels), dim)

    def forward(self, generated: Tensor, start: int, count: int) -> Tensor:
        """`made` (b n): the levels of all places so far, in the order of the sequence, channels last."""
        near = self.get_buffer("neighbours")[start : start + count]  # (t k)
        there = near >= 0
        entries = near[..., None] * self.channels + torch.arange(self.channels, device=near.device)  # (t k c)
        brightness = pad(generated.to(self.project.weight.dtype) * (2 / (self.levels - 1)) - 1, (0, 1))  # the last is 0
        entries = entries.where(there[..., None], generated.shape[1])
        values = brightness.index_select(1, entries.flatten()).view(len(generated), count, -1)
        flags = there.to(values.dtype).expand(len(generated), -1, -1)
        projected: Tensor = self.project(torch.cat([values, flags], dim=-1))
        return projected


def _neighbours(places: PixelPositions, sizes: ImageGenerationSpec, reach: int) -> Tensor:
    """(t k): of every place, the pixels up to `reach` rows and columns away that are made before its own."""
    number = torch.full((sizes.height + 2 * reach, sizes.width + 2 * reach), -1)
    rows, columns = places.rows[:: places.positions_per_pixel], places.columns[:: places.positions_per_pixel]
    number[rows + reach, columns + reach] = torch.arange(len(rows))
    steps = torch.arange(-reach, reach + 1)
    down, across = (x.flatten() for x in torch.meshgrid(steps, steps, indexing="ij"))
    around = number[places.rows[:, None] + down + reach, places.columns[:, None] + across + reach]
    own = torch.arange(len(places.rows)) // places.positions_per_pixel
    return around.where(around < own[:, None], -1)


class UpsampledCondition(nn.Module):
    """A small image, enlarged, around every place -> features (b t d): a guide for what is to be made there."""

    def __init__(self, dim: int, positions: PixelPositions, *, sizes: ImageGenerationSpec, radius: int) -> None:
        super().__init__()
        self.sizes, self.side = sizes, 2 * radius + 1
        self.project = nn.Linear(sizes.channels * self.side**2, dim)
        self.register_buffer("pixels", positions.rows * sizes.width + positions.columns, persistent=False)

    def forward(self, low_res: Tensor) -> Tensor:
        """(b h·w·c) levels in raster order -> (b t d)."""
        sizes = self.sizes
        brightness = low_res.view(-1, *sizes.low_res_size, sizes.channels).permute(0, 3, 1, 2)
        brightness = brightness.to(self.project.weight.dtype) * (2 / (sizes.levels - 1)) - 1
        large = interpolate(brightness, (sizes.height, sizes.width), mode="bicubic", align_corners=False)
        around = unfold(large, self.side, padding=self.side // 2).mT  # (b h·w c·k)
        projected: Tensor = self.project(around)[:, self.get_buffer("pixels")]
        return projected
