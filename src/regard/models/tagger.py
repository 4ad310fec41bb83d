"""Tagger with Transformer blocks: word and character features, self-attention over the sentence, a CRF over the tags.

    word and character features -> position -> [self-attention, feed-forward] × layers -> CRF, or a softmax per tag

BERT and similar models can tag too (`model = "bert"`): they have no character features, and can be pretrained.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.core.config import check_fields
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
    """Small defaults, for data sets of a few thousand sentences."""

    layers: int = 2  # number of blocks
    dim: int = 128  # width of the features
    ffn_dim: int = 256  # hidden width of the feed-forward network
    heads: int = 4  # attention heads; they share the width
    char_dim: int = 30  # width of a character embedding
    filters: int = 30  # filters of the character CNN; 0: no character features
    ngrams: int = 0  # rows of the hashed table of token n-grams; 0: no n-gram features
    position: str = "relative"  # position encoding: see regard list positions
    output: Literal["crf", "softmax"] = "crf"  # a CRF over the tag sequence, or a softmax per tag
    dropout: float = 0.3  # dropout of the inputs, of the output of each sublayer, and of the features
    word_dropout: float = 0.1  # probability of replacing a word by UNK in training, so that new words are handled

    def __post_init__(self) -> None:
        check_fields(
            self,
            at_least_1=("layers", "dim", "ffn_dim", "heads", "char_dim"),
            at_least_0=("filters", "ngrams"),
            probability=("dropout", "word_dropout"),
        )
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )


PRESETS = {"small": Config(layers=1, dim=64, ffn_dim=128, heads=4)}
TINY = Config(layers=2, dim=16, ffn_dim=16, heads=2, char_dim=4, filters=5, dropout=0.1)  # for tests


class Tagger(nn.Module):
    """Sentences of units -> features (b u d), the input of `readout`."""

    def __init__(self, config: Config, sizes: TaggingSpec) -> None:
        super().__init__()
        dim, dropout = config.dim, config.dropout
        self.embedding = WordDropoutEmbedding(
            sizes.vocab_size,
            dim,
            special_tokens=sizes.special_tokens,
            dropout=dropout,
            word_dropout=config.word_dropout,
            ngrams=config.ngrams,
        )
        char_filters = config.filters if sizes.num_characters else 0
        self.spelling = (
            CharCNN(
                sizes.num_characters,
                config.char_dim,
                char_filters,
                special_tokens=sizes.special_tokens,
                dropout=dropout,
            )
            if char_filters
            else None
        )
        self.join = Linear(dim + char_filters, dim)
        self.position = positions.build(config.position, dim, max_length=sizes.max_length)
        dims = HeadDims.split_evenly(dim, config.heads)
        self.layers = nn.ModuleList()
        for _ in range(config.layers):
            position_bias = self.position.position_bias(heads=dims.num_heads, dim=dims.head_dim)
            attend = Attend(
                scores.build("scaled_dot", dims.head_dim),
                position_bias=position_bias,
                queries="sentence",
                keys="sentence",
            )
            make_norm = partial(PreNorm, dim, dropout)
            self.layers.append(
                Block(MultiHeadAttention(attend, dims), FeedForward(dim, config.ffn_dim), make_norm=make_norm)
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
    """Return a model for the given settings and data spec."""
    return Tagger(config, sizes)
