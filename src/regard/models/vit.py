"""The Vision Transformer: Dosovitskiy et al. 2021, section 3.1; with convolutions in place of patches, the Compact
Convolutional Transformer: Hassani et al. 2021, sections 3.3 and 3.4; with a stem of convolutions, Xiao et al. 2021,
section 4. Reads with layers/block.py.

    image -> tokens of patches, with their places -> [self-attention, feed-forward] × layers -> one vector -> classes
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad

from regard.attention import scores
from regard.attention.attend import Attend
from regard.core.data_specs import ImageClassificationSpec
from regard.core.errors import ConfigError
from regard.layers import positions
from regard.layers.block import Block
from regard.layers.cnn_grid import Backbone
from regard.layers.dropout import Dropout
from regard.layers.feedforward import FeedForward
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.norm import PreNorm, with_norm_eps
from regard.layers.pooling import AttentionPooling
from regard.layers.positions._base import PositionScheme
from regard.layers.positions._two_dimensional import Position2D
from regard.layers.readout import Readout


@dataclass(frozen=True)
class Config:
    """The defaults suit small images and a small machine; `preset = "cct"` is CCT-2/3x2 of Hassani et al. 2021."""

    layers: int = 6  # blocks, one upon the other
    dim: int = 128  # width of the features
    heads: int = 4  # of each attention; they share the width
    ffn_dim: int = 0  # width inside the feed-forward network; 0: twice dim
    dropout: float = 0.0  # of what each part of a block adds, and of the tokens
    tokens: Literal["patches", "convolution", "stem"] = "patches"  # what becomes a token
    patch: int = 4  # rows and columns of a patch; at the border the image is padded
    convolutions: int = 2  # tokens=convolution or stem: how often both sides of the image are halved
    pool: Literal["class", "mean", "attention"] = "class"  # what becomes the image's vector: a token of its own …
    position: str = "learned"  # how places are told: see regard list positions
    axes: Literal[1, 2] = 1  # along which places are counted: the raster order, or rows and columns
    eps: float = 1e-5  # added to the variance in every normalisation; 1e-12 in the paper's own models
    score: str = "scaled_dot"  # how well a query fits a key: see regard list scores

    def __post_init__(self) -> None:
        if min(self.layers, self.dim, self.heads, self.patch, self.convolutions) < 1 or self.ffn_dim < 0:
            raise ConfigError("layers, dim, heads, patch and convolutions must be at least 1, hidden at least 0")
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout={self.dropout} is not a probability below 1")


PRESETS = {
    "small": Config(layers=3, dim=64),
    "cct": Config(layers=2, heads=2, ffn_dim=128, tokens="convolution", pool="attention"),
    "base": Config(layers=12, dim=768, heads=12, ffn_dim=3072, patch=16, dropout=0.1),  # ViT-B/16
}
TINY = Config(layers=2, dim=16, heads=2, patch=3)  # for tests


def halved_size(size: int, times: int) -> int:
    """A side of an image that was halved so often, rounded up each time."""
    return -(-size // (1 << times))


class PatchEmbedding(nn.Module):
    """(b c h w) -> (b n d): squares of pixels, each projected; section 3.1, equation 1."""

    def __init__(self, channels: int, dim: int, *, patch_size: int) -> None:
        super().__init__()
        self.side = patch_size
        self.project = nn.Linear(channels * patch_size**2, dim)

    def forward(self, images: Tensor) -> Tensor:
        side = self.side
        (b, c, h, w), (rows, columns) = images.shape, self.grid_size(*images.shape[2:])
        images = pad(images, (0, columns * side - w, 0, rows * side - h), value=-1.0)
        squares = images.view(b, c, rows, side, columns, side).permute(0, 2, 4, 1, 3, 5)
        projected: Tensor = self.project(squares.reshape(b, rows * columns, -1))
        return projected

    def grid_size(self, height: int, width: int) -> tuple[int, int]:
        """Tokens along each axis of an image."""
        return -(-height // self.side), -(-width // self.side)


class ConvTokenizer(nn.Module):
    """(b c h w) -> (b n d): convolutions, each with a maximum over 3x3 at every second place. Hassani et al. 2021."""

    def __init__(self, channels: int, dim: int, *, num_halvings: int) -> None:
        super().__init__()
        widths = [channels, *(max(8, dim >> (num_halvings - 1 - number)) for number in range(num_halvings - 1)), dim]
        parts: list[nn.Module] = []
        for number in range(num_halvings):
            convolution = nn.Conv2d(widths[number], widths[number + 1], 3, padding=1, bias=False)
            nn.init.kaiming_normal_(convolution.weight)
            parts += [convolution, nn.MaxPool2d(3, stride=2, padding=1), nn.ReLU()]  # the other way round is the same
        self.parts = nn.Sequential(*parts)
        self.count = num_halvings

    def forward(self, images: Tensor) -> Tensor:
        made: Tensor = self.parts(images.contiguous(memory_format=torch.channels_last))  # pools several times as fast
        return made.flatten(2).mT

    def grid_size(self, height: int, width: int) -> tuple[int, int]:
        """Tokens along each axis of an image."""
        return halved_size(height, self.count), halved_size(width, self.count)


class ConvStem(nn.Module):
    """(b c h w) -> (b n d): two convolutions a halving, each normalised over the batch. Xiao et al. 2021, section 4:
    images are learned in fewer epochs than from patches."""

    def __init__(self, channels: int, dim: int, *, num_halvings: int) -> None:
        super().__init__()
        self.backbone, self.count = Backbone(channels, dim, stride=2**num_halvings), num_halvings

    def forward(self, images: Tensor) -> Tensor:
        made: Tensor = self.backbone(images)
        return made.flatten(2).mT

    def grid_size(self, height: int, width: int) -> tuple[int, int]:
        """Tokens along each axis of an image."""
        return halved_size(height, self.count), halved_size(width, self.count)


class PatchPositions2D(nn.Module):
    """Tokens (b n d) -> the same with their places, rows and columns told apart."""

    def __init__(self, position: Position2D, *, num_prefix_tokens: int) -> None:
        super().__init__()
        self.plane, self.before = position, num_prefix_tokens  # tokens before the first patch, which have no place

    def forward(self, x: Tensor) -> Tensor:
        return x + pad(self.plane.encode_raster().to(x.dtype), (0, 0, self.before, 0))


class VisionTransformer(nn.Module):
    """Images (b c h w) of -1 … 1 -> logits of their classes (b v)."""

    def __init__(
        self,
        patch_embedding: PatchEmbedding | ConvTokenizer | ConvStem,
        position: PositionScheme | PatchPositions2D,
        *,
        class_token: Tensor,
        layers: list[Block],
        pool: nn.Module,
        readout: Readout,
        dropout: float,
    ) -> None:
        super().__init__()
        self.tokens, self.places, self.pool, self.readout = patch_embedding, position, pool, readout
        self.first = nn.Parameter(class_token)  # (n d): the class token, or none
        self.layers, self.dropout = nn.ModuleList(layers), Dropout(dropout)
        self.last = PreNorm.final_norm(readout.in_features)

    def features(self, images: Tensor) -> Tensor:
        """(b c h w) -> (b d)."""
        x = torch.cat([self.first.expand(len(images), -1, -1), self.tokens(images)], dim=1)
        x = self.dropout(self.places(x))
        for layer in self.layers:
            x, _ = layer(x)
        pooled: Tensor = self.pool(self.last(x))
        return pooled

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.readout(self.features(images))
        return logits


class ClassTokenPooling(nn.Module):
    """(b n d) -> (b d): the class token alone."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]


