"""Recommendations as they are told and shown: a list with reasons, and a page of the user, the list and other users.

The best items by an index of neighbours (HNSW, Malkov and Yashunin 2018) instead of all products; by usearch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import ConfigError
from regard.core.extras import require
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output, Token
from regard.core.pca import pca_2d
from regard.core.protocols.recommender import ItemCatalog, UserBatch
from regard.core.task import Prediction
from regard.data.ratings import profiles
from regard.data.ratings.dataset import RatingsCollection
from regard.data.ratings.splits import SPLIT_IDS
from regard.data.ratings.user_query import UserQuery
from regard.layers.item_softmax import TopItems, all_log_probabilities, log_partition, top_items
from regard.tasks.recommendation import explain
from regard.tasks.recommendation.explain import Explanation, ItemScorer

if TYPE_CHECKING:
    from regard.tasks.recommendation import Options, Recommendation

NUM_EXAMPLE_USERS = 2  # users of the data that are worth a look
NUM_OTHER_USERS = 11  # other users whose choices are shown beside
MAX_MAP_ITEMS = 60  # items of a map of users × items
MAX_POINTS = 400  # items in two dimensions
BATCH_ITEMS = 4096  # items that are judged at a time
MAX_TITLE_SUGGESTIONS = 2000  # names a page suggests


class RecommendationResult(NamedTuple):
    """One user, answered."""

    users: UserBatch
    names: tuple[str, ...]  # of all that is known: anyone, the fields, the items
    excluded: Tensor  # (s) places that are left out
    items: Tensor  # (k) of what is recommended, best first
    scores: Tensor  # (k) log p, or the ratings that are foretold
    explanations: list[Explanation]


class RecommendedItem(NamedTuple):
    """A recommended item as a value."""

    item: str  # its id
    title: str
    score: float
    explanation: Explanation


def summarize_data(data: RatingsCollection) -> list[str]:
    """How much there is of each split, of users and of items; and how the first history begins."""
    counts = ", ".join(f"{name} {int((data.split_ids == part).sum()):,}" for name, part in SPLIT_IDS.items())
    fields = [", ".join(f"{field.name} ({field.kind})" for field in each.fields) for each in (data.users, data.items)]
    profiles = f"profiles: {fields[0] or 'none'} of users, {fields[1] or 'none'} of items"
    user = int(data.events.users[0])
    told = ", ".join([data.users.ids[user], *(f"{name} {cell}" for name, cell in data.users.profile(user).items())])
    begun = "; ".join(
        data.items.titles[place] for place in data.events.items[: min(3, int(data.user_offsets[user + 1]))]
    )
    sizes = f"{len(data.users.ids):,} users, {len(data.items.ids):,} items"
    return [f"ratings: {counts}; {sizes}; {profiles}", f"first history: user {told[:80]}: {begun[:160]} …"]


def example_users(data: RatingsCollection) -> tuple[str, ...]:
    """Users whose histories are neither short nor long, and nobody in particular."""
    counts = np.diff(data.user_offsets)
    order = np.argsort(np.abs(counts - 20), kind="stable")
    return (*(data.users.ids[place] for place in order[:NUM_EXAMPLE_USERS]), "")


def user_batch(task: Recommendation, query: UserQuery) -> tuple[UserBatch, tuple[int, ...]]:
    """Who is asked for -> one user with a history, and the places of all that was chosen."""
    data, longest = task.data, task.config.max_history
    if query.user is not None and query.uses_stored_history:
        rows = np.arange(data.user_offsets[query.user], data.user_offsets[query.user + 1])
        people = task.histories.user_batch([query.user], [rows[-longest:]])
        return people, tuple(data.events.items[rows].tolist())
    chosen = query.history[-longest:]
    encoded = torch.from_numpy(profiles.encode(data.users.fields, [query.profile]))
    history = torch.tensor([list(chosen)], dtype=torch.long)
    named = 0.0 if task.config.objective == "next" else 1.0  # who names an item of their own accord likes it
    none, now = torch.full((1, len(chosen)), named), torch.full((1, len(chosen)), task.spec.span_days)
    numbers = torch.zeros(1, dtype=torch.long)
    return UserBatch(numbers, encoded, history, none, now, torch.tensor([len(chosen)])), query.history


def evidence_names(task: Recommendation, model: Any, query: UserQuery, users: UserBatch) -> tuple[str, ...]:
    """What each thing known of the user is called."""
    told = [(field.name, query.profile.get(field.name, "")) for field in task.data.users.fields[: len(model.fields)]]
    fields = [f"{name} {value}" if value else f"{name} not told" for name, value in told]
    return ("anyone", *fields, *(task.data.items.titles[place] for place in users.history[0].tolist()))


def item_scorer(task: Recommendation, model: Any, catalog: ItemCatalog) -> ItemScorer | explain.StateScorer:
    """What items are ranked by: log p of the next choice, or what the user will think of each."""
    if task.config.objective == "next":
        return explain.StateScorer(model, catalog)
    places = torch.arange(len(catalog.ids), device=catalog.ids.device)

    def thought(people: UserBatch) -> Tensor:
        rows = len(people.lengths)
        return torch.cat(
            [model.rating_logits(people, catalog, some.expand(rows, -1)) for some in places.split(BATCH_ITEMS)], dim=1
        )

    return thought


def to_rating(task: Recommendation, logits: Tensor) -> Tensor:
    """What a user will think of items: the rating that is foretold, or log p that they are liked."""
    if task.config.objective == "clicks":
        return torch.nn.functional.logsigmoid(logits)
    low, high = task.data.scale
    return low + (high - low) * logits.sigmoid()


def recommend_items(
    task: Recommendation, model: Any, query: UserQuery, options: Options, catalog: ItemCatalog
) -> RecommendationResult:
    """The best items for one user, with their reasons."""
    people, chosen = user_batch(task, query)
    states = model.states(people, catalog)[:, -1]
    values, seen = (
        item_scorer(task, model, catalog),
        torch.tensor([] if options.include_seen else chosen, dtype=torch.long),
    )
    count = max(0, min(options.n, len(catalog.ids) - len(seen)))
    if options.index == "approximate":
        if task.config.objective != "next":
            raise ConfigError(
                f"index=approximate is for lists of what comes next, and this run was trained with data.objective="
                f"{task.config.objective}; leave it out"
            )
        near = approximate_top_items(model, states, catalog, count=count + len(seen))
        kept = ~torch.isin(near.indices[0], seen)
        places, scores = near.indices[0][kept][:count], near.scores[0][kept][:count]
    elif task.config.objective == "next":
        found = top_items(model, states, catalog, count=count, excluded=seen[None])
        places, scores = found.indices[0], found.scores[0]
    else:
        logits = values(people)[0].index_fill(0, seen, -torch.inf)
        found_logits, places = logits.topk(count)
        scores = to_rating(task, found_logits)
    names = evidence_names(task, model, query, people)
    told = places if options.reasons else places[:0]
    reasons = explain.explain(model, people, catalog, scorer=values, items=told, names=names, excluded=seen) or [
        Explanation((), None)
    ] * len(places)
    return RecommendationResult(people, names, seen, places, scores, reasons)


def to_predictions(
    task: Recommendation, model: Any, query: UserQuery, options: Options, catalog: ItemCatalog
) -> list[Prediction]:
    """One user -> the list."""
    found = recommend_items(task, model, query, options, catalog)
    listed = []
    for number, place in enumerate(found.items.tolist(), start=1):
        title, score = task.data.items.titles[place], float(found.scores[number - 1])
        because = explain.format_reasons(found.explanations[number - 1], number, options.reasons)
        value = RecommendedItem(task.data.items.ids[place], title, score, found.explanations[number - 1])
        text = f"{title}  ({because})" if because else title
        why = [reason._asdict() for reason in value.explanation.reasons[: options.reasons]]
        told = {"item": value.item, "title": title, "reasons": why, "rank_without": value.explanation.rank_without}
        listed.append(Prediction(text, score, score, value=value, remarks=query.remarks, data=told))
    return listed


def build_inspectable(
    task: Recommendation, model: Any, query: UserQuery, options: Options, catalog: ItemCatalog
) -> Inspectable:
    """One user -> the page."""
    begun = time.perf_counter()
    found = recommend_items(task, model, query, options, catalog)
    seconds = time.perf_counter() - begun
    data = task.data
    listed = _listed(found, data)
    few, chosen = catalog.take(listed), torch.tensor([0])
    others, titles = _others(task, model, query, catalog)
    name = "a new user" if query.user is None else f"user {data.users.ids[query.user]}"

    def logits(people: UserBatch) -> Tensor:
        if task.config.objective != "next":
            thought: Tensor = model.rating_logits(people, catalog, listed[None])
            return thought
        states = model.states(people, catalog)[:, -1]
        model.context(torch.cat([states, others]), few)  # the users' looks at the items, for whoever records
        return all_log_probabilities(model, states, few)

    known = Axis(tuple(Item(text, special=not i) for i, text in enumerate(found.names)), "profile and history")
    moments = ("before the first", *found.names[1 + len(model.fields) :])
    axes = {
        "history": known,
        "moments": Axis(tuple(map(Item, moments)), "moments"),
        "users": Axis(tuple(map(Item, (name, *titles))), "users"),
        "items": Axis(tuple(Item(data.items.titles[place]) for place in listed.tolist()), "items"),
        "judged": Axis(tuple(Item(data.items.titles[place]) for place in listed.tolist()), "items that are judged"),
    }
    return Inspectable(
        title=name,
        axes=axes,
        query_axes={key: (AxisRef(key),) for key in ("history", "moments", "users", "judged")},
        key_axes={key: (AxisRef(key),) for key in ("history", "items")},
        outputs=_outputs(found, data, likely=task.config.objective != "ratings"),
        replay=lambda: logits(found.users),
        predicted_ids=chosen,
        seconds=seconds,
        ablations={"history": lambda: _without(found, logits, model)},
        views=("recommendation",),
        extra={"recommendation": _page(task, model, query, found, catalog)},
    )


def _listed(found: RecommendationResult, data: RatingsCollection) -> Tensor:
    """The items of a map: what is recommended, then what is chosen most often."""
    popular = np.argsort(-data.item_counts, kind="stable")[:MAX_MAP_ITEMS].tolist()
    places = list(dict.fromkeys([*found.items.tolist(), *popular]))[: max(MAX_MAP_ITEMS, len(found.items))]
    return torch.tensor(places)


def _others(task: Recommendation, model: Any, asked: UserQuery, shelf: ItemCatalog) -> tuple[Tensor, list[str]]:
    """States (m d) of some other users, and what they are called."""
    places = np.linspace(0, len(task.data.users.ids) - 1, min(NUM_OTHER_USERS + 1, len(task.data.users.ids))).astype(
        int
    )
    users = [place for place in dict.fromkeys(places.tolist()) if place != asked.user][:NUM_OTHER_USERS]
    starts, longest = task.data.user_offsets, task.config.max_history
    rows = [np.arange(starts[user], starts[user + 1])[-longest:] for user in users]
    people = task.histories.user_batch(users, rows)
    states = model.states(people, shelf)[torch.arange(len(users)), people.lengths]
    return states, [f"user {task.data.users.ids[user]}" for user in users]


def _without(found: RecommendationResult, logits: Callable[[UserBatch], Tensor], model: Any) -> Tensor:
    """(m 1 v): the scores with each thing known taken away in turn; anyone is always there."""
    fewer = [explain.remove_evidence(found.users, place, model.fields) for place in range(1, len(found.names))]
    return torch.stack([logits(each) for each in (found.users, *fewer)])


def _outputs(found: RecommendationResult, data: RatingsCollection, *, likely: bool) -> tuple[Output, ...]:
    """What is recommended, with its log p where scores are `likely` and no ratings."""
    titles = [data.items.titles[place] for place in found.items.tolist()]
    if not likely:
        return tuple(map(Output, titles))
    scores = found.scores.tolist()
    return tuple(
        Output(title, score, score, (Token(title, score),)) for title, score in zip(titles, scores, strict=True)
    )


def _page(
    task: Recommendation, model: Any, asked: UserQuery, found: RecommendationResult, shelf: ItemCatalog
) -> dict[str, Any]:
    """Plain values for the view: the profile with what it can be, the history, the list, items in two dimensions."""
    data = task.data
    fields = [
        {
            "name": field.name,
            "kind": field.kind,
            "value": asked.profile.get(field.name, ""),
            "values": field.values[:60],
        }
        for field in data.users.fields
    ]
    listed = [
        {
            "title": data.items.titles[place],
            "score": float(score),
            "about": data.items.profile(place),
            "without": checked.rank_without,
            "reasons": [reason._asdict() for reason in checked.reasons[:4]],
        }
        for place, score, checked in zip(found.items.tolist(), found.scores, found.explanations, strict=True)
    ]
    seen = found.users.history[0].tolist()
    pictured = list(dict.fromkeys([*found.items.tolist(), *seen, *np.argsort(-data.item_counts).tolist()]))[:MAX_POINTS]
    vectors = torch.nn.functional.normalize(model.items(shelf.take(torch.tensor(pictured))), dim=-1)
    points = np.round(pca_2d(vectors.detach().float().numpy())[0], 4).tolist()
    return {
        "user": "" if asked.user is None else data.users.ids[asked.user],
        "fields": fields,
        "history": [data.items.titles[place] for place in seen],
        "list": listed,
        "remarks": list(asked.remarks),
        "titles": list(data.items.titles[:MAX_TITLE_SUGGESTIONS]),
        "items": {
            "titles": [data.items.titles[place] for place in pictured],
            "points": points,
            "recommended": len(found.items),
            "seen": len(seen),
        },
    }


class ItemIndex:
    """Keys (n e) -> the items whose inner product with a query is largest, nearly always."""

    def __init__(self, keys: Tensor, *, connectivity: int = 16, expansion: int = 96) -> None:
        usearch: Any = require("usearch.index", extra="recommendation")
        self._keys = keys.detach().float().cpu().numpy()
        # Inner products become distances between vectors of one length: the rest of it is one more feature.
        longest = float(np.linalg.norm(self._keys, axis=1).max()) if len(self._keys) else 1.0
        rest = np.sqrt(np.maximum(longest**2 - (self._keys**2).sum(axis=1, keepdims=True), 0))
        width = self._keys.shape[1] + 1
        self._index = usearch.Index(
            ndim=width,
            metric="cos",
            dtype="f32",
            connectivity=connectivity,
            expansion_add=expansion,
            expansion_search=expansion,
        )
        self._index.add(np.arange(len(self._keys)), np.hstack([self._keys, rest]).astype(np.float32))

    def search(self, queries: Tensor, count: int) -> TopItems:
        """(m e) -> the `count` best of each, by the exact products of those that were found."""
        found = queries.detach().float().cpu().numpy()
        wide = np.hstack([found, np.zeros((len(found), 1))]).astype(np.float32)
        count = min(count, len(self._keys))
        places = np.asarray(self._index.search(wide, count).keys, dtype=np.int64).reshape(len(found), -1)
        scores = np.einsum("me,mke->mk", found, self._keys[places])
        order = np.argsort(-scores, axis=1, kind="stable")
        tensor = queries.new_tensor
        return TopItems(
            tensor(np.take_along_axis(places, order, 1)).long(), tensor(np.take_along_axis(scores, order, 1))
        )


def approximate_top_items(model: Any, states: Tensor, catalog: ItemCatalog, *, count: int) -> TopItems:
    """The `count` best items of each state, nearly always, with the log p that an exact search gives them."""
    index, queries = build_index(model, states, catalog)
    found = index.search(queries, count)
    return TopItems(found.indices, found.scores - log_partition(model, states, catalog))


def build_index(model: Any, states: Tensor, catalog: ItemCatalog) -> tuple[ItemIndex, Tensor]:
    """A model whose scores are one inner product -> an index of its items, and the queries of the states."""
    found = model.query_key_vectors(states, catalog)
    if found is None or len(found[0]) != 1:
        raise ConfigError(
            "index=approximate needs one head and a score that is an inner product (model.choice_heads=1, "
            "model.score=dot); index=exact works for every model"
        )
    queries, keys = found
    return ItemIndex(keys[0]), queries[0]
