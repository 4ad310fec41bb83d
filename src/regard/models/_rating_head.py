"""Rating prediction: an item bias plus attention of the item over the user's profile and rated items.

The item is the query; the keys are the user's profile fields and history. The values contain how each item was rated
compared with its mean: Deep Interest Network (Zhou et al. 2018), with values as in the implicit sum of SVD++ (Koren
2008).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.core.protocols.recommender import ItemCatalog, UserBatch
from regard.layers.dropout import Dropout
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.models._item_embedding import ItemEmbedding

INIT_SCALE = 0.3  # factor of the initial embeddings: attention starts nearly uniform, as a mean


class RatingHead(nn.Module):
    """Items (b k d) and user features, [constant, profile fields, history items] (b r d) -> logits (b k)."""

    def __init__(self, item_bias: ItemEmbedding, items: ItemEmbedding, *, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.usual, self.items = item_bias, items  # mean rating of an item, a scalar; and its embedding
        self.scale = dim**0.5
        with torch.no_grad():
            for weight in item_bias.parameters():
                weight.zero_()
            for weight in items.parameters():
                weight.mul_(INIT_SCALE)
        attend = Attend(scores.build("dot", dim), queries="judged", keys="history")
        self.liking_attn = MultiHeadAttention(attend, HeadDims(dim, dim, 2 * dim + 2, dim, heads, dim, dim // heads))
        self.out = nn.Linear(dim, 1)
        nn.init.normal_(self.out.weight, std=0.02)
        self.dropout = Dropout(dropout)

    def forward(
        self, target_items: Tensor, user_features: Tensor, item_bias: Tensor, *, rating_features: Tensor, mask: Mask
    ) -> Tensor:
        """`item_bias` (b k): logit of the mean rating of each item; `rating_features` (b r 2): ratings of the user
        features."""
        user_features, target_items = self.dropout(user_features), self.dropout(target_items)
        values = torch.cat(
            [user_features, self.scale * user_features * rating_features[..., 1:], rating_features], dim=-1
        )
        context = self.dropout(
            self.liking_attn(target_items, self.liking_attn.project_kv(user_features, values), mask)
        )  # (b k d)
        logits: Tensor = item_bias + self.out(context)[..., 0] + (context * target_items).sum(dim=-1)
        return logits

    def rating_features(self, users: UserBatch, catalog: ItemCatalog, *, prefix_length: int) -> Tensor:
        """(b r 2): the rating of each history item, and its difference from the item's mean; the first `prefix_length`
        entries are zero."""
        item_bias = self.usual.lookup(catalog, users.history)[..., 0]
        features = torch.stack(
            [users.ratings, users.ratings - torch.tanh(item_bias / 2)], dim=-1
        )  # tanh(x/2) = 2σ(x) - 1
        return pad(features, (0, 0, prefix_length, 0))


def rating_mask(users: UserBatch, history_mask: Tensor | None, *, prefix_length: int) -> Mask:
    """Return the mask of the user features that a rated item may attend to: the profile, and the visible part of the
    history."""
    positions = torch.arange(users.history.shape[1], device=users.history.device)
    mask = (positions < users.lengths[:, None])[:, None]  # (b 1 t)
    return Mask.explicit(pad(mask if history_mask is None else mask & history_mask, (prefix_length, 0), value=True))
