"""Encoder-decoder with a fixed context vector, without attention: Cho et al. 2014, Sutskever et al. 2014.

encoder: x -> RNN -> c, its last state          decoder: [y, c] -> RNN with initial state c -> logits
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.core.config import check_fields
from regard.core.data_specs import Seq2SeqSpec
from regard.core.protocols import Padded
from regard.core.state_tree import Shared
from regard.layers.dropout import Dropout
from regard.layers.embedding import WordVectors
from regard.layers.linear import glorot_linear
from regard.layers.readout import Readout
from regard.layers.recurrent import Recurrent, RecurrentEncoder, RNNState, repeat_per_hypothesis


@dataclass(frozen=True)
class Config:
    """Settings; Cho et al. 2014, section 2.2; Sutskever et al. 2014, section 2."""

    cell: Literal["rnn", "lstm", "gru"] = "gru"  # type of the recurrent cell
    dim: int = 512  # width of the recurrent states
    embedding: int = 256  # width of the word vectors
    embedding_scale: float = 0.0  # factor of the word vectors; 0: √embedding
    layers: int = 1  # number of recurrent layers
    dropout: float = 0.3  # dropout of word vectors, between layers and of features
    context: Literal["start", "every"] = "every"  # Sutskever: only as initial state; Cho: also as input at every step
    order: Literal["forward", "reversed"] = "forward"  # Sutskever, section 3.3: reversed source

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("dim", "embedding", "layers"))


PRESETS = {"small": Config(dim=128, embedding=64, dropout=0.2)}
AUTO_PRESETS = {0: "small", 50_000: ""}  # least number of examples -> model.preset=auto; "": the defaults
TINY = Config(dim=16, embedding=8, layers=2, dropout=0.1)  # for tests


class Seq2SeqState(NamedTuple):
    """The decoder's RNN state, one row per hypothesis; the context vector, one row per sentence."""

    rnn_state: RNNState
    context: Shared[Tensor]  # (b d)


class Seq2Seq(nn.Module):
    """The complete model, a `Decoder` in the sense of core.protocols."""

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
        shape = {"num_layers": config.layers, "dropout": config.dropout}
        self.encoder = RecurrentEncoder(config.cell, config.embedding, config.dim, **shape)  # type: ignore[arg-type]  # mixed int and float values
        context_dim = config.dim if self.every else 0
        self.decoder = Recurrent(config.cell, config.embedding + context_dim, config.dim, **shape)  # type: ignore[arg-type]  # mixed int and float values
        self.join = glorot_linear(config.dim + context_dim + config.embedding, config.embedding)
        self.readout = Readout(config.embedding, sizes.target_vocab_size)
        self.readout.weight = self.target.weight
        self.dropout = Dropout(config.dropout)

    def start(self, source: Padded) -> Seq2SeqState:
        tokens = reverse_source(source) if self.backwards else source.tokens
        _, rnn_state = self.encoder(self.dropout(self.source(tokens)), source.lengths)
        return Seq2SeqState(rnn_state, Shared(rnn_state.hidden[:, -1]))  # c: the top layer's last state

    def features(self, tokens: Tensor, state: Seq2SeqState) -> tuple[Tensor, Seq2SeqState]:
        words = self.dropout(self.target(tokens))  # (b t e)
        context = repeat_per_hypothesis(state.context.value, tokens.shape[0])[:, None].expand(-1, tokens.shape[1], -1)
        context = context if self.every else context[..., :0]
        hidden, rnn_state = self.decoder(torch.cat([words, context], dim=-1), state.rnn_state)
        output = torch.tanh(self.join(torch.cat([self.dropout(hidden), context, words], dim=-1)))
        return self.dropout(output), state._replace(rnn_state=rnn_state)

    def forward(self, tokens: Tensor, state: Seq2SeqState) -> tuple[Tensor, Seq2SeqState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state  # (b t v)


def reverse_source(source: Padded) -> Tensor:
    """(b s) tokens with the non-padding part of each row reversed."""
    positions = torch.arange(source.tokens.shape[1], device=source.tokens.device)
    mirrored = source.lengths[:, None] - 1 - positions
    return source.tokens.gather(1, torch.where(mirrored >= 0, mirrored, positions))


def build(config: Config, sizes: Seq2SeqSpec) -> Seq2Seq:
    """Return a model for the given settings and data spec."""
    return Seq2Seq(config, sizes)
