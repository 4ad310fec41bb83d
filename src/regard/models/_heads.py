"""What stands upon an encoder of tokens to label documents or to tag units: any encoder (Padded) -> features (b t d).

The encoder is called `encoder` in every model that has one, so that its weights can be taken from a run that trained it
for something else: `[start] only = "encoder.*"`. It reads `start w1 … wn end`, as masked language models do.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.core.protocols import Padded
from regard.core.sizes import Documents, Marks, Tagged
from regard.layers.crf import CHAINS, TagReadout
from regard.layers.dropout import Dropout
from regard.layers.grouping import Grouped, Units, joined
from regard.layers.labels import readout
from regard.layers.pooling import AttentionPooling


class Classifier(nn.Module):
    """Documents -> features (b d): the tokens of a document, cuts between sentences ignored, pooled by attention."""

    def __init__(self, encoder: nn.Module, dim: int, sizes: Documents, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.encoder, self.marks = encoder, sizes.marks
        self.pool = AttentionPooling(dim, dim, keys="text")
        self.dropout = Dropout(dropout)
        self.readout = readout(dim, sizes.labels, several=sizes.several)

    def forward(self, documents: Grouped) -> Tensor:
        text = marked(joined(documents), self.marks)
        mask = Mask.lengths(text.lengths, text.tokens.shape[1])
        pooled: Tensor = self.dropout(self.pool(self.encoder(text), mask))
        return pooled


class Tagger(nn.Module):
    """Sentences of units -> features (b u d): those of each unit's first token."""

    def __init__(
        self,
        encoder: nn.Module,
        dim: int,
        sizes: Tagged,
        *,
        output: Literal["crf", "softmax"] = "crf",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.encoder, self.marks = encoder, sizes.marks
        self.dropout = Dropout(dropout)
        self.readout = TagReadout(dim, sizes.tags, CHAINS[output](sizes.rules))

    def forward(self, sentences: Units) -> Tensor:
        x = self.encoder(marked(Padded(sentences.tokens, sentences.lengths), self.marks))
        features: Tensor = self.dropout(first_tokens(x[:, 1:], sentences))
        return features


def marked(text: Padded, marks: Marks) -> Padded:
    """Rows w1 … wn -> start w1 … wn end."""
    rows, width = text.tokens.shape
    tokens = text.tokens.new_full((rows, width + 2), marks.pad)
    tokens[:, 0] = marks.start
    tokens[:, 1:-1] = text.tokens
    places = torch.arange(width + 2, device=tokens.device)
    end = places == text.lengths[:, None] + 1
    return Padded(
        tokens.masked_fill(end, marks.end).masked_fill(places > text.lengths[:, None] + 1, marks.pad), text.lengths + 2
    )


def first_tokens(x: Tensor, sentences: Units) -> Tensor:
    """Features of tokens (b t d) -> features of units (b u d)."""
    return x.gather(1, sentences.firsts[..., None].expand(-1, -1, x.shape[2]))
