"""The Vision Transformer: Dosovitskiy et al. 2021, section 3.1. See also layers/block.py.

    image -> patch tokens with positions -> [self-attention, feed-forward] × layers -> one vector -> classes

With a convolutional tokenizer it is the Compact Convolutional Transformer: Hassani et al. 2021, sections 3.3 and 3.4.
With a convolutional stem: Xiao et al. 2021, section 4.
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
from regard.core.config import check_fields
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

    layers: int = 6  # number of blocks
    dim: int = 128  # width of the features
    heads: int = 4  # attention heads; they share the width
    ffn_dim: int = 0  # hidden width of the feed-forward network; 0: twice dim
    dropout: float = 0.0  # dropout of the output of each sublayer, and of the tokens
    tokens: Literal["patches", "convolution", "stem"] = "patches"  # tokenizer
    patch: int = 4  # rows and columns of a patch; the image is padded at the border
    convolutions: int = 2  # tokens=convolution or stem: number of times that the resolution is halved
    pool: Literal["class", "mean", "attention"] = "class"  # pooling: class token, mean or attention
    position: str = "learned"  # position encoding: see regard list positions
    axes: Literal[1, 2] = 1  # position axes: raster order, or rows and columns
    eps: float = 1e-5  # added to the variance in every LayerNorm; 1e-12 in the published models
    score: str = "scaled_dot"  # attention score: see regard list scores

    def __post_init__(self) -> None:
        check_fields(
            self,
            at_least_1=("layers", "dim", "heads", "patch", "convolutions"),
            at_least_0=("ffn_dim",),
            probability=("dropout",),
        )
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )


PRESETS = {
    "small": Config(layers=3, dim=64),
    "cct": Config(layers=2, heads=2, ffn_dim=128, tokens="convolution", pool="attention"),
    "stem": Config(layers=2, tokens="stem", pool="attention"),  # after convolutions: for data without pretraining
    "base": Config(layers=12, dim=768, heads=12, ffn_dim=3072, patch=16, dropout=0.1),  # ViT-B/16
}
AUTO_PRESETS = {0: "stem"}  # least number of examples -> model.preset=auto
TINY = Config(layers=2, dim=16, heads=2, patch=3)  # for tests


def halved_size(size: int, times: int) -> int:
    """Return a side of an image after halving it `times` times, rounded up each time."""
    return -(-size // (1 << times))


class PatchEmbedding(nn.Module):
    """(b c h w) -> (b n d): square patches, each projected; section 3.1, equation 1."""

    def __init__(self, channels: int, dim: int, *, patch_size: int) -> None:
        super().__init__()
        self.side = patch_size
        self.project = nn.Linear(channels * patch_size**2, dim)

    def forward(self, images: Tensor) -> Tensor:
        side = self.side
        (b, c, h, w), (rows, columns) = images.shape, self.grid_size(*images.shape[2:])
        images = pad(images, (0, columns * side - w, 0, rows * side - h), value=-1.0)
        patches = images.view(b, c, rows, side, columns, side).permute(0, 2, 4, 1, 3, 5)
        projected: Tensor = self.project(patches.reshape(b, rows * columns, -1))
        return projected

    def grid_size(self, height: int, width: int) -> tuple[int, int]:
        """Return the number of tokens along each axis of an image."""
        return -(-height // self.side), -(-width // self.side)


class ConvTokenizer(nn.Module):
    """(b c h w) -> (b n d): convolutions, each followed by 3x3 max pooling with stride 2. Hassani et al. 2021."""

    def __init__(self, channels: int, dim: int, *, num_halvings: int) -> None:
        super().__init__()
        widths = [channels, *(max(8, dim >> (num_halvings - 1 - level)) for level in range(num_halvings - 1)), dim]
        parts: list[nn.Module] = []
        for level in range(num_halvings):
            convolution = nn.Conv2d(widths[level], widths[level + 1], 3, padding=1, bias=False)
            nn.init.kaiming_normal_(convolution.weight)
            parts += [convolution, nn.MaxPool2d(3, stride=2, padding=1), nn.ReLU()]  # ReLU and max pooling commute
        self.parts = nn.Sequential(*parts)
        self.count = num_halvings

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.parts(
            images.contiguous(memory_format=torch.channels_last)
        )  # max pooling is several times as fast
        return features.flatten(2).mT

    def grid_size(self, height: int, width: int) -> tuple[int, int]:
        """Return the number of tokens along each axis of an image."""
        return halved_size(height, self.count), halved_size(width, self.count)


class ConvStem(nn.Module):
    """(b c h w) -> (b n d): two convolutions with batch norm per halving. Xiao et al. 2021, section 4: fewer epochs are
    needed than with patches."""

    def __init__(self, channels: int, dim: int, *, num_halvings: int) -> None:
        super().__init__()
        self.backbone, self.count = Backbone(channels, dim, stride=2**num_halvings), num_halvings

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.backbone(images)
        return features.flatten(2).mT

    def grid_size(self, height: int, width: int) -> tuple[int, int]:
        """Return the number of tokens along each axis of an image."""
        return halved_size(height, self.count), halved_size(width, self.count)


class PatchPositions2D(nn.Module):
    """Tokens (b n d) -> the same plus position encodings, with separate rows and columns."""

    def __init__(self, position: Position2D, *, num_prefix_tokens: int) -> None:
        super().__init__()
        self.plane, self.before = position, num_prefix_tokens  # tokens before the first patch have no position

    def forward(self, x: Tensor) -> Tensor:
        return x + pad(self.plane.encode_raster().to(x.dtype), (0, 0, self.before, 0))


class VisionTransformer(nn.Module):
    """Images (b c h w) in -1 … 1 -> logits of their classes (b v)."""

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
        self.first = nn.Parameter(class_token)  # (n d): the class token, or empty
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
    """(b n d) -> (b d): the class token."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]


