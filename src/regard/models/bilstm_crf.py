"""BiLSTM-CRF: Huang et al. 2015, Lample et al. 2016, Ma and Hovy 2016. The rival of attention for tagging; it has none.

word and how it is spelt -> LSTM in both directions -> a CRF over the tags (or a softmax for each)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.core.data_specs import TaggingSpec
from regard.core.errors import ConfigError
from regard.layers.char_cnn import CharCNN, concat_char_features
from regard.layers.crf import CHAINS, TagReadout
from regard.layers.document_batch import UnitBatch, gather_first_tokens
from regard.layers.dropout import Dropout
from regard.layers.embedding import WordDropoutEmbedding
from regard.layers.packed_rnn import BidirectionalRNN
from regard.models._hierarchical_encoder import pack


@dataclass(frozen=True)
class Config:
    """Ma and Hovy 2016, table 1."""

    embedding: int = 100  # width of a token's features
    dim: int = 200  # width of the LSTM in each direction
    layers: int = 1  # LSTMs, one upon the other
    char_dim: int = 30  # width of a letter's features
    filters: int = 30  # features made of the letters of a word; 0: spelling is not looked at
    output: Literal["crf", "softmax"] = "crf"  # tags chosen together by a CRF, or each by a softmax
    dropout: float = 0.5  # of what goes into the LSTM and comes out of it
    word_dropout: float = 0.0  # how often a word is read as unknown in training

    def __post_init__(self) -> None:
        for name in ("embedding", "dim", "layers", "char_dim"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} must be at least 1")
        if self.filters < 0:
            raise ConfigError(f"filters={self.filters} must be at least 0")
        for name in ("dropout", "word_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} is not a probability below 1")


PRESETS = {"small": Config(embedding=50, dim=64, dropout=0.3)}
TINY = Config(embedding=8, dim=6, char_dim=4, filters=5, dropout=0.1)  # for tests


class BiLstmCrf(nn.Module):
    """Sentences of units -> features (b u 2·dim), from which `readout` makes logits of the tags."""

    def __init__(self, config: Config, sizes: TaggingSpec) -> None:
        super().__init__()
        dropout = config.dropout
        self.embedding = WordDropoutEmbedding(
            sizes.vocab_size,
            config.embedding,
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
        widths = [config.embedding + spelt, *[2 * config.dim] * config.layers]
        self.layers = nn.ModuleList(BidirectionalRNN("lstm", inputs, config.dim) for inputs in widths[:-1])
        self.dropout = Dropout(dropout)
        self.readout = TagReadout(2 * config.dim, sizes.num_tags, CHAINS[config.output](sizes.allowed_transitions))

    def forward(self, sentences: UnitBatch) -> Tensor:
        given = pack(
            concat_char_features(self.embedding(sentences.tokens), self.spelling, sentences), sentences.lengths
        )
        x = given.features
        for layer in self.layers:
            x = self.dropout(layer(x, given.packing))
        return gather_first_tokens(given.packing.pad(x, given.padded_shape), sentences)


def build(config: Config, sizes: TaggingSpec) -> BiLstmCrf:
    """Choices and what the data decided -> a model."""
    return BiLstmCrf(config, sizes)
