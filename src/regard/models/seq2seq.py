"""Encoder-decoder with a fixed context vector, no attention: Cho et al. 2014, Sutskever et al. 2014.

encoder: x -> RNN -> c, its last state          decoder: [y, c] -> RNN that starts from c -> logits
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.core.data_specs import Seq2SeqSpec
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.core.state_tree import Shared
from regard.layers.dropout import Dropout
from regard.layers.embedding import WordVectors
from regard.layers.linear import glorot_linear
from regard.layers.readout import Readout
from regard.layers.recurrent import Recurrent, RecurrentEncoder, RNNState, repeat_per_hypothesis


@dataclass(frozen=True)
class Config:
    """Cho et al. 2014, section 2.2; Sutskever et al. 2014, section 2."""

    cell: Literal["rnn", "lstm", "gru"] = "gru"  # kind of recurrent cell
    dim: int = 512  # width of the recurrent states
    embedding: int = 256  # width of the word vectors
    embedding_scale: float = 0.0  # by which word vectors are multiplied as they are read; 0: √embedding
    layers: int = 1  # recurrent layers, one upon the other
    dropout: float = 0.3  # of word vectors, between layers and of features
    context: Literal["start", "every"] = "every"  # Sutskever: the decoder's first state alone; Cho: at every step too
    order: Literal["forward", "reversed"] = "forward"  # Sutskever, section 3.3: the source read backwards

    def __post_init__(self) -> None:
        if min(self.dim, self.embedding, self.layers) < 1:
            raise ConfigError("dim, embedding and layers must be at least 1")


PRESETS = {"small": Config(dim=128, embedding=64, dropout=0.2)}
TINY = Config(dim=16, embedding=8, layers=2, dropout=0.1)  # for tests


class Seq2SeqState(NamedTuple):
    """What the decoder remembers, one row a hypothesis; the context vector, one row a sentence."""

    rnn_state: RNNState
    context: Shared[Tensor]  # (b d)


class Seq2Seq(nn.Module):
    """The whole model, a `Decoder` in the sense of core.protocols."""

    def __init__(self, config: Config, sizes: Seq2SeqSpec) -> None:
        super().__init__()
        self.backwards = config.order == "reversed"
        self.every = config.context == "every"
        self.source = WordVectors(
            sizes.source_vocab_size, config.embedding, pad=sizes.special_tokens.pad, scale=config.embedding_scale
        )
        self.target = WordVectors(
            sizes.target_vocab_size, config.embedding, pad=sizes.special_tokens.pad, scale=config.embedding_scale
        )
        shape = {"layers": config.layers, "dropout": config.dropout}
        self.encoder = RecurrentEncoder(config.cell, config.embedding, config.dim, **shape)  # type: ignore[arg-type]  # int and float by name
        width = config.dim if self.every else 0
        self.decoder = Recurrent(config.cell, config.embedding + width, config.dim, **shape)  # type: ignore[arg-type]  # int and float by name
        self.join = glorot_linear(config.dim + width + config.embedding, config.embedding)
        self.readout = Readout(config.embedding, sizes.target_vocab_size)
        self.readout.weight = self.target.weight
        self.dropout = Dropout(config.dropout)

    def start(self, source: Padded) -> Seq2SeqState:
        tokens = reverse_source(source) if self.backwards else source.tokens
        _, memory = self.encoder(self.dropout(self.source(tokens)), source.lengths)
        return Seq2SeqState(memory, Shared(memory.hidden[:, -1]))  # c: the top layer's last state

    def features(self, tokens: Tensor, state: Seq2SeqState) -> tuple[Tensor, Seq2SeqState]:
        words = self.dropout(self.target(tokens))  # (b t e)
        context = repeat_per_hypothesis(state.context.value, tokens.shape[0])[:, None].expand(-1, tokens.shape[1], -1)
        context = context if self.every else context[..., :0]
        hidden, memory = self.decoder(torch.cat([words, context], dim=-1), state.rnn_state)
        joined = torch.tanh(self.join(torch.cat([self.dropout(hidden), context, words], dim=-1)))
        return self.dropout(joined), state._replace(rnn_state=memory)

    def forward(self, tokens: Tensor, state: Seq2SeqState) -> tuple[Tensor, Seq2SeqState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state  # (b t v)


def reverse_source(source: Padded) -> Tensor:
    """(b s) tokens with the true part of each row read backwards, padding left where it is."""
    places = torch.arange(source.tokens.shape[1], device=source.tokens.device)
    mirrored = source.lengths[:, None] - 1 - places
    return source.tokens.gather(1, torch.where(mirrored >= 0, mirrored, places))


def build(config: Config, sizes: Seq2SeqSpec) -> Seq2Seq:
    """Choices and what the data decided -> a model."""
    return Seq2Seq(config, sizes)
