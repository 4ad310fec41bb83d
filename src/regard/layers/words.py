"""Words of documents to features: a table, dropout, and words that are read as unknown now and then in training."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.sizes import Marks
from regard.layers.dropout import Dropout


class Words(nn.Module):
    """Tokens (…) -> features (… d). A word left out (Iyyer et al. 2015, section 3) makes the others count."""

    def __init__(self, size: int, dim: int, *, marks: Marks, dropout: float, word_dropout: float) -> None:
        super().__init__()
        self.table = nn.Embedding(size, dim, padding_idx=marks.pad)
        nn.init.normal_(self.table.weight, std=0.1)
        nn.init.zeros_(self.table.weight[marks.pad])
        self.unknown, self.word_dropout = marks.unknown, word_dropout
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        if self.training and self.word_dropout:
            left_out = torch.rand(tokens.shape, device=tokens.device) < self.word_dropout
            tokens = tokens.masked_fill(left_out, self.unknown)
        features: Tensor = self.dropout(self.table(tokens))
        return features
