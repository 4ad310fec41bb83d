"""Item embeddings: a learned vector per item plus a projection of its profile, so that new items have a vector too."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.protocols.recommender import ItemCatalog


class ItemEmbedding(nn.Module):
    """Catalog (n) -> vectors (n d): the item's embedding plus W · profile. In training the embedding is dropped at
    random, so that the profile learns to represent items without interactions."""

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
        ids = catalog.ids
        if self.training and self.dropout:
            ids = ids.masked_fill(torch.rand(len(ids), device=ids.device) < self.dropout, 0)
        vectors: Tensor = self.own(ids)
        return vectors if self.profile is None else vectors + self.profile(catalog.profiles)

    def lookup(self, catalog: ItemCatalog, indices: Tensor) -> Tensor:
        """Indices (b t) -> vectors (b t d); for a large catalog only these items are computed."""
        if len(catalog.ids) <= indices.numel():
            vectors: Tensor = self(catalog)[indices]
            return vectors
        vectors = self(catalog.take(indices.flatten()))
        return vectors.view(*indices.shape, vectors.shape[-1])
