"""SASRec in plain PyTorch, as in its widely used port: every history padded to the full length, attention
by nn.MultiheadAttention, one negative for each choice. Baseline of bench/recommendation.py."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits


class PlainSASRec(nn.Module):
    """Histories (b t) of item ids, 0 for padding on the left -> features (b t d)."""

    def __init__(self, items: int, *, longest: int, dim: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.items, self.places = nn.Embedding(items + 1, dim, padding_idx=0), nn.Embedding(longest, dim)
        self.drop, self.last = nn.Dropout(dropout), nn.LayerNorm(dim)
        self.before = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.attend = nn.ModuleList(nn.MultiheadAttention(dim, heads, dropout, batch_first=True) for _ in range(layers))
        self.between = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.forth = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, dim), nn.Dropout(dropout), nn.ReLU(), nn.Linear(dim, dim), nn.Dropout(dropout))
            for _ in range(layers)
        )

    def forward(self, history: Tensor) -> Tensor:
        t = history.shape[1]
        x = self.drop(self.items(history) * self.items.embedding_dim**0.5 + self.places(torch.arange(t)))
        ahead = torch.ones(t, t, dtype=torch.bool).triu(1)
        for before, attend, between, forth in zip(self.before, self.attend, self.between, self.forth, strict=True):
            y = before(x)
            x = y + attend(y, x, x, attn_mask=ahead, need_weights=False)[0]
            y = between(x)
            x = y + forth(y)
        features: Tensor = self.last(x)
        return features

    def loss(self, history: Tensor, chosen: Tensor, negatives: Tensor) -> Tensor:
        """Histories, next items and negatives, all (b t), 0 for padding."""
        features, is_present = self(history), chosen > 0
        near = (features * self.items(chosen)).sum(-1)[is_present]
        far = (features * self.items(negatives)).sum(-1)[is_present]
        return binary_cross_entropy_with_logits(near, torch.ones_like(near)) + binary_cross_entropy_with_logits(
            far, torch.zeros_like(far)
        )
