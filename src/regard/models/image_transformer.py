"""The Image Transformer: Parmar et al. 2018. Reads with attention/image_layout.py, layers/image_kv_cache.py and layers/pixel_embedding.py.

    levels so far -> [causal self-attention, attention over a small image, feed-forward] × layers -> levels to come

An image is a sequence of places, each a channel of a pixel or a whole pixel. Attention is full or local (section 3.3),
and local attention in two dimensions makes the image block by block. The class of an image is an embedding added at
every place. For super-resolution an encoder reads the small image (section 3.4); the small image enlarged also enters
at every place, so that little data is enough to learn from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.image_layout import Layout, image_blocks_1d, image_blocks_2d
from regard.attention.masks import NO_MASK, Mask
from regard.core.data_specs import ImageGenerationSpec
from regard.core.errors import ConfigError
from regard.core.protocols.image_generator import ImageCondition
from regard.core.state_tree import Shared
from regard.layers.block import Block
from regard.layers.dropout import Dropout
from regard.layers.feedforward import FeedForward
from regard.layers.image_kv_cache import ImageKVCache, ImageMultiHeadAttention
from regard.layers.kv_cache import KV
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.norm import PreNorm
from regard.layers.pixel_embedding import NeighbourPixels, PixelEmbedding, PixelPositions, UpsampledCondition
from regard.layers.pixel_readout import Categorical, LevelReadout, LogisticMixture
from regard.layers.positions._two_dimensional import Position2D
from regard.layers.recurrent import repeat_per_hypothesis


@dataclass(frozen=True)
class Config:
    """The defaults suit small images and a small machine; the paper has 12 layers of 512 and blocks of 256."""

    layers: int = 4  # blocks, one upon the other
    dim: int = 128  # width of the features
    heads: int = 4  # of each attention; they share the width
    ffn_dim: int = 0  # width inside the feed-forward network; 0: four times dim
    dropout: float = 0.0  # of what each part of a block adds, and of the embedding
    attention: Literal["full", "local_1d", "local_2d"] = "local_2d"  # what a place may look at
    block_1d: tuple[int, int] = (128, 128)  # local_1d: places of a query block, and of the memory before it
    query_block: tuple[int, int] = (4, 8)  # local_2d: rows and columns of a query block
    memory_block: tuple[int, int] = (
        4,
        4,
    )  # local_2d: how far the memory reaches beyond it, rows up, columns to both sides
    position_unit: Literal["channel", "pixel"] = "channel"  # what a place of the sequence is
    output: Literal["categorical", "logistic"] = "categorical"  # logit for each level, or a mixture of logistics
    mixtures: int = 10  # logistics in the mixture
    score: str = "scaled_dot"  # how well a query fits a key: see regard list scores
    coordinates: Literal["sinusoidal", "learned", "binary", "none"] = "sinusoidal"  # how rows and columns are told
    neighbourhood: int = 0  # pixels so near that are made already enter at every place as they are; 0: none
    encoder_layers: int = 2  # that read the small image, where there is one

    def __post_init__(self) -> None:
        least = min(self.layers, self.dim, self.heads, self.mixtures, self.encoder_layers)
        if least < 1 or min(self.ffn_dim, self.neighbourhood) < 0:
            raise ConfigError(
                "layers, dim, heads, mixtures and encoder_layers must be at least 1, hidden and surroundings 0"
            )
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout={self.dropout} is not a probability below 1")


PRESETS = {"small": Config(layers=3, dim=64, query_block=(4, 4))}
TINY = Config(
    layers=2, dim=16, heads=2, query_block=(2, 3), memory_block=(2, 1), block_1d=(6, 5), mixtures=3
)  # for tests


class EncodedCondition(NamedTuple):
    """What is known before the first place: the class, what every place is told, what layers see of a small image."""

    class_embedding: Tensor  # (b d)
    position_features: Tensor  # (b t d) for every place: where it is, and the small image there
    cross_kv: tuple[KV, ...]


class ImageState(NamedTuple):
    """The past of each layer and the levels so far, one row an image; what was told, one row a subject."""

    past: tuple[KV | ImageKVCache, ...]
    position: int
    generated: Tensor  # (b n)
    condition: Shared[EncodedCondition]


class Encoder(nn.Module):
    """A small image (b h·w·c) -> features (b h·w d): section 3.4."""

    def __init__(
        self, level_embedding: nn.Embedding, position: Position2D, *, layers: list[Block], channels: int
    ) -> None:
        super().__init__()
        self.level, self.plane, self.channels = level_embedding, position, channels
        self.layers, self.last = nn.ModuleList(layers), PreNorm.final_norm(position.dim)

    def forward(self, low_res: Tensor) -> Tensor:
        shelf = torch.arange(self.channels, device=low_res.device) * (self.level.num_embeddings // self.channels)
        x = self.level(low_res.unflatten(1, (-1, self.channels)) + shelf).sum(dim=2) + self.plane.encode_raster()
        for layer in self.layers:
            x, _ = layer(x)
        read: Tensor = self.last(x)
        return read


class InputEmbeddings(NamedTuple):
    """What enters at every place."""

    embedding: PixelEmbedding
    class_embedding: nn.Embedding
    neighbour_pixels: NeighbourPixels | None
    upsampled_condition: UpsampledCondition | None
    dropout: float


class GenerationOrder(NamedTuple):
    """In which order an image is made, and what is remembered meanwhile."""

    raster_indices: Tensor  # (t) or (t c): where the levels of each place are in the raster order
    layout: Layout | None  # None: everything


class ImageTransformer(nn.Module):
    """The whole model, a `Painter` in the sense of core.protocols."""

    order: Tensor

    def __init__(
        self,
        embeddings: InputEmbeddings,
        layers: list[Block],
        *,
        order: GenerationOrder,
        encoder: Encoder | None,
        readout: LevelReadout,
    ) -> None:
        super().__init__()
        self.embedding, self.classes, self.surroundings, self.enlarged, dropout = embeddings
        self.layers, self.encoder, self.readout = nn.ModuleList(layers), encoder, readout
        self.last = PreNorm.final_norm(embeddings.class_embedding.embedding_dim)
        self.dropout = Dropout(dropout)
        self.layout = order.layout
        self.register_buffer("order", order.raster_indices, persistent=False)

    def start(self, image_condition: ImageCondition) -> ImageState:
        condition = self.classes(image_condition.labels)
        cross: tuple[KV, ...] = ()
        if self.encoder is not None:
            read = self.encoder(image_condition.low_res)
            cross = tuple(layer.project_kv(read, NO_MASK) for layer in self._each())
        guide = self.embedding.position_features().expand(len(condition), -1, -1)
        if self.enlarged is not None:
            guide = guide + self.enlarged(image_condition.low_res)
        past = tuple(self._before(layer.empty_cache(condition)) for layer in self._each())
        made = image_condition.labels.new_zeros(len(condition), 0, dtype=torch.int16)
        return ImageState(past, 0, made, Shared(EncodedCondition(condition, guide, cross)))

    def features(self, tokens: Tensor, state: ImageState) -> tuple[Tensor, ImageState]:
        condition, guide, cross = state.condition.value
        count, known = tokens.shape[1], tokens[:, 1:] if state.position == 0 else tokens
        made = torch.cat([state.generated, known.flatten(1).to(state.generated.dtype)], dim=1)
        x = self.embedding(tokens, state.position) + repeat_per_hypothesis(condition, len(tokens))[:, None]
        x = x + repeat_per_hypothesis(guide, len(tokens))[:, state.position : state.position + count]
        if self.surroundings is not None:
            x = x + self.surroundings(made, state.position, count)
        x, past = self.dropout(x), []
        for number, (layer, before) in enumerate(zip(self.layers, state.past, strict=True)):
            x, memory = layer(x, Mask.causal(), past=before, source=cross[number] if cross else None)
            past.append(memory)
        return self.last(x), ImageState(tuple(past), state.position + count, made, state.condition)

    def forward(self, tokens: Tensor, state: ImageState) -> tuple[Tensor, ImageState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state  # (b t levels)

    def _before(self, none: KV) -> KV | ImageKVCache:
        return none if self.layout is None else ImageKVCache.empty(self.layout, none)

    def _each(self) -> Iterable[Block]:
        return cast("Iterable[Block]", self.layers)


def build(config: Config, sizes: ImageGenerationSpec) -> ImageTransformer:
    """The only function of this file that sees both the choices and what the data decided."""
    each = sizes.channels if config.position_unit == "pixel" else 1
    layout = _layout(config, sizes, per_pixel=sizes.channels // each)
    count = sizes.height * sizes.width * sizes.channels // each
    places = PixelPositions.from_order(
        torch.arange(count) if layout is None else layout.raster_indices(), sizes, channels_per_position=each
    )
    enlarging = sizes.low_res_size != (0, 0)
    encoder = _encoder(config, sizes) if enlarging else None
    layers = [_layer(config, layout, cross=_cross(config) if enlarging else None) for _ in range(config.layers)]
    surface = _surface(config, sizes, places, enlarging=enlarging)
    readout = _readout(config, sizes, each=each)
    order = GenerationOrder(places.raster_indices(sizes), layout)
    return ImageTransformer(surface, layers, order=order, encoder=encoder, readout=readout)


def _layout(config: Config, sizes: ImageGenerationSpec, *, per_pixel: int) -> Layout | None:
    if config.attention == "full":
        return None
    if config.attention == "local_1d":
        query, memory = config.block_1d
        return image_blocks_1d(sizes.height * sizes.width * per_pixel, query=query, memory=memory)
    return image_blocks_2d(
        sizes.height, sizes.width, query=config.query_block, memory=config.memory_block, channels=per_pixel
    )


def _surface(config: Config, sizes: ImageGenerationSpec, places: PixelPositions, *, enlarging: bool) -> InputEmbeddings:
    dim, reach = config.dim, config.neighbourhood
    plane = Position2D(config.coordinates, dim, height=sizes.height, width=sizes.width)
    embedding = PixelEmbedding(dim, plane, places, levels=sizes.levels)
    classes = nn.Embedding(sizes.num_classes + 1, dim)
    nn.init.normal_(classes.weight, std=0.3)
    near = NeighbourPixels(dim, places, sizes=sizes, radius=reach) if reach else None
    enlarged = UpsampledCondition(dim, places, sizes=sizes, radius=reach) if enlarging else None
    return InputEmbeddings(embedding, classes, near, enlarged, config.dropout)


def _readout(config: Config, sizes: ImageGenerationSpec, *, each: int) -> LevelReadout:
    if config.output == "categorical":
        return Categorical(config.dim, levels=sizes.levels, channels=each)
    return LogisticMixture(config.dim, levels=sizes.levels, channels=each, mixtures=config.mixtures)


def _encoder(config: Config, sizes: ImageGenerationSpec) -> Encoder:
    level = nn.Embedding(sizes.channels * sizes.levels, config.dim)
    plane = Position2D(config.coordinates, config.dim, height=sizes.low_res_size[0], width=sizes.low_res_size[1])
    layers = [_layer(config, None, axis="small image") for _ in range(config.encoder_layers)]
    return Encoder(level, plane, layers=layers, channels=sizes.channels)


def _layer(
    config: Config, layout: Layout | None, *, cross: MultiHeadAttention | None = None, axis: str = "image"
) -> Block:
    widths = HeadDims.split_evenly(config.dim, config.heads)
    attend = Attend(scores.build(config.score, widths.head_dim), queries=axis, keys=axis)
    attention = (
        MultiHeadAttention(attend, widths) if layout is None else ImageMultiHeadAttention(attend, widths, layout=layout)
    )
    feedforward = FeedForward(config.dim, config.ffn_dim or 4 * config.dim, activation=gelu)
    return Block(attention, feedforward, make_norm=partial(PreNorm, config.dim, config.dropout), cross_attention=cross)


def _cross(config: Config) -> MultiHeadAttention:
    widths = HeadDims.split_evenly(config.dim, config.heads)
    return MultiHeadAttention(
        Attend(scores.build(config.score, widths.head_dim), queries="image", keys="small image"), widths
    )
