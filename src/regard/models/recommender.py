"""Recommendation by attention: the user is the query, the items' profiles are the keys, their embeddings the values.

    user: [anyone, profile fields, items chosen] -> causal blocks -> attention of the profile over all of it -> state
    choice: softmax over items of f(W_Q [state, profile], W_K [item, item's profile]), a mixture over heads
    opinion: attention of the item over the profile and over what was thought of other items: _opinion.py

The history is encoded as in SASRec (Kang and McAuley 2018), with times and ratings; `layers=0` makes it a set. Whoever
has only a profile has a state too, and an item with only a profile has keys and values: both can be new.
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

INIT_NOISE_STD = 0.02  # of first weights that begin as a copy of what they read


@dataclass(frozen=True)
class Config:
    """How much is read of a user, and how items are scored."""

    layers: int = 2  # blocks of causal self-attention over profile and history; 0: the history is a set
    dim: int = 64  # width of items and states
    heads: int = 2  # of the attention over profile and history; they share the width
    ffn_dim: int = 128  # width inside the feed-forward networks
    choice_heads: int = 1  # of the attention over items, each of the full width: different reasons to choose
    score: str = "dot"  # how a user and an item are compared: see regard list scores
    position: str = "learned"  # how places in the history are told: see regard list positions
    user_dim: int = 0  # width of a vector for every user of the data; 0: users are what they chose, and their profiles
    dropout: float = 0.2  # of what each part adds, and of what is read
    attention_dropout: float = 0.0  # of attention weights; slow on a CPU
    item_dropout: float = 0.1  # how often an item is known by its profile alone while training
    profile_dropout: float = 0.3  # how often a field of a profile is not told while training

    def __post_init__(self) -> None:
        if min(self.dim, self.heads, self.ffn_dim, self.choice_heads) < 1 or min(self.layers, self.user_dim) < 0:
            raise ConfigError("dim, heads, hidden and choice_heads must be at least 1, layers and user_dim at least 0")
        if self.dim % self.heads or self.dim % self.choice_heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads} and choice_heads={self.choice_heads}; "
                "choose a multiple of both"
            )
        for name in ("dropout", "attention_dropout", "item_dropout", "profile_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} is not a probability below 1")


PRESETS = {"small": Config(layers=1, dim=32, ffn_dim=64)}
TINY = Config(layers=1, dim=16, heads=2, ffn_dim=32, dropout=0.0, item_dropout=0.0, profile_dropout=0.0)  # for tests


class Recommender(nn.Module):
    """The whole model, a `Chooser` in the sense of core.choosing."""

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
        """The widths of the fields of a profile."""
        return tuple(self.known.fields.widths)

    def states(self, users: UserBatch, catalog: ItemCatalog) -> Tensor:
        """(b 1+t d+p): what is known of each user before the first choice and after each one, and the profile."""
        users, x = self._read(users, catalog)
        memory = self.reason_attn.project_kv(self.around(x))
        own = x[:, len(self.fields) :]
        queries = self._with_profile(self.around(own), users)
        looked: Tensor = self.reason_attn(queries, memory, Mask.causal())
        return self._with_profile(self.last(own + looked), users)

    def _read(self, people: UserBatch, shelf: ItemCatalog) -> tuple[UserBatch, Tensor]:
        """Users as they are told of, and features (b 1+f+t d) of all that is known."""
        people = people._replace(profiles=self.known.fields.drop_fields(people.profiles))
        x: Tensor = self.known(people, self.items.lookup(shelf, people.history))
        for layer in self.layers:
            x, _ = layer(x, Mask.causal())
        return people, x

    def _with_profile(self, x: Tensor, people: UserBatch) -> Tensor:
        """(b t d) -> (b t d+p): beside the features the profile, and the user's own vector where there is one."""
        told = [people.profiles] if self.users is None else [people.profiles, self.users(people.ids)]
        return torch.cat([x, *(part[:, None].expand(-1, x.shape[1], -1) for part in told)], dim=-1)

    def gates(self, states: Tensor) -> Tensor:
        """(m d) -> (m h)."""
        if self.gate is None:
            return states.new_zeros(len(states), 1)
        shares: Tensor = self.gate(states).log_softmax(dim=-1)
        return shares

    def _memory(self, shelf: ItemCatalog) -> KV:
        """Keys and values of all items, for one row of the batch."""
        items = self.items(shelf)
        return self.item_attn.project_kv(torch.cat([items, shelf.profiles], dim=-1)[None], items[None])

    def _queries(self, states: Tensor) -> Tensor:
        """(m d) -> (1 h m e)."""
        q: Tensor = self.item_attn.q(states)
        return q.view(1, len(states), self.item_attn.heads, -1).transpose(1, 2)

    def scores(self, states: Tensor, catalog: ItemCatalog) -> Tensor:
        """(m d) -> (m h n)."""
        found = self.item_attn.attend.weigh.scores(self._queries(states), self._memory(catalog).k.tensor)
        return found[0].transpose(0, 1)

    def query_key_vectors(self, states: Tensor, catalog: ItemCatalog) -> tuple[Tensor, Tensor] | None:
        """Queries (h m e) and keys (h n e), the scale in the queries."""
        dot = self.item_attn.attend.weigh.as_dot(self._queries(states), self._memory(catalog).k.tensor)
        return None if dot is None else (dot.q[0] * dot.scale, dot.k[0])

    def context(self, states: Tensor, catalog: ItemCatalog) -> Tensor:
        """(m d) -> (m e)."""
        mixed: Tensor = self.item_attn(states[None], self._memory(catalog))
        return mixed[0]

    def rating_logits(
        self, users: UserBatch, catalog: ItemCatalog, item_indices: Tensor, history_mask: Tensor | None = None
    ) -> Tensor:
        """(b k) -> (b k); the blocks over the history have no part in it, since it need not be in order."""
        fields = self.known.fields(self.known.fields.drop_fields(users.profiles))
        anyone = self.known.anyone.expand(len(fields), 1, -1)
        known = [anyone, *([fields] if self.fields else []), self.opinion.items.lookup(catalog, users.history)]
        before = 1 + len(self.fields)
        logits: Tensor = self.opinion(
            self.opinion.items.lookup(catalog, item_indices) + self._values(catalog, item_indices),
            torch.cat(known, dim=1),
            self.opinion.usual.lookup(catalog, item_indices)[..., 0],
            liked=self.opinion.rating_features(users, catalog, prefix_length=before),
            sight=rating_mask(users, history_mask, prefix_length=before),
        )
        return logits

    def _values(self, shelf: ItemCatalog, places: Tensor) -> Tensor:
        """(b k) -> (b k d): what there is to get from items, W_O W_V item."""
        values: Tensor = self.item_attn.o(self.item_attn.v(self.items.lookup(shelf, places)))
        return values

    def state_contributions(self, users: UserBatch, catalog: ItemCatalog) -> StateContributions:
        """One user -> the last state as a sum over [anyone, fields, items]; the last norm is taken as it stands."""
        users, x = self._read(users, catalog)
        normed, heads = self.around(x), self.reason_attn
        memory = heads.project_kv(normed)
        q = heads.q(self._with_profile(normed[:, -1:], users)).view(1, heads.heads, 1, -1)
        weights = heads.attend.weigh(q, memory.k.tensor)[0, :, 0]  # (h r)
        mixed = (weights[..., None] * memory.v[0]).transpose(0, 1).flatten(1)  # (r h·e)
        shares = mixed @ heads.o.weight.mT
        shares[0] += heads.o.bias
        shares[-1] += x[0, -1]
        total = shares.sum(dim=0)
        spread = (total.var(unbiased=False) + self.last.eps).sqrt()
        shares = (shares - shares.mean(dim=-1, keepdim=True)) / spread * self.last.weight
        shares[0] += self.last.bias
        told = self._with_profile(shares.new_zeros(1, 1, 0), users)[0, 0]  # (p) features of the profile
        beside = shares.new_zeros(len(shares), len(told))
        low = 0
        for place, width in enumerate(self.fields, start=1):
            beside[place, low : low + width] = told[low : low + width]
            low += width
        beside[0, low:] = told[low:]
        return StateContributions(torch.cat([shares, beside], dim=-1), weights.mean(dim=0))


