"""Softmax over many items: log probabilities, losses and top-k, in chunks of bounded memory.

    p(item) = Σ_h gate_h · softmax_h(scores)       a mixture over heads: Yang et al. 2018, equation 3

Losses are objects: `FullSoftmax` over all items; `SampledSoftmax` over the target item and sampled negatives (Jean et
al. 2015); `SingleNegative` as in SASRec (Kang and McAuley 2018, equation 7).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import softplus
from torch.utils.checkpoint import checkpoint

from regard.core.config import check_fields
from regard.core.errors import ConfigError
from regard.core.protocols.recommender import ItemCatalog, RecommenderModel
from regard.layers.readout import linear_cross_entropy

MAX_SCORES = 2**22  # scores in memory at the same time, in losses and top-k
GROUP_ITEMS = 64  # items per group; groups are compared by their maxima first


class ItemLoss(Protocol):
    """States (m d) and the indices of the target items (m) -> the loss, summed."""

    def __call__(
        self, model: RecommenderModel, states: Tensor, catalog: ItemCatalog, target_items: Tensor
    ) -> Tensor: ...


@dataclass(frozen=True)
class FullSoftmax:
    """-log p(target) among all items."""

    smoothing: float = (
        0.0  # label smoothing: this share of the probability is spread over all items; only with one head
    )

    def __call__(self, model: RecommenderModel, states: Tensor, catalog: ItemCatalog, target_items: Tensor) -> Tensor:
        vectors = model.query_key_vectors(states, catalog)
        if vectors is not None and len(vectors[0]) == 1:  # one product, whose gradient is computed in the forward pass
            queries, keys = vectors
            return linear_cross_entropy(queries[0], keys[0], None, target_items, self.smoothing)
        if self.smoothing:
            raise ConfigError(f"smoothing={self.smoothing} needs one head and a dot-product score; set it to 0")
        return -log_probability(model, states, catalog, target_items).sum()


@dataclass(frozen=True)
class SampledSoftmax:
    """-log p(target) among the target and sampled negatives, each weighted by its inverse sampling rate."""

    num_negatives: int  # negatives, shared by all users

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("num_negatives",))

    def __call__(self, model: RecommenderModel, states: Tensor, catalog: ItemCatalog, target_items: Tensor) -> Tensor:
        size = len(catalog.ids)
        negatives = torch.randperm(size, device=target_items.device)[: self.num_negatives]
        targets, inverse = target_items.unique(return_inverse=True)
        target_scores = model.scores(states, catalog.take(targets)).gather(
            2, _per_head(inverse, model, states)
        )  # (m h 1)
        negative_scores = model.scores(states, catalog.take(negatives))  # (m h k)
        is_target = (negatives == target_items[:, None])[:, None]
        weight = torch.log(torch.tensor(max(1.0, (size - 1) / max(1, len(negatives)))))
        logits = torch.cat([target_scores, (negative_scores + weight).masked_fill(is_target, -torch.inf)], dim=-1)
        log_probs = logits.log_softmax(dim=-1)[..., 0] + model.gates(states)
        return -log_probs.logsumexp(dim=-1).sum()


@dataclass(frozen=True)
class SingleNegative:
    """-log σ(target) - log σ(-negative), one negative per target; scores are averaged over heads."""

    def __call__(self, model: RecommenderModel, states: Tensor, catalog: ItemCatalog, target_items: Tensor) -> Tensor:
        negatives = torch.randint(len(catalog.ids), target_items.shape, device=target_items.device)
        target_scores, negative_scores = (
            self._scores(model, states, catalog, indices) for indices in (target_items, negatives)
        )
        return softplus(-target_scores).sum() + softplus(negative_scores).sum()

    def _scores(self, model: RecommenderModel, states: Tensor, catalog: ItemCatalog, indices: Tensor) -> Tensor:
        vectors = model.query_key_vectors(states, catalog)
        if vectors is not None:
            queries, keys = vectors
            return (queries * keys[:, indices]).sum(dim=-1).mean(dim=0)
        unique_items, inverse = indices.unique(return_inverse=True)
        scores = model.scores(states, catalog.take(unique_items))
        return scores.gather(2, _per_head(inverse, model, states))[..., 0].mean(dim=1)


def _per_head(indices: Tensor, model: RecommenderModel, states: Tensor) -> Tensor:
    """(m) -> (m h 1), indices for gather."""
    return indices[:, None, None].expand(-1, model.gates(states[:1]).shape[1], 1)


def log_probability(model: RecommenderModel, states: Tensor, catalog: ItemCatalog, target_items: Tensor) -> Tensor:
    """(m) log p of the target items. Scores are recomputed in the backward pass, so that memory stays bounded."""
    chunk_size = max(1, MAX_SCORES // max(1, len(catalog.ids)))

    def chunk_log_probability(states_chunk: Tensor, indices: Tensor) -> Tensor:
        logits = model.scores(states_chunk, catalog)
        log_probs = logits.log_softmax(dim=-1).gather(2, _per_head(indices, model, states_chunk))[..., 0]
        return (log_probs + model.gates(states_chunk)).logsumexp(dim=-1)

    parts: list[Tensor] = []
    for low in range(0, len(target_items), chunk_size):
        inputs: Any = states[low : low + chunk_size], target_items[low : low + chunk_size]
        in_one_chunk = len(target_items) <= chunk_size or not torch.is_grad_enabled()
        parts.append(
            chunk_log_probability(*inputs)
            if in_one_chunk
            else checkpoint(chunk_log_probability, *inputs, use_reentrant=False)
        )
    return torch.cat(parts) if parts else states.new_zeros(0)


class TopItems(NamedTuple):
    """Top items of each user, best first."""

    indices: Tensor  # (m k)
    scores: Tensor  # (m k) log p


def all_log_probabilities(model: RecommenderModel, states: Tensor, catalog: ItemCatalog) -> Tensor:
    """(m n) log p of every item, in one piece."""
    logits = model.scores(states, catalog)
    mixed: Tensor = (logits.log_softmax(dim=-1) + model.gates(states)[..., None]).logsumexp(dim=1)
    return mixed


def top_items(
    model: RecommenderModel, states: Tensor, catalog: ItemCatalog, *, count: int, excluded: Tensor | None = None
) -> TopItems:
    """Return the `count` best items of each state, exactly, for any number of items.

    `excluded` (m s) are item indices to leave out, -1 for none. Items are processed in chunks: once, or twice with
    several heads, since the mixture needs the partition function of every head.
    """
    count = min(count, len(catalog.ids))
    if not count:
        return TopItems(states.new_zeros(len(states), 0, dtype=torch.long), states.new_zeros(len(states), 0))
    gates = model.gates(states)  # (m h)
    weight = gates - log_partition(model, states, catalog) if gates.shape[1] > 1 else None
    best, sums = None, []
    for low, scores in _chunks(model, states, catalog):
        if weight is None:
            mixed = scores[:, 0]  # (m chunk)
            sums.append(mixed.logsumexp(dim=-1))
        else:
            mixed = (scores + weight[..., None]).logsumexp(dim=1)
        if excluded is not None:
            _exclude(mixed, excluded - low)
        new = _largest(mixed, count)
        new = TopItems(new.indices + low, new.scores)
        best = new if best is None else _merged(best, new, count)
    assert best is not None
    if sums:
        best = TopItems(best.indices, best.scores - torch.stack(sums).logsumexp(dim=0)[:, None])
    return best


def log_partition(model: RecommenderModel, states: Tensor, catalog: ItemCatalog) -> Tensor:
    """(m h) log of the sum over all items, per head."""
    parts = [scores.logsumexp(dim=-1) for _, scores in _chunks(model, states, catalog)]
    return torch.stack(parts).logsumexp(dim=0)


def _chunks(model: RecommenderModel, states: Tensor, catalog: ItemCatalog) -> Iterator[tuple[int, Tensor]]:
    size = max(1, MAX_SCORES // max(1, len(states)) // GROUP_ITEMS) * GROUP_ITEMS
    for low in range(0, len(catalog.ids), size):
        part = ItemCatalog(*(column[low : low + size] for column in catalog))
        yield low, model.scores(states, part)


def _largest(scores: Tensor, count: int) -> TopItems:
    """Return the `count` largest entries of each row (m n). They are in the groups with the largest maxima, and a
    maximum is far cheaper than a sort."""
    size = scores.shape[1]
    if size % GROUP_ITEMS or size // GROUP_ITEMS <= count:
        top = scores.topk(min(count, size), dim=1)
        return TopItems(top.indices, top.values)
    groups = scores.unflatten(1, (-1, GROUP_ITEMS))  # (m g GROUP)
    best_groups = groups.amax(dim=-1).topk(count, dim=1).indices  # (m k)
    top_in_groups = groups.gather(1, best_groups[..., None].expand(-1, -1, GROUP_ITEMS)).flatten(1).topk(count, dim=1)
    return TopItems(
        best_groups.gather(1, top_in_groups.indices // GROUP_ITEMS) * GROUP_ITEMS + top_in_groups.indices % GROUP_ITEMS,
        top_in_groups.values,
    )


def _exclude(scores: Tensor, indices: Tensor) -> None:
    """Set the scores at these indices (m s) to -inf, in place; indices outside the row are ignored."""
    inside = (indices >= 0) & (indices < scores.shape[1])
    rows = torch.arange(len(indices), device=indices.device)[:, None].expand_as(indices)
    scores[rows[inside], indices[inside]] = -torch.inf


def _merged(first: TopItems, second: TopItems, count: int) -> TopItems:
    scores, indices = torch.cat([first.scores, second.scores], 1), torch.cat([first.indices, second.indices], 1)
    top = scores.topk(min(count, scores.shape[1]), dim=1)
    return TopItems(indices.gather(1, top.indices), top.values)