class MeanPooling(nn.Module):
    """(b n d) -> (b d)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=1)


def build(config: Config, sizes: ImageClassificationSpec) -> VisionTransformer:
    """The only function of this file that sees both the choices and what the data decided."""
    dim, own = config.dim, 1 if config.pool == "class" else 0
    tokens = _tokens(config, sizes.channels)
    height, width = tokens.grid_size(sizes.height, sizes.width)
    position: PositionScheme | None = None
    if config.axes == 1:
        position = positions.build(config.position, dim, max_length=height * width + own)
    readout = Readout(dim, sizes.num_classes)
    nn.init.normal_(readout.weight, std=0.02)
    nn.init.zeros_(readout.bias)
    model = VisionTransformer(
        tokens,
        position
        or PatchPositions2D(Position2D(config.position, dim, height=height, width=width), num_prefix_tokens=own),
        class_token=torch.randn(own, dim) * 0.02,
        layers=[_layer(config, position) for _ in range(config.layers)],
        pool=_pool(config),
        readout=readout,
        dropout=config.dropout,
    )
    with_norm_eps(model, config.eps)
    return model


def _tokens(config: Config, channels: int) -> PatchEmbedding | ConvTokenizer | ConvStem:
    if config.tokens == "patches":
        return PatchEmbedding(channels, config.dim, patch_size=config.patch)
    kind = ConvTokenizer if config.tokens == "convolution" else ConvStem
    return kind(channels, config.dim, num_halvings=config.convolutions)


def _pool(config: Config) -> nn.Module:
    if config.pool == "attention":
        return AttentionPooling(config.dim, config.dim, queries="image", keys="patches")
    return ClassTokenPooling() if config.pool == "class" else MeanPooling()


def _layer(config: Config, position: PositionScheme | None) -> Block:
    widths = HeadDims.split_evenly(config.dim, config.heads)
    place = None if position is None else position.position_bias(heads=widths.num_heads, dim=widths.head_dim)
    attend = Attend(scores.build(config.score, widths.head_dim), position_bias=place, queries="patches", keys="patches")
    feedforward = FeedForward(config.dim, config.ffn_dim or 2 * config.dim, activation=gelu)
    return Block(
        MultiHeadAttention(attend, widths), feedforward, make_norm=partial(PreNorm, config.dim, config.dropout)
    )
