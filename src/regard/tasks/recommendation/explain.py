"""Explanations of recommendations: the contribution of each piece of evidence, and the rank without the strongest.

Evidence is the profile and the history of a user. A reason's share is its attention weight times the slope of the
item's log probability along its contribution to the user's state (gradient × input). If the state of a model is not a
sum of contributions, the share is the decrease of the log probability without the reason. The rank is faithful in both
cases: the model is run again without the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.core.protocols.recommender import ItemCatalog, RecommenderModel, UserBatch, last_states
from regard.core.tied_ranks import rank_among
from regard.layers.item_softmax import all_log_probabilities

ItemScorer = Callable[[UserBatch], Tensor]  # users -> scores of all items (b n)


class Reason(NamedTuple):
    """A piece of evidence for an item."""

    position: int  # index of the evidence, 0: anyone; then the fields of the profile, then the items of the history
    name: str
    share: float  # of all evidence for the item
    weight: float | None  # attention, mean of the heads; None if the model has no such attention


class Explanation(NamedTuple):
    """The reasons for an item, strongest first, and its rank without the first of them."""

    reasons: tuple[Reason, ...]
    rank_without: int | None  # None: there is no reason to remove


class StateScorer(NamedTuple):
    """Scores all items from the user's last state only, so that contributions to the state add up."""

    model: RecommenderModel
    catalog: ItemCatalog

    def __call__(self, users: UserBatch) -> Tensor:
        return self.score_states(last_states(self.model, users, self.catalog))

    def score_states(self, states: Tensor) -> Tensor:
        """(m d) -> (m n)."""
        return all_log_probabilities(self.model, states, self.catalog)


def explain(
    model: RecommenderModel,
    users: UserBatch,
    catalog: ItemCatalog,
    *,
    scorer: ItemScorer | StateScorer,
    items: Tensor,
    names: Sequence[str],
    excluded: Tensor,
) -> list[Explanation]:
    """One user and recommended items (k) -> the reasons of each item, and its rank without the strongest."""
    if not len(items):
        return []
    scores, weights = contributions(model, users, catalog, scorer=scorer, items=items)
    scores = scores.clamp_min(0) * known_mask(users, model.fields)
    shares = scores / scores.sum(dim=1, keepdim=True).clamp_min(1e-9)
    strongest = [int(row[1:].argmax()) + 1 if row[1:].max() > 0 else 0 for row in shares] if shares.shape[1] > 1 else []
    ranks: dict[int, Tensor] = {}
    removed = sorted(set(strongest) - {0})
    for index, ablated in zip(removed, _scores_without(users, removed, model.fields, scorer=scorer), strict=True):
        item = index - 1 - len(model.fields)  # the removed item itself must not be recommended instead
        ablated[torch.cat([excluded, users.history[0, item : item + 1]]) if item >= 0 else excluded] = -torch.inf
        ranks[index] = rank_among(ablated[items], ablated.expand(len(items), -1)) - 0.5  # an item ties with itself
    explanations = []
    attention: Sequence[float | None] = [None] * shares.shape[1] if weights is None else weights.tolist()
    orders = shares.argsort(dim=1, descending=True).tolist()
    for row_index, (row, order) in enumerate(zip(shares.tolist(), orders, strict=True)):
        reasons = tuple(Reason(i, names[i], row[i], attention[i]) for i in order if i > 0 and row[i] > 0)
        rank = round(float(ranks[strongest[row_index]][row_index])) if reasons else None
        explanations.append(Explanation(reasons, rank))
    return explanations


def contributions(
    model: RecommenderModel,
    users: UserBatch,
    catalog: ItemCatalog,
    *,
    scorer: ItemScorer | StateScorer,
    items: Tensor,
) -> tuple[Tensor, Tensor | None]:
    """One user and items (k) -> the contribution (k r) of each piece of evidence, and attention (r) or None."""
    parts = model.state_contributions(users, catalog) if isinstance(scorer, StateScorer) else None
    if parts is None or not isinstance(scorer, StateScorer):
        scores = scorer(users)[0, items]
        indices = range(1, num_evidence(users, model.fields))
        losses = [scores - row[items] for row in _scores_without(users, indices, model.fields, scorer=scorer)]
        return torch.stack([torch.zeros_like(scores), *losses], dim=1), None
    with torch.enable_grad():  # a copy of the state for every item: one backward pass computes all slopes
        states = parts.contributions.sum(dim=0).detach().repeat(len(items), 1).requires_grad_()
        scores = scorer.score_states(states).gather(1, items[:, None])
        (slopes,) = torch.autograd.grad(scores.sum(), states)
    return slopes @ parts.contributions.detach().mT, parts.weights.detach()


def _scores_without(
    users: UserBatch, indices: Sequence[int], fields: Sequence[int], *, scorer: ItemScorer | StateScorer
) -> Tensor:
    """One user and indices of evidence -> the scores of all items without each of them (i n)."""
    fewer = [remove_evidence(users, index, fields) for index in indices]
    return scorer(join_users(fewer)) if fewer else torch.empty(0, 0)


def join_users(batches: Sequence[UserBatch]) -> UserBatch:
    """Return the users of several batches as one batch, with histories padded on the right."""
    size = max(batch.history.shape[1] for batch in batches)
    padded = [
        batch._replace(
            **{
                name: pad(getattr(batch, name), (0, size - batch.history.shape[1]))
                for name in ("history", "ratings", "times")
            }
        )
        for batch in batches
    ]
    return UserBatch(*(torch.cat(columns) for columns in zip(*padded, strict=True)))


def num_evidence(users: UserBatch, fields: Sequence[int]) -> int:
    """Return the number of pieces of evidence of one user: anyone, the fields, the items."""
    return 1 + len(fields) + int(users.lengths[0])


def known_mask(users: UserBatch, fields: Sequence[int]) -> Tensor:
    """Return a mask (r): 0 for fields of the profile that are missing, 1 for all other evidence."""
    mask = torch.ones(num_evidence(users, fields))
    for index, width in enumerate(fields, start=1):
        mask[index] = 1 - users.profiles[0, sum(fields[: index - 1]) + width - 1]
    return mask


def remove_evidence(users: UserBatch, index: int, fields: Sequence[int]) -> UserBatch:
    """Return one user without a piece of evidence: a field of the profile, or an item of the history."""
    if index <= len(fields):
        low = sum(fields[: index - 1])
        profiles = users.profiles.clone()
        profiles[:, low : low + fields[index - 1]] = 0
        profiles[:, low + fields[index - 1] - 1] = 1.0
        return users._replace(profiles=profiles)
    item = index - 1 - len(fields)
    remaining = torch.arange(users.history.shape[1]) != item
    return users._replace(
        history=users.history[:, remaining],
        ratings=users.ratings[:, remaining],
        times=users.times[:, remaining],
        lengths=users.lengths - 1,
    )


def format_reasons(explanation: Explanation, rank: int, count: int) -> str:
    """Return the reasons as text: because of … ; without it, rank 1 -> 5."""
    if not explanation.reasons or not count:
        return ""
    reasons = ", ".join(f"{reason.name} {reason.share:.0%}" for reason in explanation.reasons[:count])
    strongest = explanation.reasons[0].name
    is_same = explanation.rank_without == rank
    change = f"stays no. {rank}" if is_same else f"is no. {explanation.rank_without} instead of {rank}"
    return f"because of {reasons}; without {strongest} it {change}"
