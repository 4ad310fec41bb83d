"""The Music Transformer: Huang et al. 2019. Reads with layers/positions/_relative_pitch.py and layers/positions/relative.py.

    y -> [causal self-attention with relative places, feed-forward] × layers -> logits

There is no encoder. The source of a piece is its conditions (composer, key, mode …): class numbers whose embeddings
are added to every input. On the grid encoding a place also says which voice and which step of the bar comes next.
Where some tokens of a piece are given beforehand, a few further layers read them (models/_lookahead_encoder.py).
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
from regard.models._lookahead_encoder import LookaheadEncoder, gather_positions

DEFAULT_MAX_DISTANCE = 256  # told apart where the length of a training example is not known
NUM_REST_TOKENS = 1  # tokens of the grid behind the marks: one for a rest, then the pitches from low to high


@dataclass(frozen=True)
class Config:
    """Sections 3.4 and 4.1; the defaults suit the chorales and a small machine."""

    layers: int = 3  # blocks, one upon the other
    dim: int = 128  # width of the features
    ffn_dim: int = 512  # width inside the feed-forward network
    heads: int = 4  # of each attention; they share the width
    dropout: float = 0.1  # of what each part of a block adds, and of the embedding
    attention_dropout: float = 0.0  # of attention weights; slow on a CPU
    norm: Literal["pre", "post"] = "pre"  # before each part of a block, or behind it as in the paper
    position: str = "relative"  # how places are told: see regard list positions
    max_distance: int | None = (
        None  # distances that relative positions tell apart; those beyond share one; none: half a crop
    )
    voices: int | None = None  # tokens of a time step, told with the beat; none: as the encoding has them; 0: not told
    bar: int | None = None  # time steps of a bar that are told apart; none: as the encoding has them
    intervals: bool = False  # relative pitch and time as well, on the grid
    lookahead_layers: int = (
        2  # layers that read what is given of a piece beforehand, where the data has such (data.visible_prob)
    )

    def __post_init__(self) -> None:
        given = [number for number in (self.max_distance, self.bar) if number is not None]
        if min(self.layers, self.dim, self.ffn_dim, self.heads, self.lookahead_layers, *given) < 1:
            raise ConfigError("layers, dim, hidden, heads, reach, bar and sight must be at least 1")
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )
        if self.voices is not None and self.voices < 0:
            raise ConfigError(f"voices={self.voices} must be the voices of the grid, or 0 for another encoding")
        if self.intervals and self.voices == 0:
            raise ConfigError(
                "intervals=true needs the grid: without voices=… a place has no pitch and time of its own"
            )
        for name in ("dropout", "attention_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} is not a probability below 1")


PRESETS = {"small": Config(layers=2, dim=64, ffn_dim=128, heads=4)}
TINY = Config(
    layers=2, dim=16, ffn_dim=32, heads=2, dropout=0.1, max_distance=5, voices=4, bar=2, intervals=True
)  # for tests


class BeatEmbedding(nn.Module):
    """(b t d) -> the same with the voice and the step of the bar that come next, known from the place alone."""

    def __init__(self, dim: int, *, voices: int, bar: int) -> None:
        super().__init__()
        self.voice = nn.Embedding(voices, dim)
        self.step = nn.Embedding(bar, dim)

    def forward(self, x: Tensor, start: Tensor | int) -> Tensor:
        """`start` is the place of the first token, or of each row's own (b)."""
        places = torch.arange(x.shape[1], device=x.device) + (start[:, None] if isinstance(start, Tensor) else start)
        voices, bar = self.voice.num_embeddings, self.step.num_embeddings
        named: Tensor = self.voice(places % voices) + self.step(places // voices % bar)
        return x + named


class NoBeat(nn.Module):
    """(b t d) -> the same: the encoding has no grid."""

    def forward(self, x: Tensor, start: Tensor | int) -> Tensor:
        return x


class MusicState(NamedTuple):
    """The past of each layer, one row a hypothesis; the sum of the conditions' embeddings, one row a piece."""

    past: tuple[KV, ...]
    condition: Shared[Tensor]  # (b d)
    lookahead: Shared[Tensor]  # (b s d) what each place is told of what is given beforehand; (b 0 d): nothing is


class MusicTransformer(nn.Module):
    """The whole model, a `Decoder` in the sense of core.protocols."""

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
        self.first_pitch = first_pitch  # the token of the lowest note, where intervals between notes matter
        self.sight = lookahead

    def start(self, source: Padded | MusicCondition) -> MusicState:
        """Conditions (b s), any number of class tokens a piece, and what is given of it -> the state before its first
        token."""
        condition = self.conditions(source.tokens).sum(dim=1)  # (b d): padding is zero
        past = tuple(layer.empty_cache(condition) for layer in cast("Iterable[Block]", self.layers))
        seen = condition.new_zeros(len(condition), 0, condition.shape[1])
        if isinstance(source, MusicCondition) and self.sight is not None:
            seen = self.sight(source.fixed_tokens)
        return MusicState(past, Shared(condition), Shared(seen))

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
        for layer, before in zip(self.layers, state.past, strict=True):
            x, memory = layer(x, CAUSAL, past=before, beside=notes)
            past.append(memory)
        return self.last(x), state._replace(past=tuple(past))

    def forward(self, tokens: Tensor, state: MusicState) -> tuple[Tensor, MusicState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state  # (b t v)

    def for_decoding(self, precision: Precision = "float32") -> MusicTransformer:
        """An equal model, faster at decoding on a CPU, with the weights of now; itself where nothing would be won."""
        return optimize_for_decoding(self, precision)

    def _notes(self, tokens: Tensor) -> Tensor | None:
        """(b t) -> (b t 1): the number of each note from 1 on, 0 for marks and rests."""
        return None if self.first_pitch is None else (tokens - self.first_pitch + 1).clamp(min=0)[..., None]


def build(config: Config, sizes: MusicSpec) -> MusicTransformer:
    """The only function of this file that sees both the choices and what the data decided."""
    pad = sizes.special_tokens.pad
    first_pitch = sizes.special_tokens.first_regular_id + NUM_REST_TOKENS
    config = resolve_config(config, sizes)
    longest = (
        min(cast("int", config.max_distance), sizes.max_length) if config.position == "relative" else sizes.max_length
    )
    position = positions.build(config.position, config.dim, max_length=longest)
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
        lookahead=_sight(config, sizes, beat=beat) if sizes.has_fixed_tokens else None,
    )


def _sight(config: Config, sizes: MusicSpec, *, beat: nn.Module) -> LookaheadEncoder:
    """Layers that look in both directions, by distance; where voices and beats are told, they are the same."""
    widths = HeadDims.split_evenly(config.dim, config.heads)
    around = partial(NORMS[config.norm], config.dim, config.dropout)
    layers = []
    for _ in range(config.lookahead_layers):
        place = Relative(widths.num_heads, widths.head_dim, max_distance=cast("int", config.max_distance))
        attend = Attend(scores.build("scaled_dot", widths.head_dim), position_bias=place, queries="given", keys="given")
        layers.append(
            Block(MultiHeadAttention(attend, widths), FeedForward(config.dim, config.ffn_dim), make_norm=around)
        )
    tokens = WordVectors(
        sizes.vocab_size, config.dim, pad=sizes.special_tokens.pad
    )  # as large as what is said of the places
    return LookaheadEncoder(tokens, beat=beat, layers=layers, final_norm=NORMS[config.norm].final_norm(config.dim))


def resolve_config(config: Config, sizes: MusicSpec) -> Config:
    """The choices that follow the data, unless they were made: what the encoding has, and half a training example.

    Distances beyond the reach share a vector. With a reach of half an example that vector is trained, and serves for
    every distance beyond; with a reach of a whole one it would first be met in a piece that is longer.
    """
    if sizes.voices is not None and config.voices not in (None, 0, sizes.voices):
        has = f"has {sizes.voices} voices" if sizes.voices else "has no voices and no beat"
        raise ConfigError(f"voices={config.voices}: the encoding {has}; leave model.voices out")
    voices = (sizes.voices or 0) if config.voices is None else config.voices
    if config.intervals and not voices:
        raise ConfigError(
            "intervals=true: the encoding has no voices and steps; use data.encoding=grid or leave it out"
        )
    half = DEFAULT_MAX_DISTANCE if sizes.crop_length is None else max(1, sizes.crop_length // 2)
    if (
        config.max_distance is not None
        and sizes.crop_length is not None
        and config.max_distance > half
        and _tells_distances(config)
    ):
        raise ConfigError(
            f"max_distance={config.max_distance} is more than half of data.crop={sizes.crop_length}: the vector of all distances beyond it "
            f"would not be trained; set max_distance={half} or less, or leave it out"
        )
    return replace(config, voices=voices, max_distance=config.max_distance or half)


def _tells_distances(config: Config) -> bool:
    return config.position == "relative" or config.intervals


def _layer(config: Config, position: PositionScheme, *, pitches: int) -> Block:
    widths = HeadDims.split_evenly(config.dim, config.heads)
    place: PositionBias = position.causal_position_bias(heads=widths.num_heads, dim=widths.head_dim) or NoPositionBias()
    if config.intervals and config.max_distance and config.voices:
        steps = -(-config.max_distance // config.voices)
        place = RelativePitchTime(
            place, widths.num_heads, widths.head_dim, pitches=pitches, voices=config.voices, max_distance=steps
        )
    score = scores.build("scaled_dot", widths.head_dim)
    attend = Attend(score, position_bias=place, dropout=config.attention_dropout, queries="target", keys="target")
    around = partial(NORMS[config.norm], config.dim, config.dropout)
    return Block(MultiHeadAttention(attend, widths), FeedForward(config.dim, config.ffn_dim), make_norm=around)
