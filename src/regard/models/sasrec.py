"""SASRec: Kang and McAuley 2018. Predicts the next item from the history of items and nothing else.

history items -> embedding, position -> causal blocks -> inner product with the embedding of every item
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.core.config import check_fields
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
    """The sizes of the paper's section 4: two blocks with one head."""

    layers: int = 2  # number of blocks
    dim: int = 64  # width of the features
    heads: int = 1  # attention heads; they share the width
    ffn_dim: int = 64  # hidden width of the feed-forward network
    dropout: float = 0.2  # dropout of the output of each sublayer, and of the embedding

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("layers", "dim", "heads", "ffn_dim"), probability=("dropout",))
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )


PRESETS = {"small": Config(layers=1, dim=32, ffn_dim=32)}
AUTO_OPTIMIZER = {"name": "muon", "lr": 0.001}  # NDCG@10 on 20,000 ratings in half a minute 0.093; 0.086 at 0.003
TINY = Config(layers=1, dim=16, ffn_dim=16, dropout=0.0)  # for tests


class SASRec(nn.Module):
    """The complete model, a `RecommenderModel` in the sense of core.protocols.recommender."""

    fields: tuple[int, ...] = ()  # profiles are not used

    def __init__(
        self, items: ItemEmbedding, position: PositionScheme, layers: list[Block], *, dim: int, dropout: float
    ) -> None:
        super().__init__()
        self.items, self.position, self.layers = items, position, nn.ModuleList(layers)
        self.first, self.last = nn.Parameter(torch.randn(dim) * 0.02), nn.LayerNorm(dim)
        self.dropout, self.scale = Dropout(dropout), dim**0.5

    def states(self, users: UserBatch, catalog: ItemCatalog) -> Tensor:
        """(b 1+t d): state before the first and after each history item."""
        history = self.position(self.items.lookup(catalog, users.history) * self.scale)
        x: Tensor = self.dropout(torch.cat([self.first.expand(len(history), 1, -1), history], dim=1))
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
        """Return None: the model has no item values."""
        return None

    def rating_logits(
        self, users: UserBatch, catalog: ItemCatalog, item_indices: Tensor, history_mask: Tensor | None = None
    ) -> Tensor:
        """Item indices (b k) -> logits (b k), from the state after the last history item that is visible with all
        before it."""
        states = self.states(users, catalog)
        last_visible = (
            users.lengths[:, None].expand_as(item_indices)
            if history_mask is None
            else history_mask.long().cumprod(dim=-1).sum(dim=-1)
        )
        rows = torch.arange(len(item_indices), device=item_indices.device)[:, None]
        logits: Tensor = (states[rows, last_visible] * self.items.lookup(catalog, item_indices)).sum(dim=-1)
        return logits

    def state_contributions(self, users: UserBatch, catalog: ItemCatalog) -> StateContributions | None:
        """Return None: the state is not a sum over the history items."""
        return None


def build(config: Config, sizes: RecommendationSpec) -> SASRec:
    """Return a model for the given settings and data spec."""
    position = positions.build("learned", config.dim, max_length=sizes.max_length)
    dims = HeadDims.split_evenly(config.dim, config.heads)
    layers = []
    for _ in range(config.layers):
        attend = Attend(scores.build("scaled_dot", dims.head_dim), queries="history", keys="history")
        feedforward = FeedForward(config.dim, config.ffn_dim, dropout=config.dropout)
        layers.append(
            Block(MultiHeadAttention(attend, dims), feedforward, make_norm=partial(PreNorm, config.dim, config.dropout))
        )
    items = ItemEmbedding(sizes.num_items, 0, config.dim, dropout=0.0)
    return SASRec(items, position, layers, dim=config.dim, dropout=config.dropout)
