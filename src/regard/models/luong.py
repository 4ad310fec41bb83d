"""Global and local attention after the recurrence: Luong et al. 2015. See also attention/attend.py.

    encoder: x -> LSTM stack -> states h
    decoder: s = LSTM(y);  c = Attend(query s, keys and values h);  attentional state tanh(W[c; s]) -> logits

With input feeding (section 3.3) the attentional state is part of the next input; only then a loop over time is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.attention.previous_weights import PreviousWeights, StepAttention
from regard.attention.score import ScoreFunction
from regard.core.config import check_fields
from regard.core.data_specs import Seq2SeqSpec
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.core.state_tree import Shared
from regard.layers.dropout import Dropout
from regard.layers.embedding import WordVectors
from regard.layers.kv_cache import KV
from regard.layers.linear import glorot_linear
from regard.layers.readout import Readout
from regard.layers.recurrent import Recurrent, RecurrentEncoder, RNNState, repeat_per_hypothesis


@dataclass(frozen=True)
class Config:
    """Settings; section 3."""

    cell: Literal["rnn", "lstm", "gru"] = "lstm"  # type of the recurrent cell
    dim: int = 512  # width of the recurrent states
    embedding: int = 256  # width of the word vectors
    embedding_scale: float = 0.0  # factor of the word vectors; 0: √embedding
    layers: int = 1  # number of recurrent layers
    directions: Literal[1, 2] = 2  # directions of the encoder
    score: str = "general"  # attention score: see regard list scores
    input_feeding: bool = True  # input feeding, section 3.3: the attentional state is part of the next input
    window: int = 0  # local attention, section 3.2: positions to each side of the predicted one; 0: global
    dropout: float = 0.3  # dropout of word vectors, between layers and of features

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("dim", "embedding", "layers"), at_least_0=("window",))
        if self.dim % self.directions:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among {self.directions} directions; choose an even width"
            )


PRESETS = {"small": Config(dim=128, embedding=64, dropout=0.2)}
AUTO_PRESETS = {0: "small", 50_000: ""}  # least number of examples -> model.preset=auto; "": the defaults
TINY = Config(dim=16, embedding=8, layers=2, dropout=0.1)  # for tests


class PredictiveAlignmentScore(ScoreFunction):
    """Local-p attention, section 3.2: a score plus the log of a Gaussian around a predicted position p, inside p ± D.

    The position is one more feature of the query, in float32 even if the others are in half precision, which is too
    imprecise for it. The softmax then normalizes inside the window; the paper multiplies by the Gaussian after the
    softmax.
    """

    allows_mixed_dtypes = True

    def __init__(self, score: ScoreFunction, window: int) -> None:
        super().__init__()
        self.score = score
        self.window = window

    @property
    def elements_per_pair(self) -> int:
        return self.score.elements_per_pair

    def project_keys(self, k: Tensor) -> Tensor:
        return self.score.project_keys(k)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        content: Tensor = self.score(q[..., :-1].to(k.dtype), k)
        distance = torch.arange(k.shape[-2], device=k.device) - q[..., -1:]  # (b h t s)
        gaussian = -distance.square() / (2 * (self.window / 2) ** 2)  # σ = D/2
        return torch.where(distance.abs() <= self.window, content + gaussian, torch.finfo(q.dtype).min / 2)


class EncodedSource(NamedTuple):
    """The encoder states as keys and values, and the lengths of the sources."""

    kv: KV  # one head
    lengths: Tensor  # (b)


class LuongState(NamedTuple):
    """The decoder's RNN state and last attentional state, one row per hypothesis; the source, one row per sentence."""

    rnn_state: RNNState
    attentional_state: Tensor  # (b d), or (b 0) without input feeding
    previous: PreviousWeights  # used by some scores, with input feeding and global attention
    source: Shared[EncodedSource]


