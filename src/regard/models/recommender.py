"""Recommendation by attention: the user is the query, the items are the keys and values.

    user: [constant, profile fields, history items] -> causal blocks -> attention of the profile over all of it -> state
    choice: softmax over items of f(W_Q [state, profile], W_K [item, item's profile]), a mixture over heads
    rating: attention of the item over the profile and the rated items: _rating_head.py

The history is encoded as in SASRec (Kang and McAuley 2018), with times and ratings; `layers=0` treats it as a set.
Users and items that have only a profile are supported, so both can be unseen in training (cold start).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.core.config import check_fields
from regard.core.data_specs import RecommendationSpec
from regard.core.errors import ConfigError
from regard.core.protocols.recommender import ItemCatalog, StateContributions, UserBatch
from regard.layers import positions
from regard.layers.block import Block
from regard.layers.feedforward import FeedForward
from regard.layers.kv_cache import KV
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.norm import PreNorm
from regard.layers.positions._base import PositionScheme
from regard.models._item_embedding import ItemEmbedding
from regard.models._rating_head import RatingHead, rating_mask
from regard.models._user_encoder import EventFeatures, ProfileEncoder, UserEncoder

INIT_NOISE_STD = 0.02  # noise of initial weights that are otherwise the identity


@dataclass(frozen=True)
class Config:
    """Encoding of the user, and scoring of the items."""

    layers: int = 2  # causal blocks over profile and history; 0: the history is a set
    dim: int = 64  # width of item embeddings and states
    heads: int = 2  # heads of the attention over profile and history; they share the width
    ffn_dim: int = 128  # hidden width of the feed-forward networks
    choice_heads: int = 1  # heads of the attention over items, each of full width: different reasons for a choice
    score: str = "dot"  # score of user and item: see regard list scores
    position: str = "learned"  # position encoding of the history: see regard list positions
    user_dim: int = 0  # width of user embeddings; 0: users are represented by history and profile only
    dropout: float = 0.2  # dropout of the output of each sublayer, and of the inputs
    attention_dropout: float = 0.0  # dropout of attention weights; slow on a CPU
    item_dropout: float = 0.1  # probability of using only an item's profile in training
    profile_dropout: float = 0.3  # probability of setting a profile field to unknown in training

    def __post_init__(self) -> None:
        check_fields(
            self,
            at_least_1=("dim", "heads", "ffn_dim", "choice_heads"),
            at_least_0=("layers", "user_dim"),
            probability=("dropout", "attention_dropout", "item_dropout", "profile_dropout"),
        )
        if self.dim % self.heads or self.dim % self.choice_heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads} and choice_heads={self.choice_heads}; "
                "choose a multiple of both"
            )


PRESETS = {"small": Config(layers=1, dim=32, ffn_dim=64)}
AUTO_OPTIMIZER = {"name": "muon", "lr": 0.001}  # NDCG@10 on 20,000 ratings in half a minute 0.086; 0.080 at 0.003
TINY = Config(layers=1, dim=16, heads=2, ffn_dim=32, dropout=0.0, item_dropout=0.0, profile_dropout=0.0)  # for tests


class Recommender(nn.Module):
    """The complete model, a `RecommenderModel` in the sense of core.protocols.recommender."""

    def __init__(
        self,
        items: ItemEmbedding,
        user_encoder: UserEncoder,
        layers: list[Block],
        *,
        history_attention: MultiHeadAttention,
        item_attention: MultiHeadAttention,
        rating_head: RatingHead,
        dim: int,
        user_embedding: nn.Embedding | None,
    ) -> None:
        super().__init__()
        self.items, self.known, self.layers = items, user_encoder, nn.ModuleList(layers)
        self.reason_attn, self.item_attn = history_attention, item_attention
        self.around, self.last = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.users = user_embedding
        width = item_attention.q.in_features
        self.gate = nn.Linear(width, item_attention.heads) if item_attention.heads > 1 else None
        self.opinion = rating_head

    @property
    def fields(self) -> tuple[int, ...]:
        """Widths of the profile fields."""
        return tuple(self.known.fields.widths)

    def states(self, users: UserBatch, catalog: ItemCatalog) -> Tensor:
        """(b 1+t d+p): state of each user before the first and after each history item, with the profile."""
        users, x = self._encode(users, catalog)
        kv = self.reason_attn.project_kv(self.around(x))
        history_features = x[:, len(self.fields) :]
        queries = self._with_profile(self.around(history_features), users)
        attended: Tensor = self.reason_attn(queries, kv, Mask.causal())
        return self._with_profile(self.last(history_features + attended), users)

    def last_states(self, users: UserBatch, catalog: ItemCatalog) -> Tensor:
        """(b d+p): state of each user after the last history item, with the profile. Only its query is computed."""
        users, x = self._encode(users, catalog)
        normalized = self.around(x)
        rows = torch.arange(len(x), device=x.device)
        last = len(self.fields) + users.lengths
        queries = self._with_profile(normalized[rows, last][:, None], users)
        attended: Tensor = self.reason_attn(
            queries, self.reason_attn.project_kv(normalized), Mask.lengths(last + 1, x.shape[1])
        )
        return self._with_profile(self.last(x[rows, last][:, None] + attended), users)[:, 0]

    def _encode(self, users: UserBatch, catalog: ItemCatalog) -> tuple[UserBatch, Tensor]:
        """Return the users, in training with dropped profile fields, and features (b 1+f+t d) of constant, fields and
        history."""
        users = users._replace(profiles=self.known.fields.drop_fields(users.profiles))
        x: Tensor = self.known(users, self.items.lookup(catalog, users.history))
        for layer in self.layers:
            x, _ = layer(x, Mask.causal())
        return users, x

    def _with_profile(self, x: Tensor, users: UserBatch) -> Tensor:
        """(b t d) -> (b t d+p): append the profile, and the user embedding if there is one."""
        parts = [users.profiles] if self.users is None else [users.profiles, self.users(users.ids)]
        return torch.cat([x, *(part[:, None].expand(-1, x.shape[1], -1) for part in parts)], dim=-1)

    def gates(self, states: Tensor) -> Tensor:
        """(m d) -> log weights of the heads (m h)."""
        if self.gate is None:
            return states.new_zeros(states.shape[0], 1)
        gates: Tensor = self.gate(states).log_softmax(dim=-1)
        return gates

    def _item_kv(self, catalog: ItemCatalog) -> KV:
        """Keys and values of all items, for a batch of one row."""
        items = self.items(catalog)
        return self.item_attn.project_kv(torch.cat([items, catalog.profiles], dim=-1)[None], items[None])

    def _queries(self, states: Tensor) -> Tensor:
        """(m d) -> (1 h m e)."""
        q: Tensor = self.item_attn.q(states)
        return q.view(1, states.shape[0], self.item_attn.heads, -1).transpose(1, 2)

    def scores(self, states: Tensor, catalog: ItemCatalog) -> Tensor:
        """States (m d) -> scores of the items (m h n)."""
        scores = self.item_attn.attend.weigh.scores(self._queries(states), self._item_kv(catalog).k.tensor)
        return scores[0].transpose(0, 1)

    def query_key_vectors(self, states: Tensor, catalog: ItemCatalog) -> tuple[Tensor, Tensor] | None:
        """Queries (h m e) and keys (h n e) if the score is a dot product, else None; the scale is in the queries."""
        dot = self.item_attn.attend.weigh.as_dot(self._queries(states), self._item_kv(catalog).k.tensor)
        return None if dot is None else (dot.q[0] * dot.scale, dot.k[0])

    def context(self, states: Tensor, catalog: ItemCatalog) -> Tensor:
        """States (m d) -> attended item values (m e)."""
        context: Tensor = self.item_attn(states[None], self._item_kv(catalog))
        return context[0]

    def rating_logits(
        self, users: UserBatch, catalog: ItemCatalog, item_indices: Tensor, history_mask: Tensor | None = None
    ) -> Tensor:
        """Item indices (b k) -> logits (b k). The causal blocks are not used, since the history need not be in
        order."""
        fields = self.known.fields(self.known.fields.drop_fields(users.profiles))
        constant = self.known.anyone.expand(len(fields), 1, -1)
        user_features = [
            constant,
            *([fields] if self.fields else []),
            self.opinion.items.lookup(catalog, users.history),
        ]
        prefix_length = 1 + len(self.fields)
        logits: Tensor = self.opinion(
            self.opinion.items.lookup(catalog, item_indices) + self._values(catalog, item_indices),
            torch.cat(user_features, dim=1),
            self.opinion.usual.lookup(catalog, item_indices)[..., 0],
            rating_features=self.opinion.rating_features(users, catalog, prefix_length=prefix_length),
            mask=rating_mask(users, history_mask, prefix_length=prefix_length),
        )
        return logits

    def _values(self, catalog: ItemCatalog, indices: Tensor) -> Tensor:
        """Item indices (b k) -> (b k d): attention values of the items, W_O W_V item."""
        values: Tensor = self.item_attn.o(self.item_attn.v(self.items.lookup(catalog, indices)))
        return values

    def state_contributions(self, users: UserBatch, catalog: ItemCatalog) -> StateContributions:
        """One user -> the last state as a sum over [constant, fields, items]; the statistics of the last norm are kept
        fixed."""
        users, x = self._encode(users, catalog)
        normalized, heads = self.around(x), self.reason_attn
        kv = heads.project_kv(normalized)
        q = heads.q(self._with_profile(normalized[:, -1:], users)).view(1, heads.heads, 1, -1)
        weights = heads.attend.weigh(q, kv.k.tensor)[0, :, 0]  # (h r)
        weighted_values = (weights[..., None] * kv.v[0]).transpose(0, 1).flatten(1)  # (r h·e)
        positions = torch.arange(x.shape[1], device=x.device)[:, None]  # (r 1)
        is_constant, is_last = positions == 0, positions == x.shape[1] - 1
        shares = weighted_values @ heads.o.weight.mT + is_constant * heads.o.bias + is_last * x[0, -1]
        std = (shares.sum(dim=0).var(unbiased=False) + self.last.eps).sqrt()
        shares = (shares - shares.mean(dim=-1, keepdim=True)) / std * self.last.weight + is_constant * self.last.bias
        profile = self._with_profile(shares.new_zeros(1, 1, 0), users)[0, 0]  # (p) features of the profile
        owners = [field for field, width in enumerate(self.fields, start=1) for _ in range(width)]
        owners += [0] * (profile.shape[0] - len(owners))  # a user embedding belongs to the constant
        profile_shares = (positions == torch.tensor(owners, device=x.device)) * profile  # (r p)
        return StateContributions(torch.cat([shares, profile_shares], dim=-1), weights.mean(dim=0))


def build(config: Config, sizes: RecommendationSpec) -> Recommender:
    """Return a model for the given settings and data spec."""
    dim, user_profile_dim, item_profile_dim = config.dim, sum(sizes.user_field_dims), sum(sizes.item_field_dims)
    position = positions.build(config.position, dim, max_length=sizes.max_length)
    fields = ProfileEncoder(sizes.user_field_dims, dim, dropout=config.profile_dropout)
    user_encoder = UserEncoder(
        fields, EventFeatures(dim, days=sizes.span_days), position, dim=dim, dropout=config.dropout
    )
    layers = [_layer(config, position) for _ in range(config.layers)]
    width = dim + user_profile_dim + config.user_dim
    head_dim = dim // config.heads
    attend = Attend(scores.build("scaled_dot", head_dim), queries="moments", keys="history")
    history_attention = MultiHeadAttention(attend, HeadDims(width, dim, dim, dim, config.heads, head_dim, head_dim))
    attend = Attend(scores.build(config.score, dim), queries="users", keys="items")
    dims = HeadDims(width, dim + item_profile_dim, dim, dim, config.choice_heads, dim, dim // config.choice_heads)
    item_attention = _init_near_identity(MultiHeadAttention(attend, dims), dim)
    user_embedding = nn.Embedding(sizes.num_users + 1, config.user_dim, padding_idx=0) if config.user_dim else None
    items = ItemEmbedding(sizes.num_items, item_profile_dim, dim, dropout=config.item_dropout)
    item_bias = ItemEmbedding(sizes.num_items, item_profile_dim, 1, dropout=config.item_dropout)
    rating_items = ItemEmbedding(sizes.num_items, item_profile_dim, dim, dropout=config.item_dropout)
    rating_head = RatingHead(item_bias, rating_items, dim=dim, heads=config.heads, dropout=config.dropout)
    return Recommender(
        items,
        user_encoder,
        layers,
        history_attention=history_attention,
        item_attention=item_attention,
        rating_head=rating_head,
        dim=dim,
        user_embedding=user_embedding,
    )


def _layer(config: Config, position: PositionScheme) -> Block:
    dims = HeadDims.split_evenly(config.dim, config.heads)
    position_bias = position.position_bias(heads=dims.num_heads, dim=dims.head_dim)
    score = scores.build("scaled_dot", dims.head_dim)
    attend = Attend(
        score, position_bias=position_bias, dropout=config.attention_dropout, queries="history", keys="history"
    )
    feedforward = FeedForward(config.dim, config.ffn_dim, activation=gelu)
    return Block(MultiHeadAttention(attend, dims), feedforward, make_norm=partial(PreNorm, config.dim, config.dropout))


def _init_near_identity(attention: MultiHeadAttention, dim: int) -> MultiHeadAttention:
    """Initialize queries and keys near the identity, so that items similar to the last one get high scores; the output
    projection starts with zeros."""
    nn.init.zeros_(attention.o.weight)
    with torch.no_grad():
        for layer in (attention.q, attention.k):
            nn.init.normal_(layer.weight, std=INIT_NOISE_STD)
            for head in range(attention.heads):
                layer.weight[head * dim : (head + 1) * dim, :dim] += torch.eye(dim)
    return attention
