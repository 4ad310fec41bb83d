"""Show, attend and tell: Xu et al. 2015. See also models/_caption_attention.py and attention/policy_gradient.py.

    image -> CNN -> grid of cells a
    word t: z = β · attend(query h(t-1), cells a);  h(t) = LSTM([y(t-1), z], h(t-1));  logits from y(t-1), h(t) and z

Other decoders of the same grid: a Transformer (decoder = "transformer"), and an LSTM without attention whose input is
the image as one vector (attention = "none").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.normalizers import SoftOrHard
from regard.attention.policy_gradient import MovingAverage
from regard.core.config import check_fields
from regard.core.data_specs import CaptioningSpec
from regard.core.errors import ConfigError
from regard.core.state_tree import Shared, repeat_rows
from regard.layers.cnn_grid import Backbone, GridEncoder
from regard.layers.dropout import Dropout
from regard.layers.embedding import embedding_table
from regard.layers.kv_cache import KV
from regard.layers.positions._two_dimensional import Position2D
from regard.layers.readout import Readout
from regard.models import _grid_transformer
from regard.models._bag_of_words_loss import BagOfWordsLoss
from regard.models._caption_attention import (
    AttentionTrace,
    CaptionAttention,
    CaptionTargets,
    HardAttention,
    MeanPooling,
    SoftAttention,
)


@dataclass(frozen=True)
class Config:
    """Sections 3 and 4; the defaults suit images of about a hundred pixels, with a CNN trained from scratch."""

    attention: Literal["soft", "hard", "none"] = "soft"  # weighted mean of all cells, one sampled cell, or none
    decoder: Literal["lstm", "transformer"] = "lstm"  # type of the decoder
    dim: int = 256  # width of the decoder
    embedding: int = 128  # width of the word vectors
    feature_dim: int = 128  # width of the grid cells
    stride: int = 8  # pixels per cell along each axis, a power of two; 1: the input is already a grid
    score: str = "additive"  # attention score: see regard list scores
    dropout: float = 0.3  # dropout of word vectors and features
    embedding_scale: float = 1.0  # factor of the word vectors in the LSTM's input; 0: √embedding, unit variance
    tie_embeddings: bool = True  # tie output and input embeddings, with a tanh before the output; else L_o, equation 7
    bag_of_words_weight: float = 0.0  # weight of the loss for the image's words without order, which trains the CNN
    word_dropout: float = 0.0  # probability of replacing an input word by UNK in training, so that the image is used
    coverage_weight: float = 0.1  # soft: weight of the doubly stochastic penalty, section 4.2.1
    policy_weight: float = 1.0  # hard: weight of the REINFORCE term, λ_r
    entropy_weight: float = 0.01  # hard: weight of the entropy of the choice, λ_e
    soft_prob: float = 0.5  # hard: probability of soft instead of sampled attention in training
    hard_warmup: int = 1000  # hard: the policy gradient is off for this many batches, then increases over as many
    layers: int = 2  # layers of the Transformer decoder
    heads: int = 4  # attention heads of the Transformer decoder

    def __post_init__(self) -> None:
        check_fields(
            self,
            at_least_1=("dim", "embedding", "feature_dim", "layers", "heads", "stride"),
            at_least_0=("embedding_scale", "bag_of_words_weight", "hard_warmup"),
            probability=("dropout", "word_dropout"),
        )
        if self.stride & (self.stride - 1):
            raise ConfigError(f"stride={self.stride} must be a power of two")
        if self.decoder == "transformer" and self.attention != "soft":
            raise ConfigError(f"attention={self.attention!r} needs decoder='lstm'; the Transformer's is soft")
        if self.decoder == "transformer" and self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )


# small: for the built-in scenes
PRESETS = {"small": Config(dim=128, embedding=64, feature_dim=64, coverage_weight=0.0, dropout=0.1)}
TINY = Config(dim=16, embedding=8, feature_dim=12, stride=4, dropout=0.1, layers=1, heads=2)  # for tests


class CaptionerState(NamedTuple):
    """The decoder's LSTM state, one row per hypothesis; the grid cells as keys and values, one row per image."""

    hidden: Tensor  # (r d)
    cell: Tensor  # (r d)
    grid_kv: Shared[KV]


