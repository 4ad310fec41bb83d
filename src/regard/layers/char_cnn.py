"""How a word is spelt, as features: letters, a convolution over them, the greatest value of each filter.

Ma and Hovy 2016, section 2.1; dos Santos and Zadrozny 2014.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.data_specs import SpecialTokens
from regard.layers.document_batch import UnitBatch
from regard.layers.dropout import Dropout

KERNEL_SIZE = 3  # letters that a filter sees


class CharCNN(nn.Module):
    """Letters (… c) of words -> features (… filters); a word without letters gives zeros."""

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
        there = flat != self.pad
        x: Tensor = self.convolution(self.dropout(self.table(flat)).mT)  # (n filters c)
        highest = x.masked_fill(~there[:, None], float("-inf")).amax(dim=-1)
        empty = ~there.any(dim=-1, keepdim=True)
        return highest.masked_fill(empty, 0.0).view(*characters.shape[:-1], -1)


def concat_char_features(x: Tensor, char_cnn: CharCNN | None, batch: UnitBatch) -> Tensor:
    """Features of tokens (b t d) -> (b t d+filters): beside the first token of each unit how the unit is spelt."""
    if char_cnn is None:
        return x
    spelt: Tensor = char_cnn(batch.characters)  # (b u filters)
    there = torch.arange(spelt.shape[1], device=spelt.device) < batch.counts[:, None]
    places = batch.first_token_indices[..., None].expand_as(spelt)
    beside = x.new_zeros(*x.shape[:2], spelt.shape[2]).scatter_add(1, places, (spelt * there[..., None]).to(x.dtype))
    return torch.cat([x, beside], dim=-1)
