"""Character CNN: features of a word from its characters, by a convolution and max pooling over the filters.

Ma and Hovy 2016, section 2.1; dos Santos and Zadrozny 2014.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.data_specs import SpecialTokens
from regard.layers.document_batch import UnitBatch
from regard.layers.dropout import Dropout

KERNEL_SIZE = 3  # characters per filter


class CharCNN(nn.Module):
    """Characters (… c) of words -> features (… filters); a word without characters gives zeros."""

    def __init__(
        self, num_characters: int, dim: int, filters: int, *, special_tokens: SpecialTokens, dropout: float
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(num_characters, dim, padding_idx=special_tokens.pad)
        self.convolution = nn.Conv1d(dim, filters, KERNEL_SIZE, padding=KERNEL_SIZE // 2)
        self.dropout = Dropout(dropout)
        self.pad = special_tokens.pad

    def forward(self, characters: Tensor) -> Tensor:
        flat = characters.flatten(0, -2)
        mask = flat != self.pad
        x: Tensor = self.convolution(self.dropout(self.table(flat)).mT)  # (n filters c)
        pooled = x.masked_fill(~mask[:, None], float("-inf")).amax(dim=-1)
        empty = ~mask.any(dim=-1, keepdim=True)
        return pooled.masked_fill(empty, 0.0).view(*characters.shape[:-1], -1)


def concat_char_features(x: Tensor, char_cnn: CharCNN | None, batch: UnitBatch) -> Tensor:
    """Token features (b t d) -> (b t d+filters): the first token of each unit gets the character features of the
    unit."""
    if char_cnn is None:
        return x
    char_features: Tensor = char_cnn(batch.characters)  # (b u filters)
    mask = torch.arange(char_features.shape[1], device=char_features.device) < batch.counts[:, None]
    indices = batch.first_token_indices[..., None].expand_as(char_features)
    appended = x.new_zeros(*x.shape[:2], char_features.shape[2]).scatter_add(
        1, indices, (char_features * mask[..., None]).to(x.dtype)
    )
    return torch.cat([x, appended], dim=-1)
