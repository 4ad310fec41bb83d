"""A tagger of Transformer blocks: words and how they are spelt, self-attention over the sentence, a CRF over the tags.

word and how it is spelt -> place -> [self-attention, feed-forward] × layers -> CRF, or a softmax for each tag

Beside it, BERT and its kin tag too (`model = "bert"`): they have no spelling, and can be trained beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.core.data_specs import TaggingSpec
from regard.core.errors import ConfigError
from regard.layers import positions
from regard.layers.block import Block
from regard.layers.char_cnn import CharCNN, concat_char_features
from regard.layers.crf import CHAINS, TagReadout
from regard.layers.document_batch import UnitBatch, gather_first_tokens
from regard.layers.dropout import Dropout
from regard.layers.embedding import WordDropoutEmbedding
from regard.layers.feedforward import FeedForward
from regard.layers.linear import Linear
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.norm import PreNorm


@dataclass(frozen=True)
class Config:
    """Small, for data sets of some thousand sentences."""

    layers: int = 2  # blocks, one upon the other
    dim: int = 128  # width of the features
    ffn_dim: int = 256  # width inside the feed-forward network
    heads: int = 4  # of each attention; they share the width
    char_dim: int = 30  # width of a letter's features
    filters: int = 30  # features made of the letters of a word; 0: spelling is not looked at
    position: str = "relative"  # how places are told: see regard list positions
    output: Literal["crf", "softmax"] = "crf"  # tags chosen together by a CRF, or each by a softmax
    dropout: float = 0.3  # of what goes into the blocks, of what each part adds, and of the features
    word_dropout: float = 0.0  # how often a word is read as unknown in training

    def __post_init__(self) -> None:
        for name in ("layers", "dim", "ffn_dim", "heads", "char_dim"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} must be at least 1")
        if self.filters < 0:
            raise ConfigError(f"filters={self.filters} must be at least 0")
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )
        for name in ("dropout", "word_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} is not a probability below 1")


PRESETS = {"small": Config(layers=1, dim=64, ffn_dim=128, heads=4)}
TINY = Config(layers=2, dim=16, ffn_dim=16, heads=2, char_dim=4, filters=5, dropout=0.1)  # for tests


class Tagger(nn.Module):
    """Sentences of units -> features (b u d), from which `readout` makes logits of the tags."""

    def __init__(self, config: Config, sizes: TaggingSpec) -> None:
        super().__init__()
        dim, dropout = config.dim, config.dropout
        self.embedding = WordDropoutEmbedding(
            sizes.vocab_size,
            dim,
            special_tokens=sizes.special_tokens,
            dropout=dropout,
            word_dropout=config.word_dropout,
        )
        spelt = config.filters if sizes.num_characters else 0
        self.spelling = (
            CharCNN(sizes.num_characters, config.char_dim, spelt, special_tokens=sizes.special_tokens, dropout=dropout)
            if spelt
            else None
        )
        self.join = Linear(dim + spelt, dim)
        self.position = positions.build(config.position, dim, max_length=sizes.max_length)
        widths = HeadDims.split_evenly(dim, config.heads)
        self.layers = nn.ModuleList()
        for _ in range(config.layers):
            place = self.position.position_bias(heads=widths.num_heads, dim=widths.head_dim)
            attend = Attend(
                scores.build("scaled_dot", widths.head_dim), position_bias=place, queries="sentence", keys="sentence"
            )
            around = partial(PreNorm, dim, dropout)
            self.layers.append(
                Block(MultiHeadAttention(attend, widths), FeedForward(dim, config.ffn_dim), make_norm=around)
            )
        self.last = PreNorm.final_norm(dim)
        self.dropout = Dropout(dropout)
        self.readout = TagReadout(dim, sizes.num_tags, CHAINS[config.output](sizes.allowed_transitions))

    def forward(self, sentences: UnitBatch) -> Tensor:
        x = self.position(self.join(concat_char_features(self.embedding(sentences.tokens), self.spelling, sentences)))
        mask = Mask.lengths(sentences.lengths, sentences.tokens.shape[1])
        for layer in self.layers:
            x, _ = layer(x, mask)
        features: Tensor = self.dropout(gather_first_tokens(self.last(x), sentences))
        return features


def build(config: Config, sizes: TaggingSpec) -> Tagger:
    """Choices and what the data decided -> a model."""
    return Tagger(config, sizes)
