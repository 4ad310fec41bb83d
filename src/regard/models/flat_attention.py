"""Attention over all words of a document at once: the flat rival of `hierarchical`, of about the same size.

words of the whole document -> GRU in both directions -> attention over the words -> one vector a document -> label

It has the parts and settings of one level of Yang et al. 2016 and knows nothing of sentences; a greater `dim` gives
its one level the weights of both.
"""

from __future__ import annotations

from torch import Tensor, nn

from regard.core.data_specs import DocumentSpec
from regard.layers.document_batch import SentenceBatch, concat_sentences
from regard.layers.embedding import WordDropoutEmbedding
from regard.layers.readout import make_readout
from regard.models._hierarchical_encoder import TINY_CONFIG, Config, HierarchyLevel, pack

PRESETS = {"small": Config(embedding=50, dim=24, attention_dim=48, heads=4, dropout=0.3)}
TINY = TINY_CONFIG


class FlatAttention(nn.Module):
    """Documents -> features (b 2·dim), from which `readout` makes logits of the labels."""

    def __init__(self, config: Config, sizes: DocumentSpec) -> None:
        super().__init__()
        dropout = {"dropout": config.dropout, "word_dropout": config.word_dropout}
        self.embedding = WordDropoutEmbedding(
            sizes.vocab_size, config.embedding, special_tokens=sizes.special_tokens, **dropout
        )
        self.words = HierarchyLevel(
            config.embedding, config, encoder=config.encoder, max_length=sizes.max_length, axis="document"
        )
        self.readout = make_readout(2 * config.dim, sizes.num_labels, multi_label=sizes.multi_label)

    def forward(self, documents: SentenceBatch) -> Tensor:
        whole = concat_sentences(documents)
        document: Tensor = self.words(pack(self.embedding(whole.tokens), whole.lengths))
        return document


def build(config: Config, sizes: DocumentSpec) -> FlatAttention:
    """Choices and what the data decided -> a model."""
    return FlatAttention(config, sizes)