class Luong(nn.Module):
    """The complete model, a `Decoder` in the sense of core.protocols."""

    def __init__(self, config: Config, sizes: Seq2SeqSpec) -> None:
        super().__init__()
        dim, word_dim, bidirectional = config.dim, config.embedding, config.directions == 2
        self.fed = dim if config.input_feeding else 0
        self.source = WordVectors(
            sizes.source_vocab_size, word_dim, pad=sizes.special_tokens.pad, scale=config.embedding_scale
        )
        self.target = WordVectors(
            sizes.target_vocab_size, word_dim, pad=sizes.special_tokens.pad, scale=config.embedding_scale
        )
        width = dim // config.directions
        self.encoder = RecurrentEncoder(
            config.cell, word_dim, width, num_layers=config.layers, bidirectional=bidirectional, dropout=config.dropout
        )
        self.decoder = Recurrent(
            config.cell, word_dim + self.fed, dim, num_layers=config.layers, dropout=config.dropout
        )
        score = scores.build(config.score, dim)
        self.local = config.window > 0
        self.cross_attn = Attend(
            PredictiveAlignmentScore(score, config.window) if self.local else score, queries="target", keys="source"
        )
        self.centre = nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, 1)) if self.local else nn.Identity()
        self.join = glorot_linear(2 * dim, dim, bias=False)  # W_c
        self.out = glorot_linear(dim, word_dim)
        self.readout = Readout(word_dim, sizes.target_vocab_size)
        self.readout.weight = self.target.weight
        self.dropout = Dropout(config.dropout)

    def start(self, source: Padded) -> LuongState:
        states, last = self.encoder(self.dropout(self.source(source.tokens)), source.lengths)  # (b s d)
        rnn_state = RNNState(*(_both_directions(x, self.decoder.net.num_layers) for x in last))
        keys = self.cross_attn.project(states[:, None])
        mask = Mask.lengths(source.lengths, source.tokens.shape[1])
        attentional_state = states.new_zeros(states.shape[0], self.fed)
        previous = PreviousWeights.initial(self.cross_attn, keys)
        if not self.fed:  # all steps attend at the same time
            previous = PreviousWeights(previous.tensor[:, :0])
        return LuongState(
            rnn_state,
            attentional_state,
            previous,
            Shared(EncodedSource(KV.of(keys, states[:, None], mask), source.lengths)),
        )

    def features(self, tokens: Tensor, state: LuongState) -> tuple[Tensor, LuongState]:
        words = self.dropout(self.target(tokens))  # (b t e)
        parts = []
        for chunk in words.split(1 if self.fed else max(1, tokens.shape[1]), dim=1):
            attentional, state = self._step(chunk, state)
            parts.append(attentional)
        output = torch.tanh(self.out(self.dropout(torch.cat(parts, dim=1))))
        return self.dropout(output), state

    def forward(self, tokens: Tensor, state: LuongState) -> tuple[Tensor, LuongState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state  # (b t v)

    def _step(self, words: Tensor, state: LuongState) -> tuple[Tensor, LuongState]:
        """(b t e) -> attentional states (b t d); with input feeding t is 1."""
        attentional_state = state.attentional_state[:, None].expand(-1, words.shape[1], -1)
        hidden, rnn_state = self.decoder(torch.cat([words, attentional_state], dim=-1), state.rnn_state)
        context, previous = self._attend(hidden, state.source.value, state.previous)
        attentional = torch.tanh(self.join(torch.cat([context, hidden], dim=-1)))  # equation 5
        fed = attentional[:, -1] if self.fed else state.attentional_state
        return attentional, LuongState(rnn_state, fed, previous, state.source)

    def _attend(
        self, hidden: Tensor, source: EncodedSource, previous: PreviousWeights
    ) -> tuple[Tensor, PreviousWeights]:
        """Decoder states (b t d) and the weights of the previous step -> contexts (b t d) and the new weights."""
        if previous.tensor.shape[1]:
            attention = StepAttention.of(self.cross_attn, source.kv.k, source.kv.v, source.kv.mask)
            step_context, previous = attention(hidden[:, 0], previous)
            return step_context[:, None], previous
        query = hidden
        if self.local:
            last_position = repeat_per_hypothesis(source.lengths, hidden.shape[0])[:, None, None] - 1
            dtype = torch.promote_types(hidden.dtype, torch.float32)
            position = last_position * torch.sigmoid(self.centre(hidden).to(dtype))  # equation 9
            query = torch.cat([hidden.to(dtype), position], dim=-1)
        context: Tensor = self.cross_attn(query[:, None], source.kv.k, source.kv.v, source.kv.mask)
        return context[:, 0], previous


def _both_directions(x: Tensor, layers: int) -> Tensor:
    """(b layers·directions d) -> (b layers d·directions): concatenate the two directions of each layer."""
    split: Tensor = x.unflatten(1, (layers, -1))
    return split.flatten(2)


def build(config: Config, sizes: Seq2SeqSpec) -> Luong:
    """Return a model for the given settings and data spec."""
    return Luong(config, sizes)
