"""Task heads on a token encoder: document classification and tagging, for any encoder (Padded) -> features (b t d).

`with_task_head` selects the head by the data spec. The encoder is called `encoder` in every model that has one, so that
its weights can be loaded from a run that trained it for another task: `[pretrained] params = "encoder.*"`. Its input is
`BOS w1 … wn EOS`, as in masked language models.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.core.data_specs import DocumentSpec, TaggingSpec
from regard.core.protocols import Padded
from regard.layers.crf import CHAINS, TagReadout
from regard.layers.document_batch import SentenceBatch, UnitBatch, add_bos_eos, concat_sentences, gather_first_tokens
from regard.layers.dropout import Dropout
from regard.layers.pooling import AttentionPooling
from regard.layers.readout import make_readout


def with_task_head(
    encoder: nn.Module,
    dim: int,
    sizes: DocumentSpec | TaggingSpec,
    *,
    output: Literal["crf", "softmax"],
    dropout: float,
) -> Classifier | Tagger:
    """Return the classifier or tagger for an encoder of width `dim`, depending on the data spec."""
    if isinstance(sizes, DocumentSpec):
        return Classifier(encoder, dim, sizes, dropout=dropout)
    return Tagger(encoder, dim, sizes, output=output, dropout=dropout)


class Classifier(nn.Module):
    """Documents -> features (b d): the tokens of a document, without sentence boundaries, pooled by attention."""

    def __init__(self, encoder: nn.Module, dim: int, sizes: DocumentSpec, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.encoder, self.special_tokens = encoder, sizes.special_tokens
        self.pool = AttentionPooling(dim, dim, keys="text")
        self.dropout = Dropout(dropout)
        self.readout = make_readout(dim, sizes.num_labels, multi_label=sizes.multi_label)

    def forward(self, documents: SentenceBatch) -> Tensor:
        text = add_bos_eos(concat_sentences(documents), self.special_tokens)
        mask = Mask.lengths(text.lengths, text.tokens.shape[1])
        pooled: Tensor = self.dropout(self.pool(self.encoder(text), mask))
        return pooled


class Tagger(nn.Module):
    """Sentences of units -> features (b u d): those of the first token of each unit."""

    def __init__(
        self,
        encoder: nn.Module,
        dim: int,
        sizes: TaggingSpec,
        *,
        output: Literal["crf", "softmax"] = "crf",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.encoder, self.special_tokens = encoder, sizes.special_tokens
        self.dropout = Dropout(dropout)
        self.readout = TagReadout(dim, sizes.num_tags, CHAINS[output](sizes.allowed_transitions))

    def forward(self, sentences: UnitBatch) -> Tensor:
        x = self.encoder(add_bos_eos(Padded(sentences.tokens, sentences.lengths), self.special_tokens))
        features: Tensor = self.dropout(gather_first_tokens(x[:, 1:], sentences))
        return features