def build(config: Config, sizes: RecommendationSpec) -> Recommender:
    """The only function of this file that sees both the choices and what the data decided."""
    dim, profile, described = config.dim, sum(sizes.user_field_dims), sum(sizes.item_field_dims)
    position = positions.build(config.position, dim, max_length=sizes.max_length)
    fields = ProfileEncoder(sizes.user_field_dims, dim, dropout=config.profile_dropout)
    known = UserEncoder(fields, EventFeatures(dim, days=sizes.span_days), position, dim=dim, dropout=config.dropout)
    layers = [_layer(config, position) for _ in range(config.layers)]
    width = dim + profile + config.user_dim
    each = dim // config.heads
    attend = Attend(scores.build("scaled_dot", each), queries="moments", keys="history")
    reasons = MultiHeadAttention(attend, HeadDims(width, dim, dim, dim, config.heads, each, each))
    attend = Attend(scores.build(config.score, dim), queries="users", keys="items")
    widths = HeadDims(width, dim + described, dim, dim, config.choice_heads, dim, dim // config.choice_heads)
    choice = _begin_alike(MultiHeadAttention(attend, widths), dim)
    users = nn.Embedding(sizes.num_users + 1, config.user_dim, padding_idx=0) if config.user_dim else None
    items = ItemEmbedding(sizes.num_items, described, dim, dropout=config.item_dropout)
    usual = ItemEmbedding(sizes.num_items, described, 1, dropout=config.item_dropout)
    alike = ItemEmbedding(sizes.num_items, described, dim, dropout=config.item_dropout)
    opinion = RatingHead(usual, alike, dim=dim, heads=config.heads, dropout=config.dropout)
    return Recommender(
        items,
        known,
        layers,
        history_attention=reasons,
        item_attention=choice,
        rating_head=opinion,
        dim=dim,
        user_embedding=users,
    )


def _layer(config: Config, position: PositionScheme) -> Block:
    widths = HeadDims.split_evenly(config.dim, config.heads)
    place = position.position_bias(heads=widths.num_heads, dim=widths.head_dim)
    score = scores.build("scaled_dot", widths.head_dim)
    attend = Attend(score, position_bias=place, dropout=config.attention_dropout, queries="history", keys="history")
    feedforward = FeedForward(config.dim, config.ffn_dim, activation=gelu)
    return Block(
        MultiHeadAttention(attend, widths), feedforward, make_norm=partial(PreNorm, config.dim, config.dropout)
    )


def _begin_alike(choice: MultiHeadAttention, dim: int) -> MultiHeadAttention:
    """Queries and keys that begin as the state and the item themselves: what was chosen last speaks for its like. What
    there is to get from an item is not known at first."""
    nn.init.zeros_(choice.o.weight)
    with torch.no_grad():
        for layer in (choice.q, choice.k):
            nn.init.normal_(layer.weight, std=INIT_NOISE_STD)
            for head in range(choice.heads):
                layer.weight[head * dim : (head + 1) * dim, :dim] += torch.eye(dim)
    return choice
