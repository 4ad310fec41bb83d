"""Listen, attend and spell: Chan et al. 2016. See also layers/pyramid_encoder.py and attention/scores/location.py.

    listener: frames -> BiLSTM -> pyramidal BiLSTM -> states h
    speller, step i: s(i) = LSTM([y(i-1), c(i-1)], s(i-1));  c(i) = Attend(query s(i), keys and values h);
                     logits from [s(i), c(i)]

With score = "location" the attention also depends on its weights at step i-1 (Chorowski et al. 2015).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.attention.previous_weights import PreviousWeights, StepAttention
from regard.core.config import check_fields
from regard.core.data_specs import SpeechSpec
from regard.core.protocols.speech import SpeechBatch, SpeechFrames
from regard.core.state_tree import Shared
from regard.layers.dropout import Dropout
from regard.layers.embedding import WordVectors
from regard.layers.kv_cache import KV
from regard.layers.linear import glorot_linear
from regard.layers.pyramid_encoder import PyramidEncoder
from regard.layers.readout import Readout
from regard.layers.recurrent import Recurrent, RNNState
from regard.models._transcript_loss import transcript_loss


@dataclass(frozen=True)
class Config:
    """Settings; section 3 and, for the score, Chorowski et al. 2015."""

    dim: int = 512  # width of the speller's states
    encoder: int = 256  # width of the listener per direction
    embedding: int = 128  # width of the token vectors
    stack: int = 1  # adjacent frames that are joined before the first layer of the listener
    pyramid_layers: int = 3  # layers of the listener after the first; each halves the number of states
    layers: int = 1  # recurrent layers of the speller
    score: str = "location"  # attention score: location uses the previous weights; see regard list scores
    dropout: float = 0.2  # dropout of the listener's states, the token vectors and the features

    def __post_init__(self) -> None:
        check_fields(
            self,
            at_least_1=("dim", "encoder", "embedding", "stack", "layers"),
            at_least_0=("pyramid_layers",),
            probability=("dropout",),
        )


# small: for the built-in digits
PRESETS = {"small": Config(dim=128, encoder=96, embedding=32, stack=2, pyramid_layers=1, dropout=0.2)}
TINY = Config(dim=16, encoder=8, embedding=8, stack=2, pyramid_layers=1, dropout=0.1)  # for tests


class LASState(NamedTuple):
    """The speller's state, context and attention weights, one row per hypothesis; the listener's states as keys and
    values, one row per recording."""

    rnn_state: RNNState
    context: Tensor  # (r e)
    previous: PreviousWeights
    source: Shared[KV]  # one head


class ListenAttendSpell(nn.Module):
    """The complete model, a `SpeechModel` in the sense of core.protocols.speech."""

    def __init__(self, config: Config, sizes: SpeechSpec) -> None:
        super().__init__()
        dim, word_dim, state_dim = config.dim, config.embedding, 2 * config.encoder
        self.encoder = PyramidEncoder(
            sizes.num_bands,
            config.encoder,
            stack=config.stack,
            pyramid_layers=config.pyramid_layers,
            dropout=config.dropout,
        )
        self.reduction = self.encoder.reduction
        self.target = WordVectors(sizes.vocab_size, word_dim, pad=sizes.special_tokens.pad, scale=0.0)
        self.decoder = Recurrent("lstm", word_dim + state_dim, dim, num_layers=config.layers, dropout=config.dropout)
        self.key = nn.Linear(state_dim, dim, bias=False)  # ψ, section 3.2; φ is part of the score
        self.cross_attn = Attend(scores.build(config.score, dim), queries="target", keys="frames")
        self.join = glorot_linear(dim + state_dim, word_dim)
        self.readout = Readout(word_dim, sizes.vocab_size)
        self.readout.weight = self.target.weight
        self.dropout = Dropout(config.dropout)

    def start(self, source: SpeechFrames) -> LASState:
        states, lengths = self.encoder(source.frames, source.lengths)  # (b s 2d)
        keys = self.cross_attn.project(self.key(states)[:, None])  # (b 1 s d), once per recording
        mask = Mask.lengths(lengths, states.shape[1])
        return LASState(
            self.decoder.init_state(len(states), states),
            states.new_zeros(len(states), states.shape[2]),
            PreviousWeights.initial(self.cross_attn, keys),
            Shared(KV.of(keys, states[:, None], mask)),
        )

    def features(self, tokens: Tensor, state: LASState) -> tuple[Tensor, LASState]:
        words = self.dropout(self.target(tokens))  # (r t e)
        source = state.source.value
        attention = StepAttention.of(self.cross_attn, source.k, source.v, source.mask)
        rnn_state, context, previous, steps = state.rnn_state, state.context, state.previous, []
        for step in range(tokens.shape[1]):
            inputs = torch.cat([words[:, step], context], dim=-1)
            hidden, rnn_state = self.decoder(inputs[:, None], rnn_state)
            context, previous = attention(hidden[:, 0], previous)
            steps.append(torch.cat([hidden[:, 0], context], dim=-1))
        x = torch.tanh(self.join(self.dropout(torch.stack(steps, dim=1))))
        return self.dropout(x), LASState(rnn_state, context, previous, state.source)

    def forward(self, tokens: Tensor, state: LASState) -> tuple[Tensor, LASState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state  # (r t v)

    def loss(self, batch: SpeechBatch, *, pad: int, smoothing: float = 0.0) -> Tensor:
        """Return the cross entropy of the transcripts, summed over their tokens."""
        return transcript_loss(self, batch, pad=pad, smoothing=smoothing)


def build(config: Config, sizes: SpeechSpec) -> ListenAttendSpell:
    """Return a model for the given settings and data spec."""
    return ListenAttendSpell(config, sizes)
