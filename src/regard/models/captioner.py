"""Show, attend and tell: Xu et al. 2015. Reads with models/_caption_attention.py and attention/reinforce.py.

image -> convolutions -> grid of cells a
word t: z = β · look(query h(t-1), cells a);  h(t) = LSTM([y(t-1), z], h(t-1));  logits from y(t-1), h(t) and z

The same grid can be told by a Transformer (decoder = "transformer"), and by an LSTM that sees the image as one vector
(attention = "none").
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
from regard.attention.reinforce import MovingAverage
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
    """Sections 3 and 4; the defaults suit images of about a hundred pixels, with convolutions trained from scratch."""

    attention: Literal["soft", "hard", "none"] = "soft"  # the mean of all cells, one that is drawn, or the whole image
    decoder: Literal["lstm", "transformer"] = "lstm"  # what tells the words
    dim: int = 256  # width of the decoder
    embedding: int = 128  # width of the word vectors
    feature_dim: int = 128  # width of the cells
    stride: int = 8  # pixels, along each axis, that become a cell, a power of two; 1: the input is a grid already
    score: str = "additive"  # of queries and cells: see regard list scores
    dropout: float = 0.3  # of word vectors and features
    embedding_scale: float = (
        1.0  # by which the LSTM reads word vectors larger than they are; 0: √embedding, unit variance
    )
    tie_embeddings: bool = (
        True  # words are told by the vectors they are read by, behind a tanh; else by L_o, equation 7
    )
    bag_of_words_weight: float = (
        0.0  # weight of foretelling the words of an image without their order, which teaches convolutions
    )
    word_dropout: float = 0.0  # how often a word that was read is hidden in training, so that the image is looked at
    coverage_weight: float = 0.1  # soft: weight of the doubly stochastic penalty, section 4.2.1
    policy_weight: float = 1.0  # hard: weight of the score function term, λ_r
    entropy_weight: float = 0.01  # hard: weight of the entropy of the choice, λ_e
    soft_prob: float = 0.5  # hard: how often the expectation stands in for a choice in training
    hard_warmup: int = 1000  # hard: batches without choices, and then over which they come in: before, they are noise
    layers: int = 2  # of the Transformer decoder
    heads: int = 4  # of each attention of the Transformer decoder

    def __post_init__(self) -> None:
        if min(self.dim, self.embedding, self.feature_dim, self.layers, self.heads, self.stride) < 1:
            raise ConfigError("dim, embedding, grid, layers, heads and stride must be at least 1")
        if min(self.embedding_scale, self.bag_of_words_weight) < 0:
            raise ConfigError(
                f"word_scale={self.embedding_scale} and named={self.bag_of_words_weight}: neither is negative"
            )
        if self.hard_warmup < 0:
            raise ConfigError(f"gradual={self.hard_warmup} batches: give 0 or more")
        if self.stride & (self.stride - 1):
            raise ConfigError(f"stride={self.stride} must be a power of two")
        if not (0 <= self.dropout < 1 and 0 <= self.word_dropout < 1):
            raise ConfigError(
                f"dropout={self.dropout} and word_dropout={self.word_dropout} must be probabilities below 1"
            )
        if self.decoder == "transformer" and self.attention != "soft":
            raise ConfigError(f"attention={self.attention!r} is for decoder='lstm'; the Transformer's is soft")
        if self.decoder == "transformer" and self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )


PRESETS = {
    "small": Config(dim=128, embedding=64, feature_dim=64, coverage_weight=0.0, dropout=0.1)
}  # for built-in scenes
TINY = Config(dim=16, embedding=8, feature_dim=12, stride=4, dropout=0.1, layers=1, heads=2)  # for tests


class CaptionerState(NamedTuple):
    """The decoder's memory, one row a hypothesis; the cells as they are looked at, one row an image."""

    hidden: Tensor  # (r d)
    cell: Tensor  # (r d)
    grid_kv: Shared[KV]


