"""DETR, object detection as set prediction: Carion et al. 2020, section 3. See also layers/block.py.

    image -> CNN -> grid -> [self-attention, feed-forward] × layers -> memory
    object queries -> [self-attention, attention over the grid, feed-forward] × decoder_layers -> class and box of each

Each object query has a reference point in the image, relative to which its box is predicted (Meng et al. 2021, section
3.2). That is learned many times faster than boxes without a reference point.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import NO_MASK
from regard.core.config import check_fields
from regard.core.data_specs import DetectionSpec
from regard.core.errors import ConfigError
from regard.layers.block import Block
from regard.layers.cnn_grid import Backbone
from regard.layers.feedforward import FeedForward
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.norm import PreNorm
from regard.layers.positions._two_dimensional import Position2D


@dataclass(frozen=True)
class Config:
    """The defaults suit scenes of a few shapes; the paper has 6 + 6 layers of 256 after a ResNet-50."""

    layers: int = 2  # blocks of the encoder
    decoder_layers: int = 3  # blocks of the decoder; boxes and losses are computed after each
    dim: int = 96  # width of the features
    heads: int = 4  # attention heads; they share the width
    ffn_dim: int = 0  # hidden width of the feed-forward network; 0: twice dim
    dropout: float = 0.0  # dropout of the output of each sublayer
    queries: int = 0  # object queries; 0: three times the maximum number of objects
    stride: int = 8  # pixels per grid cell along each axis; a power of two
    score: str = "scaled_dot"  # attention score: see regard list scores

    def __post_init__(self) -> None:
        check_fields(
            self,
            at_least_1=("layers", "decoder_layers", "dim", "heads"),
            at_least_0=("ffn_dim", "queries"),
            probability=("dropout",),
        )
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )
        if self.stride < 2 or self.stride & (self.stride - 1):
            raise ConfigError(f"stride={self.stride} must be a power of two and at least 2")


PRESETS = {"small": Config(layers=1, decoder_layers=2, dim=64)}
TINY = Config(layers=1, decoder_layers=2, dim=16, heads=2, queries=5, stride=4)  # for tests


class Detections(NamedTuple):
    """Predictions of every decoder layer, the last layer last."""

    logits: Tensor  # (l b q v+1): classes, the last one is "no object"
    boxes: Tensor  # (l b q 4): center x, center y, width, height, relative to the image


class BoxHead(nn.Module):
    """Features (… d) and reference points (q 2) -> boxes (… 4): an MLP of three layers; output zero is the point
    itself."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 4))
        last = cast("nn.Linear", self.net[4])
        nn.init.zeros_(last.weight)
        with torch.no_grad():
            last.bias.copy_(torch.tensor([0.0, 0.0, -1.5, -1.5]))

    def forward(self, x: Tensor, reference_points: Tensor) -> Tensor:
        center, size = self.net(x).split(2, dim=-1)
        return torch.cat([center + reference_points, size], dim=-1).sigmoid()


class Detr(nn.Module):
    """Images (b c h w) in -1 … 1 -> `Detections`."""

    def __init__(
        self,
        backbone: Backbone,
        position: Position2D,
        *,
        encoder: list[Block],
        decoder: list[Block],
        num_queries: int,
        num_classes: int,
    ) -> None:
        super().__init__()
        dim = position.dim
        self.backbone, self.plane = backbone, position
        self.encoder, self.decoder = nn.ModuleList(encoder), nn.ModuleList(decoder)
        self.read, self.last = PreNorm.final_norm(dim), PreNorm.final_norm(dim)
        self.points = nn.Parameter(torch.logit(_spread(num_queries)))  # (q 2) x and y, before the sigmoid
        self.queries = nn.Parameter(torch.randn(num_queries, dim) * 0.1)
        self.where = nn.Linear(2, dim)
        self.classes, self.boxes = nn.Linear(dim, num_classes + 1), BoxHead(dim)

    def forward(self, images: Tensor) -> Detections:
        x = self.backbone(images).flatten(2).mT + self.plane.encode_raster()  # (b s d)
        for layer in self.encoder:
            x, _ = layer(x)
        memory = self.read(x)
        y = (self.queries + self.where(self.points)).expand(len(images), -1, -1)
        predictions = []
        for layer in cast("Iterable[Block]", self.decoder):
            y, _ = layer(y, source=layer.project_kv(memory, NO_MASK))
            features = self.last(y)
            predictions.append((self.classes(features), self.boxes(features, self.points)))
        logits, boxes = zip(*predictions, strict=True)
        return Detections(torch.stack(logits), torch.stack(boxes))


def _spread(count: int) -> Tensor:
    """(n 2): points spread evenly over the image."""
    golden = (5**0.5 - 1) / 2  # a cheap low-discrepancy sequence: Roberts 2018
    index = torch.arange(count) + 0.5
    return torch.stack([(index * golden) % 1, index / count], dim=1).clamp(0.02, 0.98)


def build(config: Config, sizes: DetectionSpec) -> Detr:
    """Return a model for the given settings and data spec."""
    height, width = (-(-side // config.stride) for side in (sizes.height, sizes.width))
    over_grid = partial(_heads, config, "objects", "grid")
    return Detr(
        Backbone(sizes.channels, config.dim, stride=config.stride),
        Position2D("sinusoidal", config.dim, height=height, width=width),
        encoder=[_layer(config, axis="grid") for _ in range(config.layers)],
        decoder=[_layer(config, axis="objects", cross=over_grid()) for _ in range(config.decoder_layers)],
        num_queries=config.queries or 3 * sizes.max_objects,
        num_classes=sizes.num_classes,
    )


def _layer(config: Config, *, axis: str, cross: MultiHeadAttention | None = None) -> Block:
    feedforward = FeedForward(config.dim, config.ffn_dim or 2 * config.dim)
    make_norm = partial(PreNorm, config.dim, config.dropout)
    return Block(_heads(config, axis, axis), feedforward, make_norm=make_norm, cross_attention=cross)


def _heads(config: Config, queries: str, keys: str) -> MultiHeadAttention:
    dims = HeadDims.split_evenly(config.dim, config.heads)
    return MultiHeadAttention(Attend(scores.build(config.score, dims.head_dim), queries=queries, keys=keys), dims)
