"""Items as vectors: one of their own, and one that their profile gives, so that a new item has a vector too."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.protocols.recommender import ItemCatalog


class ItemEmbedding(nn.Module):
    """A shelf (n) -> vectors (n d): the item's own plus W · profile. Own vectors are left out at times while training,
    a few items at a time, so that the profile learns to stand for an item that nobody has chosen yet."""

    def __init__(self, num_items: int, profile_dim: int, dim: int, *, dropout: float) -> None:
        super().__init__()
        self.own = nn.Embedding(num_items + 1, dim, padding_idx=0)
        nn.init.normal_(self.own.weight, std=dim**-0.5)
        with torch.no_grad():
            self.own.weight[0] = 0
        self.profile = nn.Linear(profile_dim, dim, bias=False) if profile_dim else None
        if self.profile is not None:
            nn.init.normal_(self.profile.weight, std=0.5 * dim**-0.5)
        self.dropout = dropout

    def forward(self, catalog: ItemCatalog) -> Tensor:
        numbers = catalog.ids
        if self.training and self.dropout:
            numbers = numbers.masked_fill(torch.rand(len(numbers), device=numbers.device) < self.dropout, 0)
        vectors: Tensor = self.own(numbers)
        return vectors if self.profile is None else vectors + self.profile(catalog.profiles)

    def lookup(self, catalog: ItemCatalog, indices: Tensor) -> Tensor:
        """Places (b t) -> vectors (b t d); of a large shelf only these items are made."""
        if len(catalog.ids) <= indices.numel():
            found: Tensor = self(catalog)[indices]
            return found
        few: Tensor = self(catalog.take(indices.flatten()))
        return few.view(*indices.shape, few.shape[-1])
