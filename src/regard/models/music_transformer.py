"""The Music Transformer: Huang et al. 2019.

    y -> [causal self-attention with relative positions, feed-forward] × layers -> logits

There is no encoder. The source of a piece are its conditions (composer, key, mode …): class ids whose embeddings are
added to every input. In the grid encoding every position also gets the embedding of the next voice and of the next step
in the bar. If tokens of a piece are fixed in advance, further layers encode them (models/_lookahead_encoder.py). See
also layers/positions/_relative_pitch.py and layers/positions/relative.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import CAUSAL
from regard.attention.weigh import NoPositionBias, PositionBias
from regard.core.config import check_fields
from regard.core.data_specs import MusicSpec
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.core.protocols.music import MusicCondition
from regard.core.state_tree import Shared
from regard.layers import positions
from regard.layers.block import Block
from regard.layers.embedding import Embedding, WordVectors, embedding_table
from regard.layers.feedforward import FeedForward
from regard.layers.fuse_for_decoding import optimize_for_decoding
from regard.layers.kv_cache import KV
from regard.layers.linear import Precision
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.norm import NORMS
from regard.layers.positions._base import PositionScheme
from regard.layers.positions._relative_pitch import RelativePitchTime
from regard.layers.positions.relative import Relative
from regard.layers.readout import Readout
from regard.layers.recurrent import repeat_per_hypothesis
from regard.models._lookahead_encoder import LookaheadEncoder, WindowEncoder, gather_positions

DEFAULT_MAX_DISTANCE = 256  # used if the length of training examples is unknown
NUM_REST_TOKENS = 1  # grid tokens after the special tokens: one rest, then the pitches in ascending order


@dataclass(frozen=True)
class Config:
    """Sections 3.4 and 4.1; the defaults suit the chorales and a small machine."""

    layers: int = 3  # number of blocks
    dim: int = 128  # width of the features
    ffn_dim: int = 512  # hidden width of the feed-forward network
    heads: int = 4  # attention heads; they share the width
    dropout: float = 0.1  # dropout of the output of each sublayer, and of the embedding
    attention_dropout: float = 0.0  # dropout of attention weights; slow on a CPU
    norm: Literal["pre", "post"] = "pre"  # layer norm before each sublayer, or after it as in the paper
    position: str = "relative"  # position encoding: see regard list positions
    max_distance: int | None = None  # distances with separate vectors; larger ones share one; none: half a crop
    voices: int | None = None  # tokens per time step, embedded with the beat; none: as in the encoding; 0: not embedded
    bar: int | None = None  # time steps per bar; none: as in the encoding
    intervals: bool = False  # add relative pitch and time, for the grid encoding
    lookahead_layers: int = 2  # layers that encode fixed tokens, if the data has such (data.visible_prob)
    lookahead_window: tuple[int, int] = (
        0,
        0,
    )  # steps before and after whose fixed tokens are read directly; 0, 0: none

    def __post_init__(self) -> None:
        check_fields(
            self,
            at_least_1=("layers", "dim", "ffn_dim", "heads", "lookahead_layers", "max_distance", "bar"),
            at_least_0=("voices",),
            probability=("dropout", "attention_dropout"),
        )
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )
        if min(self.lookahead_window) < 0:
            raise ConfigError(f"lookahead_window={list(self.lookahead_window)} must be at least 0")
        if max(self.lookahead_window) and self.voices == 0:
            raise ConfigError("lookahead_window needs the grid encoding: with voices=0 a position has no step")
        if self.intervals and self.voices == 0:
            raise ConfigError("intervals=true needs the grid encoding: with voices=0 a position has no pitch and time")


PRESETS = {"small": Config(layers=2, dim=64, ffn_dim=128, heads=4)}
TINY = Config(
    layers=2, dim=16, ffn_dim=32, heads=2, dropout=0.1, max_distance=5, voices=4, bar=2, intervals=True
)  # for tests


class BeatEmbedding(nn.Module):
    """(b t d) -> the same plus embeddings of the next voice and step in the bar, which follow from the position."""

    def __init__(self, dim: int, *, voices: int, bar: int) -> None:
        super().__init__()
        self.voice = nn.Embedding(voices, dim)
        self.step = nn.Embedding(bar, dim)

    def forward(self, x: Tensor, start: Tensor | int) -> Tensor:
        """`start`: position of the first token, or one per row (b)."""
        positions = torch.arange(x.shape[1], device=x.device) + (start[:, None] if isinstance(start, Tensor) else start)
        voices, bar = self.voice.num_embeddings, self.step.num_embeddings
        embedded: Tensor = self.voice(positions % voices) + self.step(positions // voices % bar)
        return x + embedded


class NoBeat(nn.Module):
    """(b t d) -> the same, for encodings without a grid."""

    def forward(self, x: Tensor, start: Tensor | int) -> Tensor:
        return x


class MusicState(NamedTuple):
    """KV cache of each layer, one row per hypothesis; the sum of the condition embeddings, one row per piece."""

    past: tuple[KV, ...]
    condition: Shared[Tensor]  # (b d)
    lookahead: Shared[Tensor]  # (b s d) features of the fixed tokens at each position; (b 0 d): none


class MusicTransformer(nn.Module):
    """The complete model, a `Decoder` in the sense of core.protocols."""

    def __init__(
        self,
        embedding: Embedding,
        conditions: nn.Embedding,
        *,
        beat: nn.Module,
        layers: list[Block],
        final_norm: nn.Module,
        readout: Readout,
        first_pitch: int | None,
        lookahead: LookaheadEncoder | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.conditions, self.beat = embedding, conditions, beat
        self.layers = nn.ModuleList(layers)
        self.last, self.readout = final_norm, readout
        self.first_pitch = first_pitch  # token id of the lowest note, if intervals are used
        self.sight = lookahead

    def start(self, source: Padded | MusicCondition) -> MusicState:
        """Conditions (b s), any number of class ids per piece, and fixed tokens -> the state before the first token."""
        condition = self.conditions(source.tokens).sum(dim=1)  # (b d): padding is zero
        past = tuple(layer.empty_cache(condition) for layer in cast("Iterable[Block]", self.layers))
        lookahead = condition.new_zeros(len(condition), 0, condition.shape[1])
        if isinstance(source, MusicCondition) and self.sight is not None:
            lookahead = self.sight(source.fixed_tokens)
        return MusicState(past, Shared(condition), Shared(lookahead))

    def features(self, tokens: Tensor, state: MusicState) -> tuple[Tensor, MusicState]:
        start = state.past[0].position
        x = self.beat(self.embedding(tokens, start), start)
        x = x + repeat_per_hypothesis(state.condition.value, tokens.shape[0])[:, None]
        if state.lookahead.value.shape[1]:
            x = x + gather_positions(
                repeat_per_hypothesis(state.lookahead.value, tokens.shape[0]), start, tokens.shape[1]
            )
        notes = self._notes(tokens)
        past = []
        for layer, layer_past in zip(self.layers, state.past, strict=True):
            x, cache = layer(x, CAUSAL, past=layer_past, extra=notes)
            past.append(cache)
        return self.last(x), state._replace(past=tuple(past))

    def forward(self, tokens: Tensor, state: MusicState) -> tuple[Tensor, MusicState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state  # (b t v)

    def for_decoding(self, precision: Precision = "float32") -> MusicTransformer:
        """Return an equivalent model for faster decoding on a CPU, a snapshot of the current weights; the model itself
        if it cannot be optimized."""
        return optimize_for_decoding(self, precision)

    def _notes(self, tokens: Tensor) -> Tensor | None:
        """(b t) -> (b t 1): index of each note from 1 on, 0 for special tokens and rests."""
        return None if self.first_pitch is None else (tokens - self.first_pitch + 1).clamp(min=0)[..., None]


def build(config: Config, sizes: MusicSpec) -> MusicTransformer:
    """Return a model for the given settings and data spec."""
    pad = sizes.special_tokens.pad
    first_pitch = sizes.special_tokens.first_regular_id + NUM_REST_TOKENS
    config = resolve_config(config, sizes)
    max_length = (
        min(cast("int", config.max_distance), sizes.max_length) if config.position == "relative" else sizes.max_length
    )
    position = positions.build(config.position, config.dim, max_length=max_length)
    beat = (
        BeatEmbedding(config.dim, voices=config.voices, bar=config.bar or sizes.steps_per_bar)
        if config.voices
        else NoBeat()
    )
    pitches = max(1, sizes.vocab_size - first_pitch)
    readout = Readout(config.dim, sizes.vocab_size)
    nn.init.normal_(readout.weight, std=config.dim**-0.5)
    nn.init.zeros_(readout.bias)
    return MusicTransformer(
        Embedding(embedding_table(sizes.vocab_size, config.dim, pad=pad), position, dropout=config.dropout),
        embedding_table(sizes.num_conditions, config.dim, pad=pad),
        beat=beat,
        layers=[_layer(config, position, pitches=pitches) for _ in range(config.layers)],
        final_norm=NORMS[config.norm].final_norm(config.dim),
        readout=readout,
        first_pitch=first_pitch if config.intervals else None,
        lookahead=_lookahead(config, sizes, beat=beat) if sizes.has_fixed_tokens else None,
    )


def _lookahead(config: Config, sizes: MusicSpec, *, beat: nn.Module) -> LookaheadEncoder:
    """Return bidirectional layers with relative positions; the beat embedding is shared with the decoder."""
    dims = HeadDims.split_evenly(config.dim, config.heads)
    make_norm = partial(NORMS[config.norm], config.dim, config.dropout)
    layers = []
    for _ in range(config.lookahead_layers):
        position_bias = Relative(dims.num_heads, dims.head_dim, max_distance=cast("int", config.max_distance))
        attend = Attend(
            scores.build("scaled_dot", dims.head_dim), position_bias=position_bias, queries="given", keys="given"
        )
        layers.append(
            Block(MultiHeadAttention(attend, dims), FeedForward(config.dim, config.ffn_dim), make_norm=make_norm)
        )
    # Unit variance, like the beat embedding.
    tokens = WordVectors(sizes.vocab_size, config.dim, pad=sizes.special_tokens.pad)
    final_norm = NORMS[config.norm].final_norm(config.dim)
    window: WindowEncoder | None = None
    if max(config.lookahead_window) and config.voices:
        window = WindowEncoder(sizes.vocab_size, config.dim, voices=config.voices, window=config.lookahead_window)
    return LookaheadEncoder(tokens, beat=beat, layers=layers, final_norm=final_norm, window=window)


def resolve_config(config: Config, sizes: MusicSpec) -> Config:
    """Fill in settings that default to the data: the voices of the encoding, and half a training example.

    Distances beyond `max_distance` share a vector. If `max_distance` is half an example, that vector is trained and
    applies to all larger distances. With a whole example it would first be used in pieces longer than the training
    examples.
    """
    if sizes.voices is not None and config.voices not in (None, 0, sizes.voices):
        description = f"has {sizes.voices} voices" if sizes.voices else "has no voices and no beat"
        raise ConfigError(f"voices={config.voices}: the encoding {description}; leave model.voices out")
    voices = (sizes.voices or 0) if config.voices is None else config.voices
    if config.intervals and not voices:
        raise ConfigError(
            "intervals=true: the encoding has no voices and steps; use data.encoding=grid or leave it out"
        )
    half_crop = DEFAULT_MAX_DISTANCE if sizes.crop_length is None else max(1, sizes.crop_length // 2)
    if (
        config.max_distance is not None
        and sizes.crop_length is not None
        and config.max_distance > half_crop
        and _uses_distances(config)
    ):
        raise ConfigError(
            f"max_distance={config.max_distance} is more than half of the crop length {sizes.crop_length}: "
            f"the vector of all larger distances would not be trained; set max_distance={half_crop} or less"
        )
    return replace(config, voices=voices, max_distance=config.max_distance or half_crop)


def _uses_distances(config: Config) -> bool:
    return config.position == "relative" or config.intervals


def _layer(config: Config, position: PositionScheme, *, pitches: int) -> Block:
    dims = HeadDims.split_evenly(config.dim, config.heads)
    position_bias: PositionBias = (
        position.causal_position_bias(heads=dims.num_heads, dim=dims.head_dim) or NoPositionBias()
    )
    if config.intervals and config.max_distance and config.voices:
        steps = -(-config.max_distance // config.voices)
        position_bias = RelativePitchTime(
            position_bias, dims.num_heads, dims.head_dim, pitches=pitches, voices=config.voices, max_distance=steps
        )
    score = scores.build("scaled_dot", dims.head_dim)
    attend = Attend(
        score, position_bias=position_bias, dropout=config.attention_dropout, queries="target", keys="target"
    )
    make_norm = partial(NORMS[config.norm], config.dim, config.dropout)
    return Block(MultiHeadAttention(attend, dims), FeedForward(config.dim, config.ffn_dim), make_norm=make_norm)
