"""Why an item is recommended: what each thing known of the user adds to its score, and its rank without the strongest.

A reason's share is its attention weight times what it says of the item: the slope of the item's log probability along
what the reason adds to the user's state (gradient × input). Where a model's state is no such sum, a reason's share is
what the log probability loses without it. The check is honest for both: the model is asked again without the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.core.protocols.recommender import ItemCatalog, UserBatch
from regard.layers.item_softmax import all_log_probabilities

ItemScorer = Callable[[UserBatch], Tensor]  # users -> scores of all items (b n)


class Reason(NamedTuple):
    """Something known of the user that speaks for an item."""

    place: int  # 0: anyone; then the fields of the profile, then the items of the history
    name: str
    share: float  # of all that speaks for the item
    weight: float | None  # attention, mean of the heads; None where the model has none to show


class Explanation(NamedTuple):
    """The reasons for an item, strongest first, and where it ranks without the first of them."""

    reasons: tuple[Reason, ...]
    rank_without: int | None  # None: there is no reason to take away


def contributions(
    model: Any, users: UserBatch, catalog: ItemCatalog, *, scorer: ItemScorer | StateScorer, items: Tensor
) -> tuple[Tensor, Any]:
    """One user and items (k) -> (k r): what each thing known adds to each item's score; and attention (r) or None."""
    parts = model.state_contributions(users, catalog) if isinstance(scorer, StateScorer) else None
    if parts is None or not isinstance(scorer, StateScorer):
        usual = scorer(users)[0, items]
        fewer = [remove_evidence(users, place, model.fields) for place in range(1, num_evidence(users, model.fields))]
        lost = [usual - scorer(each)[0, items] for each in fewer]
        return torch.stack([torch.zeros_like(usual), *lost], dim=1), None
    with torch.enable_grad():
        state = parts.shares.sum(dim=0).detach().requires_grad_()
        scores = scorer.score_states(state[None])[0, items]
        slopes = [torch.autograd.grad(score, state, retain_graph=True)[0] for score in scores]
    return torch.stack(slopes) @ parts.shares.detach().mT, parts.weights.detach()


class StateScorer(NamedTuple):
    """Scores of all items by way of the user's last state alone, so that what adds to the state adds to them."""

    model: Any
    catalog: ItemCatalog

    def __call__(self, people: UserBatch) -> Tensor:
        return self.score_states(self.model.states(people, self.catalog)[:, -1])

    def score_states(self, states: Tensor) -> Tensor:
        """(m d) -> (m n)."""
        return all_log_probabilities(self.model, states, self.catalog)


def num_evidence(users: UserBatch, fields: Sequence[int]) -> int:
    """How many things are known of one user: anyone, the fields, the items."""
    return 1 + len(fields) + int(users.lengths[0])


def known_mask(users: UserBatch, fields: Sequence[int]) -> Tensor:
    """(r) 1 for what is known of one user, 0 for a field that is not told, which is no reason."""
    kept = torch.ones(num_evidence(users, fields))
    for place, width in enumerate(fields, start=1):
        kept[place] = 1 - users.profiles[0, sum(fields[: place - 1]) + width - 1]
    return kept


def remove_evidence(users: UserBatch, index: int, fields: Sequence[int]) -> UserBatch:
    """One user as if one thing were not known: a field not told, or an item not chosen."""
    if index <= len(fields):
        low = sum(fields[: index - 1])
        profiles = users.profiles.clone()
        profiles[:, low : low + fields[index - 1]] = 0
        profiles[:, low + fields[index - 1] - 1] = 1.0
        return users._replace(profiles=profiles)
    item = index - 1 - len(fields)
    kept = torch.arange(users.history.shape[1]) != item
    columns = {name: getattr(users, name)[:, kept] for name in ("history", "ratings", "times")}
    return users._replace(**columns, lengths=users.lengths - 1)


def explain(
    model: Any,
    users: UserBatch,
    catalog: ItemCatalog,
    *,
    scorer: ItemScorer | StateScorer,
    items: Tensor,
    names: Sequence[str],
    excluded: Tensor,
) -> list[Explanation]:
    """One user and recommended items (k) -> for each its reasons, and the check."""
    if not len(items):
        return []
    found, weights = contributions(model, users, catalog, scorer=scorer, items=items)
    found = found.clamp_min(0) * known_mask(users, model.fields)
    shares = found / found.sum(dim=1, keepdim=True).clamp_min(1e-9)
    strongest = [int(row[1:].argmax()) + 1 if row[1:].max() > 0 else 0 for row in shares] if shares.shape[1] > 1 else []
    ranks: dict[int, Tensor] = {}
    for place in set(strongest) - {0}:
        scores = scorer(remove_evidence(users, place, model.fields))[0]
        item = place - 1 - len(model.fields)  # what is taken away is not recommended in its own place
        scores[torch.cat([excluded, users.history[0, item : item + 1]]) if item >= 0 else excluded] = -torch.inf
        ranks[place] = 1 + (scores > scores[items][:, None]).sum(dim=1)
    checked = []
    for number, row in enumerate(shares):
        order = [int(i) for i in row.argsort(descending=True) if i > 0 and row[i] > 0]
        reasons = tuple(
            Reason(i, names[i], float(row[i]), None if weights is None else float(weights[i])) for i in order
        )
        rank = int(ranks[strongest[number]][number]) if reasons else None
        checked.append(Explanation(reasons, rank))
    return checked


def format_reasons(explanation: Explanation, rank: int, count: int) -> str:
    """In words: because of … ; without it, rank 1 -> 5."""
    if not explanation.reasons or not count:
        return ""
    told = ", ".join(f"{reason.name} {reason.share:.0%}" for reason in explanation.reasons[:count])
    first = explanation.reasons[0].name
    kept = explanation.rank_without == rank
    place = f"stays no. {rank}" if kept else f"is no. {explanation.rank_without} instead of {rank}"
    return f"because of {told}; without {first} it {place}"
