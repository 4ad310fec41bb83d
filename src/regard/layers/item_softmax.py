"""Choices among many items: their log probability, losses, and the best of them, in chunks of bounded memory.

    p(item) = Σ_h gate_h · softmax_h(scores)       a mixture over heads: Yang et al. 2018, equation 3

Losses are objects: `FullSoftmax` over all items; `SampledSoftmax` over the chosen item and some others that were drawn
(Jean et al. 2015); `OneNegative` as in SASRec (Kang and McAuley 2018, equation 7).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import softplus
from torch.utils.checkpoint import checkpoint

from regard.core.errors import ConfigError
from regard.core.protocols.recommender import ItemCatalog, RecommenderModel
from regard.layers.readout import linear_cross_entropy

MAX_SCORES = 2**22  # that exist at once while a loss is computed or the best are looked for
GROUP_ITEMS = 64  # items whose maximum is taken before the best are looked for


class ItemLoss(Protocol):
    """States (m d) and the places of what was chosen (m) -> the loss, summed."""

    def __call__(
        self, model: RecommenderModel, states: Tensor, catalog: ItemCatalog, target_items: Tensor
    ) -> Tensor: ...


@dataclass(frozen=True)
class FullSoftmax:
    """-log p(chosen) among all items."""

    smoothing: float = 0.0  # this share of the probability is spread over all items; with one head only

    def __call__(self, model: RecommenderModel, states: Tensor, catalog: ItemCatalog, target_items: Tensor) -> Tensor:
        found = model.query_key_vectors(states, catalog)
        if found is not None and len(found[0]) == 1:  # one product, whose gradient is made in the forward pass
            queries, keys = found
            return linear_cross_entropy(queries[0], keys[0], None, target_items, self.smoothing)
        if self.smoothing:
            raise ConfigError(
                f"smoothing={self.smoothing} needs one head and a score that is an inner product; set it to 0"
            )
        return -log_probability(model, states, catalog, target_items).sum()


@dataclass(frozen=True)
class SampledSoftmax:
    """-log p(chosen) among the chosen item and some others, each counted as often as it would have to be drawn."""

    num_negatives: int  # items that are drawn, for all users together

    def __post_init__(self) -> None:
        if self.num_negatives < 1:
            raise ConfigError(f"negatives={self.num_negatives}: draw at least one item")

    def __call__(self, model: RecommenderModel, states: Tensor, catalog: ItemCatalog, target_items: Tensor) -> Tensor:
        size = len(catalog.ids)
        drawn = torch.randperm(size, device=target_items.device)[: self.num_negatives]
        own, inverse = target_items.unique(return_inverse=True)
        mine = model.scores(states, catalog.take(own)).gather(2, _per_head(inverse, model, states))  # (m h 1)
        others = model.scores(states, catalog.take(drawn))  # (m h k)
        same = (drawn == target_items[:, None])[:, None]
        weight = torch.log(torch.tensor(max(1.0, (size - 1) / max(1, len(drawn)))))
        logits = torch.cat([mine, (others + weight).masked_fill(same, -torch.inf)], dim=-1)
        picked = logits.log_softmax(dim=-1)[..., 0] + model.gates(states)
        return -picked.logsumexp(dim=-1).sum()


@dataclass(frozen=True)
class SingleNegative:
    """-log σ(chosen) - log σ(-another), one other item for each choice; heads are averaged."""

    def __call__(self, model: RecommenderModel, states: Tensor, catalog: ItemCatalog, target_items: Tensor) -> Tensor:
        other = torch.randint(len(catalog.ids), target_items.shape, device=target_items.device)
        near, far = (self._of(model, states, catalog, places) for places in (target_items, other))
        return softplus(-near).sum() + softplus(far).sum()

    def _of(self, model: RecommenderModel, states: Tensor, shelf: ItemCatalog, places: Tensor) -> Tensor:
        found = model.query_key_vectors(states, shelf)
        if found is not None:
            queries, keys = found
            return (queries * keys[:, places]).sum(dim=-1).mean(dim=0)
        own, inverse = places.unique(return_inverse=True)
        scores = model.scores(states, shelf.take(own))
        return scores.gather(2, _per_head(inverse, model, states))[..., 0].mean(dim=1)


def _per_head(places: Tensor, model: RecommenderModel, states: Tensor) -> Tensor:
    """(m) -> (m h 1), to gather by."""
    return places[:, None, None].expand(-1, model.gates(states[:1]).shape[1], 1)


def log_probability(model: RecommenderModel, states: Tensor, catalog: ItemCatalog, target_items: Tensor) -> Tensor:
    """(m) log p of what was chosen. Scores are made anew in the backward pass, so memory stays bounded."""
    rows = max(1, MAX_SCORES // max(1, len(catalog.ids)))

    def part(some: Tensor, places: Tensor) -> Tensor:
        logits = model.scores(some, catalog)
        picked = logits.log_softmax(dim=-1).gather(2, _per_head(places, model, some))[..., 0]
        return (picked + model.gates(some)).logsumexp(dim=-1)

    parts: list[Tensor] = []
    for low in range(0, len(target_items), rows):
        given: Any = states[low : low + rows], target_items[low : low + rows]
        whole = len(target_items) <= rows or not torch.is_grad_enabled()
        parts.append(part(*given) if whole else checkpoint(part, *given, use_reentrant=False))
    return torch.cat(parts) if parts else states.new_zeros(0)


class TopItems(NamedTuple):
    """The best items of each user, best first."""

    indices: Tensor  # (m k)
    scores: Tensor  # (m k) log p


def all_log_probabilities(model: RecommenderModel, states: Tensor, catalog: ItemCatalog) -> Tensor:
    """(m n) log p of every item: for as many states and items as fit."""
    logits = model.scores(states, catalog)
    mixed: Tensor = (logits.log_softmax(dim=-1) + model.gates(states)[..., None]).logsumexp(dim=1)
    return mixed


def top_items(
    model: RecommenderModel, states: Tensor, catalog: ItemCatalog, *, count: int, excluded: Tensor | None = None
) -> TopItems:
    """The `count` best items of each state, exactly, however many items there are; `seen` (m s) are places that are
    left out, -1 where there is none. Items are gone through in chunks: once, or with several heads twice, since only
    the sum of each head tells how its scores mix with those of the others."""
    count = min(count, len(catalog.ids))
    if not count:
        return TopItems(states.new_zeros(len(states), 0, dtype=torch.long), states.new_zeros(len(states), 0))
    gates = model.gates(states)  # (m h)
    weight = gates - log_partition(model, states, catalog) if gates.shape[1] > 1 else None
    kept, sums = None, []
    for low, scores in _chunks(model, states, catalog):
        if weight is None:
            mixed = scores[:, 0]  # (m chunk)
            sums.append(mixed.logsumexp(dim=-1))
        else:
            mixed = (scores + weight[..., None]).logsumexp(dim=1)
        if excluded is not None:
            _hide(mixed, excluded - low)
        new = _largest(mixed, count)
        new = TopItems(new.indices + low, new.scores)
        kept = new if kept is None else _merged(kept, new, count)
    assert kept is not None
    if sums:
        kept = TopItems(kept.indices, kept.scores - torch.stack(sums).logsumexp(dim=0)[:, None])
    return kept


def log_partition(model: RecommenderModel, states: Tensor, catalog: ItemCatalog) -> Tensor:
    """(m h) log of the sum over all items, for each head."""
    parts = [scores.logsumexp(dim=-1) for _, scores in _chunks(model, states, catalog)]
    return torch.stack(parts).logsumexp(dim=0)


def _chunks(model: RecommenderModel, states: Tensor, shelf: ItemCatalog) -> Iterator[tuple[int, Tensor]]:
    size = max(1, MAX_SCORES // max(1, len(states)) // GROUP_ITEMS) * GROUP_ITEMS
    for low in range(0, len(shelf.ids), size):
        part = ItemCatalog(*(column[low : low + size] for column in shelf))
        yield low, model.scores(states, part)


def _largest(scores: Tensor, count: int) -> TopItems:
    """The `count` largest of each row (m n). A maximum is far cheaper than a sort, and the largest of all are in the
    groups with the largest maxima."""
    size = scores.shape[1]
    if size % GROUP_ITEMS or size // GROUP_ITEMS <= count:
        found = scores.topk(min(count, size), dim=1)
        return TopItems(found.indices, found.values)
    groups = scores.unflatten(1, (-1, GROUP_ITEMS))  # (m g GROUP)
    where = groups.amax(dim=-1).topk(count, dim=1).indices  # (m k)
    near = groups.gather(1, where[..., None].expand(-1, -1, GROUP_ITEMS)).flatten(1).topk(count, dim=1)
    return TopItems(
        where.gather(1, near.indices // GROUP_ITEMS) * GROUP_ITEMS + near.indices % GROUP_ITEMS, near.values
    )


def _hide(scores: Tensor, places: Tensor) -> None:
    """In place: what stands at these places (m s) of each row can never be the best; places outside are none."""
    inside = (places >= 0) & (places < scores.shape[1])
    rows = torch.arange(len(places), device=places.device)[:, None].expand_as(places)
    scores[rows[inside], places[inside]] = -torch.inf


def _merged(one: TopItems, other: TopItems, count: int) -> TopItems:
    scores, places = torch.cat([one.scores, other.scores], 1), torch.cat([one.indices, other.indices], 1)
    found = scores.topk(min(count, scores.shape[1]), dim=1)
    return TopItems(places.gather(1, found.indices), found.values)