class Captioner(nn.Module):
    """The complete model, a `Decoder` in the sense of core.protocols whose sources are images (b c h w) in -1 … 1."""

    def __init__(
        self,
        config: Config,
        sizes: CaptioningSpec,
        *,
        grid: GridEncoder,
        attention: CaptionAttention,
        bag_of_words: BagOfWordsLoss | None = None,
    ) -> None:
        super().__init__()
        dim, word_dim, feature_dim = config.dim, config.embedding, config.feature_dim
        self.grid, self.looking, self.named = grid, attention, bag_of_words
        self.dim, self.wide, self.unknown = dim, feature_dim, sizes.special_tokens.unk
        self.target = embedding_table(sizes.vocab_size, word_dim, pad=sizes.special_tokens.pad)
        self.scale = config.embedding_scale or math.sqrt(word_dim)
        self.first = nn.Linear(feature_dim, 2 * dim)  # section 3.1.2: h(0) and c(0) from the mean of all cells
        self.gates_word = nn.Linear(word_dim, 4 * dim)
        self.gates_seen = nn.Linear(feature_dim, 4 * dim, bias=False)
        self.gates_hidden = nn.Linear(dim, 4 * dim + 1, bias=False)  # and f_β, section 4.2.1, as its last row
        self.join = nn.Linear(dim + feature_dim, word_dim)  # L_h and L_z, equation 7
        self.readout = Readout(word_dim, sizes.vocab_size)
        if config.tie_embeddings:
            self.readout.weight = self.target.weight
        self.bound = nn.Tanh() if config.tie_embeddings else nn.Identity()
        self.dropout, self.word_dropout = Dropout(config.dropout), config.word_dropout
        for gate in self.gates_hidden.weight.data[: 4 * dim].split(dim):
            nn.init.orthogonal_(gate)
        nn.init.ones_(self.gates_word.bias.data[dim : 2 * dim])  # the forget gate starts open

    def start(self, source: Tensor) -> CaptionerState:
        return self._initial_state(self.grid(source))

    def _initial_state(self, cells: Tensor) -> CaptionerState:
        hidden, cell = torch.tanh(self.first(cells.mean(dim=1))).chunk(2, dim=-1)
        return CaptionerState(hidden, cell, Shared(self.looking.project_kv(cells)))

    def features(self, tokens: Tensor, state: CaptionerState) -> tuple[Tensor, CaptionerState]:
        x, _, state = self._run(self.target(tokens), state)
        return x, state

    def forward(self, tokens: Tensor, state: CaptionerState) -> tuple[Tensor, CaptionerState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state  # (r t v)

    def losses(self, images: Tensor, captions: Tensor, *, pad: int, smoothing: float = 0.0) -> dict[str, Tensor]:
        """Images (b c h w), the captions of each in consecutive rows (b·n t+1) -> the named parts of the loss,
        summed."""
        cells = self.grid(images)  # (b s d)
        state = repeat_rows(self._initial_state(cells), len(captions) // max(1, len(images)))
        memory = state.grid_kv.value
        inputs, labels = captions[:, :-1], captions[:, 1:]
        if self.training and self.word_dropout:
            is_dropped = torch.rand(inputs.shape, device=inputs.device) < self.word_dropout
            inputs = torch.where(is_dropped.index_fill(1, is_dropped.new_zeros(1).long(), False), self.unknown, inputs)
        x, trace, _ = self._run(
            self.target(inputs), state._replace(grid_kv=Shared(self.looking.training_memory(memory)))
        )
        parts = self.looking.losses(CaptionTargets(x, labels, labels != pad, self.readout, smoothing), trace, memory)
        return parts if self.named is None else parts | {"named": self.named.loss(cells, labels)}

    def _run(self, words: Tensor, state: CaptionerState) -> tuple[Tensor, AttentionTrace, CaptionerState]:
        """Word vectors (r t e) -> features (r t e), the attention of every step, and the state after the last."""
        words = self.dropout(words)
        from_word = self.gates_word(words * self.scale)  # independent of the recurrence, so outside the loop
        hidden, cell, steps = state.hidden, state.cell, []
        for step in range(words.shape[1]):
            hidden_gates = self.gates_hidden(hidden)
            attended = self.looking(hidden, state.grid_kv.value)  # (r d), or (r d+s) with the weights
            context = torch.sigmoid(hidden_gates[:, -1:]) * attended[:, : self.wide]
            steps.append((hidden, context, attended[:, self.wide :]))
            hidden, cell = lstm_step(from_word[:, step] + self.gates_seen(context) + hidden_gates[:, :-1], cell)
        queries, contexts, weights = (torch.stack(column, dim=1) for column in zip(*steps, strict=True))
        hiddens = torch.cat([queries[:, 1:], hidden[:, None]], dim=1)
        x = self.bound(words + self.join(torch.cat([self.dropout(hiddens), contexts], dim=-1)))  # equation 7
        return self.dropout(x), AttentionTrace(queries, weights), state._replace(hidden=hidden, cell=cell)


def lstm_step(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """One LSTM step from the inputs of its gates (r 4d): Hochreiter and Schmidhuber 1997, with a forget gate."""
    input_gate, forget, new, out = gates.chunk(4, dim=-1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(input_gate) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(cell), cell


def build(config: Config, sizes: CaptioningSpec) -> Captioner | _grid_transformer.GridTransformer:
    """Return a model for the given settings and data spec."""
    grid = _grid(config, sizes)
    bag_of_words = (
        BagOfWordsLoss(
            config.feature_dim, sizes.vocab_size, special_tokens=sizes.special_tokens, weight=config.bag_of_words_weight
        )
        if config.bag_of_words_weight
        else None
    )
    if config.decoder == "transformer":
        shape = _grid_transformer.TransformerShape(
            config.dim, config.layers, config.heads, config.dropout, config.score
        )
        return _grid_transformer.build(grid, config.feature_dim, shape, sizes, bag_of_words=bag_of_words)
    return Captioner(
        config, sizes, grid=grid, attention=_attention(config, sizes.max_length), bag_of_words=bag_of_words
    )


def _grid(config: Config, sizes: CaptioningSpec) -> GridEncoder:
    height, width = (-(-side // config.stride) for side in (sizes.height, sizes.width))
    position = Position2D("sinusoidal", config.feature_dim, height=height, width=width)
    if config.stride == 1:
        return GridEncoder(nn.Identity(), sizes.channels, position)
    return GridEncoder(Backbone(sizes.channels, config.feature_dim, stride=config.stride), config.feature_dim, position)


def _attention(config: Config, max_length: int) -> CaptionAttention:
    if config.attention == "none":
        return MeanPooling()
    score, key = scores.build(config.score, config.dim), nn.Linear(config.feature_dim, config.dim, bias=False)
    if config.attention == "soft":
        return SoftAttention(Attend(score, queries="words", keys="cells"), key, coverage_weight=config.coverage_weight)
    attend = Attend(
        score, normalizer=SoftOrHard(config.soft_prob, warmup_batches=config.hard_warmup), queries="words", keys="cells"
    )
    return HardAttention(
        attend,
        key,
        baseline=MovingAverage(max_length),
        policy_weight=config.policy_weight,
        entropy_weight=config.entropy_weight,
    )
