"""How a word is spelt, as features: letters, a convolution over them, the greatest value of each filter.

Ma and Hovy 2016, section 2.1; dos Santos and Zadrozny 2014.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.data_specs import SpecialTokens
from regard.layers.document_batch import Units
from regard.layers.dropout import Dropout

REACH = 3  # letters that a filter sees


class CharCNN(nn.Module):
    """Letters (… c) of words -> features (… filters); a word without letters gives zeros."""

    def __init__(self, letters: int, dim: int, filters: int, *, marks: SpecialTokens, dropout: float) -> None:
        super().__init__()
        self.table = nn.Embedding(letters, dim, padding_idx=marks.pad)
        self.convolution = nn.Conv1d(dim, filters, REACH, padding=REACH // 2)
        self.dropout = Dropout(dropout)
        self.pad = marks.pad

    def forward(self, letters: Tensor) -> Tensor:
        flat = letters.flatten(0, -2)
        there = flat != self.pad
        x: Tensor = self.convolution(self.dropout(self.table(flat)).mT)  # (n filters c)
        highest = x.masked_fill(~there[:, None], float("-inf")).amax(dim=-1)
        empty = ~there.any(dim=-1, keepdim=True)
        return highest.masked_fill(empty, 0.0).view(*letters.shape[:-1], -1)


def with_spelling(x: Tensor, spelling: CharCNN | None, sentences: Units) -> Tensor:
    """Features of tokens (b t d) -> (b t d+filters): beside the first token of each unit how the unit is spelt."""
    if spelling is None:
        return x
    spelt: Tensor = spelling(sentences.letters)  # (b u filters)
    there = torch.arange(spelt.shape[1], device=spelt.device) < sentences.counts[:, None]
    places = sentences.firsts[..., None].expand_as(spelt)
    beside = x.new_zeros(*x.shape[:2], spelt.shape[2]).scatter_add(1, places, (spelt * there[..., None]).to(x.dtype))
    return torch.cat([x, beside], dim=-1)
