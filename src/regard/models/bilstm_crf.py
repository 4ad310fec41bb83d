"""BiLSTM-CRF: Huang et al. 2015, Lample et al. 2016, Ma and Hovy 2016. The baseline without attention for tagging.

word and character features -> bidirectional LSTM -> CRF over the tags (or a softmax per tag)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.core.config import check_fields
from regard.core.data_specs import TaggingSpec
from regard.layers.char_cnn import CharCNN, concat_char_features
from regard.layers.crf import CHAINS, TagReadout
from regard.layers.document_batch import UnitBatch, gather_first_tokens
from regard.layers.dropout import Dropout
from regard.layers.embedding import WordDropoutEmbedding
from regard.layers.packed_rnn import BidirectionalRNN
from regard.models._hierarchical_encoder import pack


@dataclass(frozen=True)
class Config:
    """Settings; Ma and Hovy 2016, table 1."""

    embedding: int = 100  # width of the token embeddings
    dim: int = 200  # width of the LSTM per direction
    layers: int = 1  # number of LSTM layers
    char_dim: int = 30  # width of a character embedding
    filters: int = 30  # filters of the character CNN; 0: no character features
    ngrams: int = 0  # rows of the hashed table of token n-grams; 0: no n-gram features
    output: Literal["crf", "softmax"] = "crf"  # a CRF over the tag sequence, or a softmax per tag
    dropout: float = 0.5  # dropout of the inputs and outputs of the LSTM
    word_dropout: float = 0.0  # probability of replacing a word by UNK in training

    def __post_init__(self) -> None:
        check_fields(
            self,
            at_least_1=("embedding", "dim", "layers", "char_dim"),
            at_least_0=("filters", "ngrams"),
            probability=("dropout", "word_dropout"),
        )


PRESETS = {
    "small": Config(embedding=50, dim=64, dropout=0.3),
    "short": Config(embedding=50, dim=64, dropout=0.3, word_dropout=0.2),  # for short trainings on few sentences
}
AUTO_PRESETS = {0: "short", 20_000: ""}  # least number of examples -> model.preset=auto; "": the defaults
AUTO_OPTIMIZER = {"name": "adam", "lr": 0.01}  # on 3,394 messages in half a minute F1 0.17; 0.15 with Muon at 0.005
TINY = Config(embedding=8, dim=6, char_dim=4, filters=5, dropout=0.1)  # for tests


class BiLstmCrf(nn.Module):
    """Sentences of units -> features (b u 2·dim), the input of `readout`."""

    def __init__(self, config: Config, sizes: TaggingSpec) -> None:
        super().__init__()
        dropout = config.dropout
        self.embedding = WordDropoutEmbedding(
            sizes.vocab_size,
            config.embedding,
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
        widths = [config.embedding + char_filters, *[2 * config.dim] * config.layers]
        self.layers = nn.ModuleList(BidirectionalRNN("lstm", width, config.dim) for width in widths[:-1])
        self.dropout = Dropout(dropout)
        self.readout = TagReadout(2 * config.dim, sizes.num_tags, CHAINS[config.output](sizes.allowed_transitions))

    def forward(self, sentences: UnitBatch) -> Tensor:
        embedded = self.embedding(sentences.tokens)
        packed = pack(concat_char_features(embedded, self.spelling, sentences), sentences.lengths)
        x = packed.features
        for layer in self.layers:
            x = self.dropout(layer(x, packed.packing))
        return gather_first_tokens(packed.packing.pad(x, packed.padded_shape), sentences)


def build(config: Config, sizes: TaggingSpec) -> BiLstmCrf:
    """Return a model for the given settings and data spec."""
    return BiLstmCrf(config, sizes)