class MeanPooling(nn.Module):
    """(b n d) -> (b d)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=1)


def build(config: Config, sizes: ImageClassificationSpec) -> VisionTransformer:
    """Return a model for the given settings and data spec."""
    dim, num_prefix_tokens = config.dim, 1 if config.pool == "class" else 0
    tokens = _tokens(config, sizes.channels)
    height, width = tokens.grid_size(sizes.height, sizes.width)
    position: PositionScheme | None = None
    if config.axes == 1:
        position = positions.build(config.position, dim, max_length=height * width + num_prefix_tokens)
    readout = Readout(dim, sizes.num_classes)
    nn.init.normal_(readout.weight, std=0.02)
    nn.init.zeros_(readout.bias)
    model = VisionTransformer(
        tokens,
        position
        or PatchPositions2D(
            Position2D(config.position, dim, height=height, width=width), num_prefix_tokens=num_prefix_tokens
        ),
        class_token=torch.randn(num_prefix_tokens, dim) * 0.02,
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
    tokenizer = ConvTokenizer if config.tokens == "convolution" else ConvStem
    return tokenizer(channels, config.dim, num_halvings=config.convolutions)


def _pool(config: Config) -> nn.Module:
    if config.pool == "attention":
        return AttentionPooling(config.dim, config.dim, queries="image", keys="patches")
    return ClassTokenPooling() if config.pool == "class" else MeanPooling()


def _layer(config: Config, position: PositionScheme | None) -> Block:
    dims = HeadDims.split_evenly(config.dim, config.heads)
    position_bias = None if position is None else position.position_bias(heads=dims.num_heads, dim=dims.head_dim)
    attend = Attend(
        scores.build(config.score, dims.head_dim), position_bias=position_bias, queries="patches", keys="patches"
    )
    feedforward = FeedForward(config.dim, config.ffn_dim or 2 * config.dim, activation=gelu)
    return Block(MultiHeadAttention(attend, dims), feedforward, make_norm=partial(PreNorm, config.dim, config.dropout))
