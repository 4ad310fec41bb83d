"""SASRec: Kang and McAuley 2018. What was chosen, in order, foretells what is chosen next; nothing else is known.

items chosen -> embedding, place -> causal blocks -> inner product with the embedding of every item
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.core.data_specs import RecommendationSpec
from regard.core.errors import ConfigError
from regard.core.protocols.recommender import ItemCatalog, StateContributions, UserBatch
from regard.layers import positions
from regard.layers.block import Block
from regard.layers.dropout import Dropout
from regard.layers.feedforward import FeedForward
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.norm import PreNorm
from regard.layers.positions._base import PositionScheme
from regard.models._item_embedding import ItemEmbedding


@dataclass(frozen=True)
class Config:
    """The shape of the paper's section 4: two blocks with one head."""

    layers: int = 2  # blocks, one upon the other
    dim: int = 64  # width of the features
    heads: int = 1  # of each attention; they share the width
    ffn_dim: int = 64  # width inside the feed-forward network
    dropout: float = 0.2  # of what each part of a block adds, and of the embedding

    def __post_init__(self) -> None:
        if min(self.layers, self.dim, self.heads, self.ffn_dim) < 1:
            raise ConfigError("layers, dim, heads and hidden must be at least 1")
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout={self.dropout} is not a probability below 1")


PRESETS = {"small": Config(layers=1, dim=32, ffn_dim=32)}
TINY = Config(layers=1, dim=16, ffn_dim=16, dropout=0.0)  # for tests


class SASRec(nn.Module):
    """The whole model, a `Chooser` in the sense of core.choosing."""

    fields: tuple[int, ...] = ()  # it reads no profile

    def __init__(
        self, items: ItemEmbedding, position: PositionScheme, layers: list[Block], *, dim: int, dropout: float
    ) -> None:
        super().__init__()
        self.items, self.position, self.layers = items, position, nn.ModuleList(layers)
        self.first, self.last = nn.Parameter(torch.randn(dim) * 0.02), nn.LayerNorm(dim)
        self.dropout, self.scale = Dropout(dropout), dim**0.5

    def states(self, users: UserBatch, catalog: ItemCatalog) -> Tensor:
        """(b 1+t d)."""
        chosen = self.position(self.items.lookup(catalog, users.history) * self.scale)
        x: Tensor = self.dropout(torch.cat([self.first.expand(len(chosen), 1, -1), chosen], dim=1))
        for layer in self.layers:
            x, _ = layer(x, Mask.causal())
        states: Tensor = self.last(x)
        return states

    def gates(self, states: Tensor) -> Tensor:
        """(m 1): there is one head."""
        return states.new_zeros(len(states), 1)

    def scores(self, states: Tensor, catalog: ItemCatalog) -> Tensor:
        """(m d) -> (m 1 n)."""
        scores: Tensor = (states @ self.items(catalog).mT)[:, None]
        return scores

    def query_key_vectors(self, states: Tensor, catalog: ItemCatalog) -> tuple[Tensor, Tensor]:
        """(1 m d) and (1 n d)."""
        return states[None], self.items(catalog)[None]

    def context(self, states: Tensor, catalog: ItemCatalog) -> Tensor | None:
        """It has no values."""
        return None

    def rating_logits(
        self, users: UserBatch, catalog: ItemCatalog, item_indices: Tensor, history_mask: Tensor | None = None
    ) -> Tensor:
        """(b k) -> (b k), by the state after the last item that is in sight with all before it."""
        states = self.states(users, catalog)
        last = (
            users.lengths[:, None].expand_as(item_indices)
            if history_mask is None
            else history_mask.long().cumprod(dim=-1).sum(dim=-1)
        )
        rows = torch.arange(len(item_indices), device=item_indices.device)[:, None]
        agreed: Tensor = (states[rows, last] * self.items.lookup(catalog, item_indices)).sum(dim=-1)
        return agreed

    def state_contributions(self, users: UserBatch, catalog: ItemCatalog) -> StateContributions | None:
        """Its state is no sum over what was chosen."""
        return None


def build(config: Config, sizes: RecommendationSpec) -> SASRec:
    """The only function of this file that sees both the choices and what the data decided."""
    position = positions.build("learned", config.dim, max_length=sizes.max_length)
    widths = HeadDims.split_evenly(config.dim, config.heads)
    layers = []
    for _ in range(config.layers):
        attend = Attend(scores.build("scaled_dot", widths.head_dim), queries="history", keys="history")
        feedforward = FeedForward(config.dim, config.ffn_dim, dropout=config.dropout)
        layers.append(
            Block(
                MultiHeadAttention(attend, widths), feedforward, make_norm=partial(PreNorm, config.dim, config.dropout)
            )
        )
    items = ItemEmbedding(sizes.num_items, 0, config.dim, dropout=0.0)
    return SASRec(items, position, layers, dim=config.dim, dropout=config.dropout)
