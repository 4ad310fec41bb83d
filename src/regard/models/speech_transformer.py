"""Transformer for speech: Dong et al. 2018. See also models/transformer.py and layers/block.py.

encoder: frames -> two convolutions of stride 2 over time and bands -> positions -> Transformer blocks
decoder: that of the Transformer, with attention over the states of the encoder
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.attention.weigh import PositionBias
from regard.core.config import check_fields
from regard.core.data_specs import SpeechSpec
from regard.core.errors import ConfigError
from regard.core.protocols.speech import SpeechBatch, SpeechFrames
from regard.layers import positions
from regard.layers.block import Block
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding, embedding_table
from regard.layers.feedforward import FeedForward
from regard.layers.fuse_for_decoding import optimize_for_decoding
from regard.layers.linear import Precision
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.norm import PreNorm
from regard.layers.positions._base import PositionScheme
from regard.layers.readout import Readout
from regard.models._transcript_loss import transcript_loss
from regard.models.transformer import DecoderStack, TransformerState

STRIDE = 2  # of each convolution
CONVOLUTIONS = 2


@dataclass(frozen=True)
class Config:
    """Section 3."""

    layers: int = 6  # blocks of the encoder
    decoder_layers: int = 3  # blocks of the decoder
    dim: int = 256  # width of the features
    ffn_dim: int = 1024  # hidden width of the feed-forward network
    heads: int = 4  # attention heads; they share the width
    channels: int = 32  # channels of the convolutions
    dropout: float = 0.1  # dropout of the output of each sublayer, and of the embeddings
    position: str = "sinusoidal"  # position encoding: see regard list positions
    score: str = "scaled_dot"  # attention score: see regard list scores

    def __post_init__(self) -> None:
        check_fields(
            self,
            at_least_1=("layers", "decoder_layers", "dim", "ffn_dim", "heads", "channels"),
            probability=("dropout",),
        )
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )


PRESETS = {"small": Config(layers=3, decoder_layers=2, dim=128, ffn_dim=256, channels=16)}  # for the built-in digits
TINY = Config(layers=1, decoder_layers=1, dim=16, ffn_dim=32, heads=2, channels=4, dropout=0.1)  # for tests


class ConvolutionFrontEnd(nn.Module):
    """Frames (b t m) and lengths -> states (b ⌈t/4⌉ d) and their lengths."""

    def __init__(self, num_bands: int, channels: int, dim: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Conv2d(1 if index == 0 else channels, channels, 3, stride=STRIDE, padding=1)
            for index in range(CONVOLUTIONS)
        )
        bands = num_bands
        for _ in range(CONVOLUTIONS):
            bands = -(-bands // STRIDE)
        self.out = nn.Linear(channels * bands, dim)

    def forward(self, frames: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        x = frames[:, None]  # (b c t m)
        for convolution in self.convolutions:
            lengths = (lengths + STRIDE - 1) // STRIDE
            x = relu(convolution(x))
            in_length = torch.arange(x.shape[2], device=x.device) < lengths[:, None]
            x = x * in_length[:, None, :, None]  # padding stays zero, as outside of the batch
        states: Tensor = self.out(x.transpose(1, 2).flatten(2))
        return states, lengths


class SpeechTransformer(nn.Module):
    """The complete model, a `SpeechModel` in the sense of core.protocols.speech."""

    reduction = STRIDE**CONVOLUTIONS

    def __init__(
        self,
        front_end: ConvolutionFrontEnd,
        position: PositionScheme,
        layers: list[Block],
        *,
        decoder: DecoderStack,
        readout: Readout,
        dropout: float,
    ) -> None:
        super().__init__()
        self.front_end, self.position, self.layers = front_end, position, nn.ModuleList(layers)
        self.last, self.dropout = PreNorm.final_norm(position.dim), Dropout(dropout)
        self.decoder, self.readout = decoder, readout

    def start(self, source: SpeechFrames) -> TransformerState:
        states, lengths = self.front_end(source.frames, source.lengths)
        mask = Mask.lengths(lengths, states.shape[1])
        x = self.dropout(self.position(states))
        for layer in self.layers:
            x, _ = layer(x, mask)
        return self.decoder.start(self.last(x), mask)

    def features(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        x, state = self.decoder(tokens, state)
        return x, state

    def forward(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state  # (r t v)

    def loss(self, batch: SpeechBatch, *, pad: int, smoothing: float = 0.0) -> Tensor:
        """Return the cross entropy of the transcripts, summed over their tokens."""
        return transcript_loss(self, batch, pad=pad, smoothing=smoothing)

    def for_decoding(self, precision: Precision = "float32") -> SpeechTransformer:
        """Return an equivalent model for faster decoding on a CPU, a snapshot of the current weights; the model itself
        if it cannot be optimized."""
        return optimize_for_decoding(self, precision)


def build(config: Config, sizes: SpeechSpec) -> SpeechTransformer:
    """Return a model for the given settings and data spec."""
    max_states = -(-sizes.max_frames // SpeechTransformer.reduction)
    position = positions.build(config.position, config.dim, max_length=max_states)
    words = embedding_table(sizes.vocab_size, config.dim, pad=sizes.special_tokens.pad)
    embedding = Embedding(
        words, positions.build(config.position, config.dim, max_length=sizes.max_length), dropout=config.dropout
    )
    encoder = [_block(config, position.position_bias, queries="frames", keys="frames") for _ in range(config.layers)]
    make_bias = embedding.position.causal_position_bias
    decoder = [_block(config, make_bias, queries="target", keys="read", source="frames")
               for _ in range(config.decoder_layers)]  # fmt: skip
    readout = Readout(config.dim, sizes.vocab_size, bias=False)
    readout.weight = words.weight
    return SpeechTransformer(
        ConvolutionFrontEnd(sizes.num_bands, config.channels, config.dim),
        position,
        encoder,
        decoder=DecoderStack(embedding, decoder, PreNorm.final_norm(config.dim)),
        readout=readout,
        dropout=config.dropout,
    )


def _block(
    config: Config, make_bias: Callable[..., PositionBias | None], *, queries: str, keys: str, source: str = ""
) -> Block:
    """Return a block with self-attention, and with cross-attention over `source` if it is named."""
    return Block(
        _attention(config, make_bias, queries=queries, keys=keys),
        FeedForward(config.dim, config.ffn_dim),
        make_norm=partial(PreNorm, config.dim, config.dropout),
        cross_attention=_attention(config, None, queries=queries, keys=source) if source else None,
    )


def _attention(
    config: Config, make_bias: Callable[..., PositionBias | None] | None, *, queries: str, keys: str
) -> MultiHeadAttention:
    dims = HeadDims.split_evenly(config.dim, config.heads)
    bias = None if make_bias is None else make_bias(heads=dims.num_heads, dim=dims.head_dim)
    attend = Attend(scores.build(config.score, dims.head_dim), position_bias=bias, queries=queries, keys=keys)
    return MultiHeadAttention(attend, dims)