class Captioner(nn.Module):
    """The whole model, a `Decoder` in the sense of core.protocols whose source are images (b c h w) of -1 … 1."""

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
        dim, words, wide = config.dim, config.embedding, config.feature_dim
        self.grid, self.looking, self.named = grid, attention, bag_of_words
        self.dim, self.wide, self.unknown = dim, wide, sizes.special_tokens.unk
        self.target = embedding_table(sizes.vocab_size, words, pad=sizes.special_tokens.pad)
        self.scale = config.embedding_scale or math.sqrt(words)
        self.first = nn.Linear(wide, 2 * dim)  # section 3.1.2: h(0) and c(0) from the mean of all cells
        self.gates_word = nn.Linear(words, 4 * dim)
        self.gates_seen = nn.Linear(wide, 4 * dim, bias=False)
        self.gates_hidden = nn.Linear(dim, 4 * dim + 1, bias=False)  # and f_β, section 4.2.1, as its last row
        self.join = nn.Linear(dim + wide, words)  # L_h and L_z, equation 7
        self.readout = Readout(words, sizes.vocab_size)
        if config.tie_embeddings:
            self.readout.weight = self.target.weight
        self.bound = nn.Tanh() if config.tie_embeddings else nn.Identity()
        self.dropout, self.word_dropout = Dropout(config.dropout), config.word_dropout
        for gate in self.gates_hidden.weight.data[: 4 * dim].split(dim):
            nn.init.orthogonal_(gate)
        nn.init.ones_(self.gates_word.bias.data[dim : 2 * dim])  # the forget gate starts open

    def start(self, source: Tensor) -> CaptionerState:
        return self._begin(self.grid(source))

    def _begin(self, cells: Tensor) -> CaptionerState:
        hidden, cell = torch.tanh(self.first(cells.mean(dim=1))).chunk(2, dim=-1)
        return CaptionerState(hidden, cell, Shared(self.looking.project_kv(cells)))

    def features(self, tokens: Tensor, state: CaptionerState) -> tuple[Tensor, CaptionerState]:
        x, _, state = self._walk(self.target(tokens), state)
        return x, state

    def forward(self, tokens: Tensor, state: CaptionerState) -> tuple[Tensor, CaptionerState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state  # (r t v)

    def losses(self, images: Tensor, captions: Tensor, *, pad: int, smoothing: float = 0.0) -> dict[str, Tensor]:
        """Images (b c h w), the captions of each side by side (b·n t+1) -> the named parts of the loss, summed."""
        cells = self.grid(images)  # (b s d)
        state = repeat_rows(self._begin(cells), len(captions) // max(1, len(images)))
        memory = state.grid_kv.value
        read, labels = captions[:, :-1], captions[:, 1:]
        if self.training and self.word_dropout:
            hidden = torch.rand(read.shape, device=read.device) < self.word_dropout
            read = torch.where(hidden.index_fill(1, hidden.new_zeros(1).long(), False), self.unknown, read)
        x, walk, _ = self._walk(self.target(read), state._replace(grid_kv=Shared(self.looking.training_memory(memory))))
        parts = self.looking.losses(CaptionTargets(x, labels, labels != pad, self.readout, smoothing), walk, memory)
        return parts if self.named is None else parts | {"named": self.named.loss(cells, labels)}

    def _walk(self, words: Tensor, state: CaptionerState) -> tuple[Tensor, AttentionTrace, CaptionerState]:
        """Word vectors (r t e) -> features (r t e), the way that was taken, and the state at its end."""
        words = self.dropout(words)
        from_word = self.gates_word(words * self.scale)  # outside the loop, it does not depend on the recurrence
        hidden, cell, steps = state.hidden, state.cell, []
        for step in range(words.shape[1]):
            of_hidden = self.gates_hidden(hidden)
            looked = self.looking(hidden, state.grid_kv.value)  # (r d), or (r d+s) with the weights
            seen = torch.sigmoid(of_hidden[:, -1:]) * looked[:, : self.wide]
            steps.append((hidden, seen, looked[:, self.wide :]))
            hidden, cell = lstm_step(from_word[:, step] + self.gates_seen(seen) + of_hidden[:, :-1], cell)
        queries, seens, weights = (torch.stack(each, dim=1) for each in zip(*steps, strict=True))
        hiddens = torch.cat([queries[:, 1:], hidden[:, None]], dim=1)
        x = self.bound(words + self.join(torch.cat([self.dropout(hiddens), seens], dim=-1)))  # equation 7
        return self.dropout(x), AttentionTrace(queries, weights), state._replace(hidden=hidden, cell=cell)


def lstm_step(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """One step of an LSTM from what its gates are given (r 4d): Hochreiter and Schmidhuber 1997, with a forget gate."""
    keep_in, forget, new, out = gates.chunk(4, dim=-1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(keep_in) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(cell), cell


def build(config: Config, sizes: CaptioningSpec) -> Captioner | _grid_transformer.GridTransformer:
    """The only function of this file that sees both the choices and what the data decided."""
    grid = _grid(config, sizes)
    named = (
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
        return _grid_transformer.build(grid, config.feature_dim, shape, sizes, bag_of_words=named)
    return Captioner(config, sizes, grid=grid, attention=_looking(config, sizes.max_length), bag_of_words=named)


def _grid(config: Config, sizes: CaptioningSpec) -> GridEncoder:
    height, width = (-(-side // config.stride) for side in (sizes.height, sizes.width))
    plane = Position2D("sinusoidal", config.feature_dim, height=height, width=width)
    if config.stride == 1:
        return GridEncoder(nn.Identity(), sizes.channels, plane)
    return GridEncoder(Backbone(sizes.channels, config.feature_dim, stride=config.stride), config.feature_dim, plane)


def _looking(config: Config, longest: int) -> CaptionAttention:
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
        baseline=MovingAverage(longest),
        policy_weight=config.policy_weight,
        entropy_weight=config.entropy_weight,
    )
