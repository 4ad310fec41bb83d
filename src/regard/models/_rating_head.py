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
from regard.models._item_embedding import Items

SMALL = 0.3  # of the usual first size of vectors: at first everything looks alike, and the mean is looked at


class RatingHead(nn.Module):
    """Items (b k d), and what is known of users, [anyone, fields, items chosen] (b r d) -> logits (b k)."""

    def __init__(self, usual: Items, items: Items, *, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.usual, self.items = usual, items  # how much an item is liked by anyone, one number; and what sets it apart
        self.scale = dim**0.5
        with torch.no_grad():
            for weight in usual.parameters():
                weight.zero_()
            for weight in items.parameters():
                weight.mul_(SMALL)
        attend = Attend(scores.build("dot", dim), queries="judged", keys="history")
        self.liking_attn = MultiHeadAttention(attend, HeadDims(dim, dim, 2 * dim + 2, dim, heads, dim, dim // heads))
        self.out = nn.Linear(dim, 1)
        nn.init.normal_(self.out.weight, std=0.02)
        self.dropout = Dropout(dropout)

    def forward(self, judged: Tensor, known: Tensor, usual: Tensor, *, liked: Tensor, sight: Mask) -> Tensor:
        """With how each item is usually liked (b k), and how what is known was liked (b r 2)."""
        known, judged = self.dropout(known), self.dropout(judged)
        values = torch.cat([known, self.scale * known * liked[..., 1:], liked], dim=-1)
        found = self.dropout(self.liking_attn(judged, self.liking_attn.project_kv(known, values), sight))  # (b k d)
        logits: Tensor = usual + self.out(found)[..., 0] + (found * judged).sum(dim=-1)
        return logits

    def liked(self, people: UserBatch, shelf: ItemCatalog, *, before: int) -> Tensor:
        """(b r 2): the rating of each item chosen, and how much it is above the usual; `before` them is unrated."""
        usual = self.usual.at(shelf, people.history)[..., 0]
        both = torch.stack([people.ratings, people.ratings - torch.tanh(usual / 2)], dim=-1)  # tanh(x/2) = 2σ(x) - 1
        return pad(both, (0, 0, before, 0))


def visible(people: UserBatch, sight: Tensor | None, *, before: int) -> Mask:
    """What an item that is judged may look at: all that is told of the user, and of the history what is in sight."""
    places = torch.arange(people.history.shape[1], device=people.history.device)
    there = (places < people.lengths[:, None])[:, None]  # (b 1 t)
    return Mask.explicit(pad(there if sight is None else there & sight, (before, 0), value=True))
