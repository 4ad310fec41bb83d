"""RNN search, the first attention model: Bahdanau et al. 2015. See also attention/attend.py and layers/recurrent.py.

encoder: x -> bidirectional GRU -> annotations h
decoder, step i: c = Attend(query s(i-1), keys and values h);  s(i) = GRU([y(i-1), c], s(i-1));  logits from [s, c, y]

Two things differ from the appendix of the paper. The output layer is a tanh instead of maxout units, and the reset gate
of the GRU is applied after the recurrent product, as in PyTorch.
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
from regard.core.data_specs import Seq2SeqSpec
from regard.core.protocols import Padded
from regard.core.state_tree import Shared
from regard.layers.dropout import Dropout
from regard.layers.embedding import WordVectors
from regard.layers.kv_cache import KV
from regard.layers.linear import glorot_linear
from regard.layers.readout import Readout
from regard.layers.recurrent import RecurrentEncoder


@dataclass(frozen=True)
class Config:
    """Settings; section 3 and appendix A."""

    dim: int = 512  # width of the recurrent states
    encoder: int = 0  # width of the encoder per direction; 0: as wide as the decoder
    embedding: int = 256  # width of the word vectors
    embedding_scale: float = 0.0  # factor of the word vectors; 0: √embedding
    score: str = "additive"  # the paper's w·tanh(Ws + Uh); others: see regard list scores
    dropout: float = 0.3  # dropout of word vectors and features

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("dim", "embedding"))


PRESETS = {"small": Config(dim=128, embedding=64, dropout=0.2)}
AUTO_PRESETS = {0: "small", 50_000: ""}  # least number of examples -> model.preset=auto; "": the defaults
TINY = Config(dim=16, embedding=8, dropout=0.1)  # for tests


class BahdanauState(NamedTuple):
    """The decoder state s and the last attention weights, one row per hypothesis; the annotations as keys and values,
    one row per sentence."""

    hidden: Tensor  # (b d)
    previous: PreviousWeights
    source: Shared[KV]  # one head


class Bahdanau(nn.Module):
    """The complete model, a `Decoder` in the sense of core.protocols."""

    def __init__(self, config: Config, sizes: Seq2SeqSpec) -> None:
        super().__init__()
        dim, word_dim, annotation_dim = config.dim, config.embedding, 2 * (config.encoder or config.dim)
        self.source = WordVectors(
            sizes.source_vocab_size, word_dim, pad=sizes.special_tokens.pad, scale=config.embedding_scale
        )
        self.target = WordVectors(
            sizes.target_vocab_size, word_dim, pad=sizes.special_tokens.pad, scale=config.embedding_scale
        )
        self.encoder = RecurrentEncoder("gru", word_dim, annotation_dim // 2, bidirectional=True)
        self.first = glorot_linear(annotation_dim // 2, dim)  # appendix A.2.2: s(0) from the backward direction
        self.key = nn.Linear(annotation_dim, dim, bias=False)  # W_K, so that any score of equal widths can be used
        self.cross_attn = Attend(scores.build(config.score, dim), queries="target", keys="source")
        self.gates_word = nn.Linear(word_dim, 3 * dim)
        self.gates_context = nn.Linear(annotation_dim, 3 * dim, bias=False)
        self.gates_hidden = nn.Linear(dim, 3 * dim)
        self.join = glorot_linear(dim + annotation_dim + word_dim, word_dim)
        self.readout = Readout(word_dim, sizes.target_vocab_size)
        self.readout.weight = self.target.weight
        self.dropout = Dropout(config.dropout)
        for gate in self.gates_hidden.weight.data.split(dim):
            nn.init.orthogonal_(gate)

    def start(self, source: Padded) -> BahdanauState:
        words = self.dropout(self.source(source.tokens))
        annotations, last = self.encoder(words, source.lengths)  # (b s 2d)
        hidden = torch.tanh(self.first(last.hidden[:, 1]))
        keys = self.cross_attn.project(self.key(annotations)[:, None])  # (b 1 s d), once per sentence
        mask = Mask.lengths(source.lengths, source.tokens.shape[1])
        previous = PreviousWeights.initial(self.cross_attn, keys)
        return BahdanauState(hidden, previous, Shared(KV.of(keys, annotations[:, None], mask)))

    def features(self, tokens: Tensor, state: BahdanauState) -> tuple[Tensor, BahdanauState]:
        words = self.dropout(self.target(tokens))  # (b t e)
        from_word = self.gates_word(words)  # (b t 3d): independent of the recurrence, so outside the loop
        source = state.source.value
        attention = StepAttention.of(self.cross_attn, source.k, source.v, source.mask)
        hidden, previous, states, contexts = state.hidden, state.previous, [], []
        for step in range(tokens.shape[1]):
            context, previous = attention(hidden, previous)  # c(i) = Σ α(i, j) h(j), equation 5
            hidden = gru_step(from_word[:, step] + self.gates_context(context), self.gates_hidden(hidden), hidden)
            states.append(hidden)
            contexts.append(context)
        joined = torch.cat([self.dropout(torch.stack(states, 1)), torch.stack(contexts, 1), words], dim=-1)
        return self.dropout(torch.tanh(self.join(joined))), state._replace(hidden=hidden, previous=previous)

    def forward(self, tokens: Tensor, state: BahdanauState) -> tuple[Tensor, BahdanauState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state  # (b t v)


def gru_step(inputs: Tensor, recurrent: Tensor, hidden: Tensor) -> Tensor:
    """One GRU step from the input and recurrent parts of its gates (b 3d): Cho et al. 2014, equations 5 to 8."""
    reset_in, update_in, new_in = inputs.chunk(3, dim=-1)
    reset_hidden, update_hidden, new_hidden = recurrent.chunk(3, dim=-1)
    reset = torch.sigmoid(reset_in + reset_hidden)
    update = torch.sigmoid(update_in + update_hidden)
    new = torch.tanh(new_in + reset * new_hidden)
    return new + update * (hidden - new)


def build(config: Config, sizes: Seq2SeqSpec) -> Bahdanau:
    """Return a model for the given settings and data spec."""
    return Bahdanau(config, sizes)
