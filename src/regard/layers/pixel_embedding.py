"""Input embeddings for images as sequences of positions: position encoding, previous levels, neighboring pixels.

Parmar et al. 2018, section 3.1: a position is encoded by its row, its column and its channel.
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
    """Row, column and channel of every position of a sequence. A position is one channel or a complete pixel."""

    rows: Tensor  # (t)
    columns: Tensor  # (t)
    channels: Tensor  # (t) 0 if a position is a pixel
    channels_per_position: int  # channels per position
    positions_per_pixel: int  # positions per pixel

    @staticmethod
    def from_order(order: Tensor, sizes: ImageGenerationSpec, *, channels_per_position: int) -> PixelPositions:
        """`order` (t): raster index of each position of the sequence, counted in positions."""
        per_pixel = sizes.channels // channels_per_position
        pixels = order // per_pixel
        return PixelPositions(
            pixels // sizes.width, pixels % sizes.width, order % per_pixel, channels_per_position, per_pixel
        )

    def raster_indices(self, sizes: ImageGenerationSpec) -> Tensor:
        """(t) or (t c): raster indices of the levels of each position."""
        first = (self.rows * sizes.width + self.columns) * sizes.channels + self.channels
        return first if self.channels_per_position == 1 else first[:, None] + torch.arange(self.channels_per_position)


class PixelEmbedding(nn.Module):
    """Levels of the previous position -> features (b t d); `position_features` encodes the position that is
    predicted."""

    def __init__(self, dim: int, position: Position2D, positions: PixelPositions, *, levels: int) -> None:
        super().__init__()
        self.levels, self.plane = levels, position
        positions_per_pixel = positions.positions_per_pixel
        self.level = nn.Embedding(max(positions_per_pixel, positions.channels_per_position) * (levels + 1), dim)
        self.channel = nn.Embedding(positions_per_pixel, dim)
        nn.init.normal_(self.channel.weight, std=0.02)
        with torch.no_grad():  # similar levels start with similar embeddings
            level_encodings = sinusoids(torch.arange(levels) * (256 / levels), dim).repeat(
                max(positions_per_pixel, positions.channels_per_position), 1, 1
            )
            table = nn.init.normal_(self.level.weight, std=0.2).view(-1, levels + 1, dim)
            table[:, :levels] += 0.5 * level_encodings
        self.register_buffer("rows", positions.rows, persistent=False)
        self.register_buffer("columns", positions.columns, persistent=False)
        self.register_buffer("channels", positions.channels, persistent=False)

    def position_features(self) -> Tensor:
        """(n d): encoding of every position."""
        encoded = self.plane(self.get_buffer("rows"), self.get_buffer("columns"))
        features: Tensor = encoded.to(self.channel.weight.dtype) + self.channel(self.get_buffer("channels"))
        return features

    def forward(self, tokens: Tensor, start: int) -> Tensor:
        """Tokens (b t) or (b t c): levels of the positions before start, start + 1, …"""
        positions_per_pixel = self.channel.num_embeddings
        if tokens.dim() == 2:
            previous = (
                self.get_buffer("channels")[start : start + tokens.shape[1]] - 1
            )  # channel of the previous position
            embedded: Tensor = self.level(tokens + previous % positions_per_pixel * (self.levels + 1))
        else:
            channels = torch.arange(tokens.shape[2], device=tokens.device)
            embedded = self.level(tokens + channels * (self.levels + 1)).sum(dim=2)
        return embedded


class NeighbourPixels(nn.Module):
    """Levels of the neighboring pixels that are already generated -> features (b t d)."""

    def __init__(self, dim: int, positions: PixelPositions, *, sizes: ImageGenerationSpec, radius: int) -> None:
        super().__init__()
        self.levels, self.channels = sizes.levels, sizes.channels
        neighbours = neighbour_pixels(
            positions, sizes, radius
        )  # (t k) pixel indices in the order of the sequence, or -1
        self.register_buffer("neighbours", neighbours, persistent=False)
        self.project = nn.Linear(neighbours.shape[1] * (1 + sizes.channels), dim)

    def forward(self, generated: Tensor, start: int, count: int) -> Tensor:
        """`generated` (b n): levels of all positions so far, in the order of the sequence, channels last."""
        pixels = self.get_buffer("neighbours")[start : start + count]  # (t k)
        is_generated = pixels >= 0
        entries = pixels[..., None] * self.channels + torch.arange(self.channels, device=pixels.device)  # (t k c)
        brightness = pad(
            generated.to(self.project.weight.dtype) * (2 / (self.levels - 1)) - 1, (0, 1)
        )  # the added last entry is 0, for missing pixels
        entries = entries.where(is_generated[..., None], generated.shape[1])
        values = brightness.index_select(1, entries.flatten()).view(len(generated), count, -1)
        flags = is_generated.to(values.dtype).expand(len(generated), -1, -1)
        projected: Tensor = self.project(torch.cat([values, flags], dim=-1))
        return projected


def neighbour_pixels(positions: PixelPositions, sizes: ImageGenerationSpec, radius: int) -> Tensor:
    """(t k): for every position the pixels up to `radius` rows and columns away that are generated before it, or -1."""
    pixel_index = torch.full((sizes.height + 2 * radius, sizes.width + 2 * radius), -1)
    rows, columns = (
        positions.rows[:: positions.positions_per_pixel],
        positions.columns[:: positions.positions_per_pixel],
    )
    pixel_index[rows + radius, columns + radius] = torch.arange(len(rows))
    offsets = torch.arange(-radius, radius + 1)
    down, across = (x.flatten() for x in torch.meshgrid(offsets, offsets, indexing="ij"))
    neighbours = pixel_index[positions.rows[:, None] + down + radius, positions.columns[:, None] + across + radius]
    pixel = torch.arange(len(positions.rows)) // positions.positions_per_pixel
    return neighbours.where(neighbours < pixel[:, None], -1)


class UpsampledCondition(nn.Module):
    """Low-resolution image, upsampled, around every position -> features (b t d)."""

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
        upsampled = interpolate(brightness, (sizes.height, sizes.width), mode="bicubic", align_corners=False)
        patches = unfold(upsampled, self.side, padding=self.side // 2).mT  # (b h·w c·k)
        projected: Tensor = self.project(patches)[:, self.get_buffer("pixels")]
        return projected
