"""What a user will think of an item: as others do, and as attention finds in what the user thought of other items.

The item is the query; what is known of the user are the keys; the values are how each thing chosen was liked, more or
less than is usual: Deep Interest Network (Zhou et al. 2018), its values with the implicit sum of SVD++ (Koren 2008).
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

INIT_SCALE = 0.3  # of the usual first size of vectors: at first everything looks alike, and the mean is looked at


class RatingHead(nn.Module):
    """Items (b k d), and what is known of users, [anyone, fields, items chosen] (b r d) -> logits (b k)."""

    def __init__(self, item_bias: ItemEmbedding, items: ItemEmbedding, *, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.usual, self.items = (
            item_bias,
            items,
        )  # how much an item is liked by anyone, one number; and what sets it apart
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
        """With how each item is usually liked (b k), and how what is known was liked (b r 2)."""
        user_features, target_items = self.dropout(user_features), self.dropout(target_items)
        values = torch.cat(
            [user_features, self.scale * user_features * rating_features[..., 1:], rating_features], dim=-1
        )
        found = self.dropout(
            self.liking_attn(target_items, self.liking_attn.project_kv(user_features, values), mask)
        )  # (b k d)
        logits: Tensor = item_bias + self.out(found)[..., 0] + (found * target_items).sum(dim=-1)
        return logits

    def rating_features(self, users: UserBatch, catalog: ItemCatalog, *, prefix_length: int) -> Tensor:
        """(b r 2): the rating of each item chosen, and how much it is above the usual; `before` them is unrated."""
        usual = self.usual.lookup(catalog, users.history)[..., 0]
        both = torch.stack([users.ratings, users.ratings - torch.tanh(usual / 2)], dim=-1)  # tanh(x/2) = 2σ(x) - 1
        return pad(both, (0, 0, prefix_length, 0))


def rating_mask(users: UserBatch, history_mask: Tensor | None, *, prefix_length: int) -> Mask:
    """What an item that is judged may look at: all that is told of the user, and of the history what is in sight."""
    places = torch.arange(users.history.shape[1], device=users.history.device)
    there = (places < users.lengths[:, None])[:, None]  # (b 1 t)
    return Mask.explicit(pad(there if history_mask is None else there & history_mask, (prefix_length, 0), value=True))
