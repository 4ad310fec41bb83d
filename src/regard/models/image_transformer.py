"""The Image Transformer: Parmar et al. 2018.

    previous levels -> [causal self-attention, attention over the low-res image, feed-forward] × layers -> next levels

An image is a sequence of positions, each a channel of a pixel or a whole pixel. Attention is full or local (section
3.3); with two-dimensional local attention the image is generated block by block. The class of an image is an embedding
added at every position. For super-resolution an encoder reads the low-resolution image (section 3.4). The upsampled
image is also added at every position, so that less training data is needed. See also attention/image_layout.py,
layers/image_kv_cache.py and layers/pixel_embedding.py.
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
from regard.core.config import check_fields
from regard.core.data_specs import ImageGenerationSpec
from regard.core.errors import ConfigError
from regard.core.protocols.image_generator import ImageCondition
from regard.core.state_tree import Shared
from regard.layers.block import Block
from regard.layers.dropout import Dropout
from regard.layers.feedforward import FeedForward
from regard.layers.image_kv_cache import ImageKVCache, ImageMultiHeadAttention
from regard.layers.kv_cache import KV
from regard.layers.linear_prediction import LinearPrediction
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.norm import PreNorm
from regard.layers.pixel_embedding import NeighbourPixels, PixelEmbedding, PixelPositions, UpsampledCondition
from regard.layers.pixel_readout import Categorical, LevelReadout, LogisticMixture, ResidualMixture
from regard.layers.positions._two_dimensional import Position2D
from regard.layers.recurrent import repeat_per_hypothesis


@dataclass(frozen=True)
class Config:
    """The defaults suit small images and a small machine; the paper has 12 layers of 512 and blocks of 256."""

    layers: int = 4  # number of blocks
    dim: int = 128  # width of the features
    heads: int = 4  # attention heads; they share the width
    ffn_dim: int = 0  # hidden width of the feed-forward network; 0: four times dim
    dropout: float = 0.0  # dropout of the output of each sublayer, and of the embedding
    attention: Literal["full", "local_1d", "local_2d"] = "local_2d"  # attention pattern
    block_1d: tuple[int, int] = (128, 128)  # local_1d: positions of a query block, and of the memory before it
    query_block: tuple[int, int] = (4, 8)  # local_2d: rows and columns of a query block
    memory_block: tuple[int, int] = (4, 4)  # local_2d: rows above and columns to both sides that the memory adds
    position_unit: Literal["channel", "pixel"] = "channel"  # unit of a sequence position
    output: Literal["categorical", "logistic", "residual"] = (
        "categorical"  # one logit per level, a mixture of logistics, or one over the error of a linear prediction
    )
    mixtures: int = 10  # components of the mixture
    score: str = "scaled_dot"  # attention score: see regard list scores
    coordinates: Literal["sinusoidal", "learned", "binary", "none"] = "sinusoidal"  # encoding of rows and columns
    neighbourhood: int = 0  # radius of the generated pixels that are input at every position; 0: none
    encoder_layers: int = 2  # layers of the encoder of the low-resolution image

    def __post_init__(self) -> None:
        check_fields(
            self,
            at_least_1=("layers", "dim", "heads", "mixtures", "encoder_layers"),
            at_least_0=("ffn_dim", "neighbourhood"),
            probability=("dropout",),
        )
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )
        if self.output == "residual" and not self.neighbourhood:
            raise ConfigError("output='residual': predicts from neighbouring pixels; set neighbourhood=2")


PRESETS = {"small": Config(layers=3, dim=64, query_block=(4, 4))}
TINY = Config(
    layers=2, dim=16, heads=2, query_block=(2, 3), memory_block=(2, 1), block_1d=(6, 5), mixtures=3
)  # for tests


class EncodedCondition(NamedTuple):
    """Encoded condition: class embedding, features of every position, and the low-resolution image for each layer."""

    class_embedding: Tensor  # (b d)
    position_features: Tensor  # (b t d) encoding of every position, and the upsampled low-resolution image
    cross_kv: tuple[KV, ...]
    patches: Tensor  # (b t m) inputs of the linear prediction; (b t 0) without a low-resolution image


class ImageState(NamedTuple):
    """KV cache of each layer and the levels so far, one row per image; the condition, one row per source."""

    past: tuple[KV | ImageKVCache, ...]
    position: int
    generated: Tensor  # (b n)
    condition: Shared[EncodedCondition]


class Encoder(nn.Module):
    """Low-resolution image (b h·w·c) -> features (b h·w d): section 3.4."""

    def __init__(
        self, level_embedding: nn.Embedding, position: Position2D, *, layers: list[Block], channels: int
    ) -> None:
        super().__init__()
        self.level, self.plane, self.channels = level_embedding, position, channels
        self.layers, self.last = nn.ModuleList(layers), PreNorm.final_norm(position.dim)

    def forward(self, low_res: Tensor) -> Tensor:
        channel_offsets = torch.arange(self.channels, device=low_res.device) * (
            self.level.num_embeddings // self.channels
        )
        x = (
            self.level(low_res.unflatten(1, (-1, self.channels)) + channel_offsets).sum(dim=2)
            + self.plane.encode_raster()
        )
        for layer in self.layers:
            x, _ = layer(x)
        encoded: Tensor = self.last(x)
        return encoded


class InputEmbeddings(NamedTuple):
    """Embeddings of the inputs at every position."""

    embedding: PixelEmbedding
    class_embedding: nn.Embedding
    neighbour_pixels: NeighbourPixels | None
    upsampled_condition: UpsampledCondition | None
    dropout: float


class GenerationOrder(NamedTuple):
    """Order in which the positions of an image are generated, and the layout of local attention."""

    raster_indices: Tensor  # (t) or (t c): raster indices of the levels of each position
    layout: Layout | None  # None: full attention


class ImageTransformer(nn.Module):
    """The complete model, an `ImageGenerator` in the sense of core.protocols."""

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

    @property
    def _prediction(self) -> LinearPrediction | None:
        return self.readout.prediction if isinstance(self.readout, ResidualMixture) else None

    def start(self, image_condition: ImageCondition) -> ImageState:
        class_embedding = self.classes(image_condition.labels)
        cross_kv: tuple[KV, ...] = ()
        if self.encoder is not None:
            encoded = self.encoder(image_condition.low_res)
            cross_kv = tuple(layer.project_kv(encoded, NO_MASK) for layer in self._blocks())
        position_features = self.embedding.position_features().expand(len(class_embedding), -1, -1)
        if self.enlarged is not None:
            position_features = position_features + self.enlarged(image_condition.low_res)
        patches = position_features[..., :0]
        if self._prediction is not None:
            patches = self._prediction.patches(image_condition.low_res)
        past = tuple(self._empty_past(layer.empty_cache(class_embedding)) for layer in self._blocks())
        generated = image_condition.labels.new_zeros(len(class_embedding), 0, dtype=torch.int16)
        encoded_condition = EncodedCondition(class_embedding, position_features, cross_kv, patches)
        return ImageState(past, 0, generated, Shared(encoded_condition))

    def features(self, tokens: Tensor, state: ImageState) -> tuple[Tensor, ImageState]:
        class_embedding, position_features, cross_kv, patches = state.condition.value
        count, new_levels = tokens.shape[1], tokens[:, 1:] if state.position == 0 else tokens
        generated = torch.cat([state.generated, new_levels.flatten(1).to(state.generated.dtype)], dim=1)
        x = self.embedding(tokens, state.position) + repeat_per_hypothesis(class_embedding, len(tokens))[:, None]
        x = x + repeat_per_hypothesis(position_features, len(tokens))[:, state.position : state.position + count]
        if self.surroundings is not None:
            x = x + self.surroundings(generated, state.position, count)
        x, past = self.dropout(x), []
        for index, (layer, layer_past) in enumerate(zip(self.layers, state.past, strict=True)):
            x, cache = layer(x, Mask.causal(), past=layer_past, source=cross_kv[index] if cross_kv else None)
            past.append(cache)
        x = self.last(x)
        if self._prediction is not None:
            patches = repeat_per_hypothesis(patches, len(tokens))[:, state.position : state.position + count]
            x = torch.cat([x.float(), self._prediction(generated, state.position, count, patches)], dim=-1)
        return x, ImageState(tuple(past), state.position + count, generated, state.condition)

    def fit_initial(self, images: Tensor, image_condition: ImageCondition) -> None:
        """Fit the linear prediction to the levels of images (b n) in raster order; nothing for other outputs."""
        if self._prediction is not None:
            self._prediction.fit(images, self.order, image_condition.low_res)

    def forward(self, tokens: Tensor, state: ImageState) -> tuple[Tensor, ImageState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state  # (b t levels)

    def _empty_past(self, empty: KV) -> KV | ImageKVCache:
        return empty if self.layout is None else ImageKVCache.empty(self.layout, empty)

    def _blocks(self) -> Iterable[Block]:
        return cast("Iterable[Block]", self.layers)


def build(config: Config, sizes: ImageGenerationSpec) -> ImageTransformer:
    """Return a model for the given settings and data spec."""
    channels_per_position = sizes.channels if config.position_unit == "pixel" else 1
    layout = _layout(config, sizes, per_pixel=sizes.channels // channels_per_position)
    num_positions = sizes.height * sizes.width * sizes.channels // channels_per_position
    pixel_positions = PixelPositions.from_order(
        torch.arange(num_positions) if layout is None else layout.raster_indices(),
        sizes,
        channels_per_position=channels_per_position,
    )
    has_low_res = sizes.low_res_size != (0, 0)
    encoder = _encoder(config, sizes) if has_low_res else None
    layers = [_layer(config, layout, cross=_cross(config) if has_low_res else None) for _ in range(config.layers)]
    embeddings = _embeddings(config, sizes, pixel_positions, has_low_res=has_low_res)
    readout = _readout(config, sizes, pixel_positions)
    order = GenerationOrder(pixel_positions.raster_indices(sizes), layout)
    return ImageTransformer(embeddings, layers, order=order, encoder=encoder, readout=readout)


def _layout(config: Config, sizes: ImageGenerationSpec, *, per_pixel: int) -> Layout | None:
    if config.attention == "full":
        return None
    if config.attention == "local_1d":
        query, memory = config.block_1d
        return image_blocks_1d(sizes.height * sizes.width * per_pixel, query=query, memory=memory)
    return image_blocks_2d(
        sizes.height, sizes.width, query=config.query_block, memory=config.memory_block, channels=per_pixel
    )


def _embeddings(
    config: Config, sizes: ImageGenerationSpec, pixel_positions: PixelPositions, *, has_low_res: bool
) -> InputEmbeddings:
    dim, radius = config.dim, config.neighbourhood
    position = Position2D(config.coordinates, dim, height=sizes.height, width=sizes.width)
    embedding = PixelEmbedding(dim, position, pixel_positions, levels=sizes.levels)
    classes = nn.Embedding(sizes.num_classes + 1, dim)
    nn.init.normal_(classes.weight, std=0.3)
    neighbours = NeighbourPixels(dim, pixel_positions, sizes=sizes, radius=radius) if radius else None
    upsampled = UpsampledCondition(dim, pixel_positions, sizes=sizes, radius=radius) if has_low_res else None
    return InputEmbeddings(embedding, classes, neighbours, upsampled, config.dropout)


def _readout(config: Config, sizes: ImageGenerationSpec, positions: PixelPositions) -> LevelReadout:
    channels = positions.channels_per_position
    if config.output == "categorical":
        return Categorical(config.dim, levels=sizes.levels, channels=channels)
    if config.output == "logistic":
        return LogisticMixture(config.dim, levels=sizes.levels, channels=channels, mixtures=config.mixtures)
    if channels < sizes.channels:
        raise ConfigError("model.output='residual': predicts all channels of a pixel; set model.position_unit='pixel'")
    prediction = LinearPrediction(positions, sizes=sizes, radius=config.neighbourhood)
    return ResidualMixture(
        config.dim, levels=sizes.levels, channels=channels, prediction=prediction, mixtures=config.mixtures
    )


def _encoder(config: Config, sizes: ImageGenerationSpec) -> Encoder:
    level_embedding = nn.Embedding(sizes.channels * sizes.levels, config.dim)
    position = Position2D(config.coordinates, config.dim, height=sizes.low_res_size[0], width=sizes.low_res_size[1])
    layers = [_layer(config, None, axis="small image") for _ in range(config.encoder_layers)]
    return Encoder(level_embedding, position, layers=layers, channels=sizes.channels)


def _layer(
    config: Config, layout: Layout | None, *, cross: MultiHeadAttention | None = None, axis: str = "image"
) -> Block:
    dims = HeadDims.split_evenly(config.dim, config.heads)
    attend = Attend(scores.build(config.score, dims.head_dim), queries=axis, keys=axis)
    attention = (
        MultiHeadAttention(attend, dims) if layout is None else ImageMultiHeadAttention(attend, dims, layout=layout)
    )
    feedforward = FeedForward(config.dim, config.ffn_dim or 4 * config.dim, activation=gelu)
    return Block(attention, feedforward, make_norm=partial(PreNorm, config.dim, config.dropout), cross_attention=cross)


def _cross(config: Config) -> MultiHeadAttention:
    dims = HeadDims.split_evenly(config.dim, config.heads)
    return MultiHeadAttention(
        Attend(scores.build(config.score, dims.head_dim), queries="image", keys="small image"), dims
    )
