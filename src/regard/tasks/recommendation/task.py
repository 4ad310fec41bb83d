"""Recommendation: users and what they chose in, what they will choose next out, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

from regard.core.data_specs import RecommendationSpec
from regard.core.errors import ConfigError, DataError, did_you_mean
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.protocols import Indices, Loss, TargetMetric
from regard.core.protocols.recommender import ItemCatalog
from regard.core.state_tree import map_tensors
from regard.core.task import Prediction, Task
from regard.data.builtin import films
from regard.data.ratings import dataset, rating_files, user_query
from regard.data.ratings.dataset import DatasetOptions, RatingsCollection
from regard.data.ratings.history_batches import Histories, HistoryBatch, TestCase
from regard.data.ratings.splits import SPLIT_IDS, VALID, Split
from regard.data.ratings.tables import Columns
from regard.data.ratings.user_query import UserQuery
from regard.data.text import document_corpus
from regard.layers.item_softmax import FullSoftmax, ItemLoss, SampledSoftmax, SingleNegative, all_log_probabilities
from regard.tasks.recommendation import evaluation, metrics, recommend
from regard.tasks.recommendation.metrics import RankingResult

BATCH_CASES = 256  # questions that are answered at a time


@dataclass(frozen=True)
class Config:
    """Which ratings, which profiles, what is foretold, which batches. Without a path, users and films made by code."""

    path: Path | None = None  # a folder (MovieLens 100K, 1M or ratings.csv; or ratings, users, items), or one table
    user: str = "user"  # the column of the user in tables of one's own: its name, or its number counted from 1
    item: str = "item"  # the column of the item
    rating: str = "rating"  # the column of the rating; "": every row is a choice
    time: str = "time"  # the column of the time, in seconds or as a date; "": rows are in order
    title: str = "title"  # the column of the name in the table of items
    header: bool | None = None  # whether the ratings begin with a line of names; none: it is found out, or asked
    user_columns: tuple[str, ...] = ()  # of a user's profile, as age or age:number; none: all
    item_columns: tuple[str, ...] = ()  # of an item's profile; kinds: number, category, several (with |), text
    profiles: Literal["both", "users", "items", "none"] = "both"  # whose profiles are read
    scale: tuple[float, float] | None = None  # lowest and highest rating; none: as the layout or the data says
    split: Split = "leave_one_out"  # what is held out: each user's last two, the latest (time), random, or by files
    cold_users: float = 0.0  # share of users who are held out entirely, to see how new ones fare
    cold_items: float = 0.0  # share of items that are held out entirely
    objective: Literal["next", "clicks", "ratings"] = (
        "next"  # what is foretold: the next item, liked or not, the rating
    )
    liked: float = 4.0  # clicks: ratings from here on are liked
    disliked: float = 2.0  # clicks: ratings up to here are not; those between are left out
    loss: Literal["softmax", "sampled", "one_negative"] = "softmax"  # next: over all items, some, or one other
    num_negatives: int = 256  # sampled: items that are drawn for a batch
    smoothing: float = 0.0  # softmax: this share of the probability is spread over all items
    max_history: int = 100  # items of a history that are read
    batch_size: int = 32  # histories in a batch
    eval_k: int = 10  # items of a list that is scored: HR@10
    users: int = 600  # of the built-in data
    items: int = 240  # of the built-in data
    seed: int = 1  # of the built-in data, and of what is held out at random

    def __post_init__(self) -> None:
        for name in ("num_negatives", "max_history", "batch_size", "eval_k", "users"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} must be at least 1")
        if self.items < 20:
            raise ConfigError(f"items={self.items} must be at least 20")
        for name in ("cold_users", "cold_items", "smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} must be at least 0 and below 1")
        if self.scale is not None and not self.scale[0] < self.scale[1]:
            raise ConfigError(f"scale={list(self.scale)}: give the lowest rating, then the highest")
        if self.objective != "next" and not self.rating:
            raise ConfigError(f"objective={self.objective} needs a column of ratings; give data.rating=…")

    @property
    def dataset_options(self) -> DatasetOptions:
        """How the tables become a collection."""
        return DatasetOptions(
            self.split,
            self.scale,
            user_columns=self.user_columns,
            item_columns=self.item_columns,
            profiles=self.profiles,
            cold_users=self.cold_users,
            cold_items=self.cold_items,
            seed=self.seed,
            excluded_ratings=(self.disliked, self.liked) if self.objective == "clicks" else None,
        )


TINY = Config(users=40, items=24, batch_size=8, max_history=12)  # for tests


@dataclass(frozen=True)
class Options:
    """Whom to recommend for, and how much. A user of the data, or a new one told by a profile and a history."""

    user: str = ""  # the id of a user of the data
    profile: str = ""  # of a new user: age=30,occupation=artist
    history: str = ""  # what a new user chose, oldest first: titles or ids with commas between them
    n: int = 10  # how many items
    reasons: int = 2  # how many reasons are told for each
    include_seen: bool = False  # items that were chosen before may be recommended too
    index: Literal["exact", "approximate"] = "exact"  # approximate: by an index of neighbours, for very many items

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ConfigError(f"n={self.n}: ask for at least one")
        if self.reasons < 0:
            raise ConfigError(f"reasons={self.reasons} must be at least 0")
        if self.user and (self.profile or self.history):
            raise ConfigError("give user=…, or a new user's profile=… and history=…, not both")


class Recommendation(Task):
    """Choices as a task: windows of histories, losses over items, ranks, lists with reasons."""

    throughput_unit, input_suffixes = "choices", ()

    def __init__(self, config: Config, data: RatingsCollection) -> None:
        self.config, self.data = config, data
        liked = config.liked if config.objective == "clicks" else None
        foretold = config.objective == "next"
        self.histories = Histories(
            data, max_length=config.max_history, split=config.split, causal=foretold, liked=liked
        )
        sizes = len(data.users.ids), len(data.items.ids), data.users.widths, data.items.widths
        self.spec = RecommendationSpec(*sizes, config.max_history, float(data.days.max()))
        top = config.eval_k
        self.target_metric = {
            "next": TargetMetric(f"ndcg@{top}", True),
            "clicks": TargetMetric("auc", True),
            "ratings": TargetMetric("rmse", False),
        }[config.objective]
        self.higher_is_better = {f"hr@{top}": True, "mrr": True, "loss": False, "log_loss": False}
        self.examples = recommend.example_users(data)

    @cached_property
    def criterion(self) -> ItemLoss:
        """The loss of a choice, as an object."""
        config = self.config
        kinds: dict[str, ItemLoss] = {
            "softmax": FullSoftmax(config.smoothing),
            "sampled": SampledSoftmax(config.num_negatives),
            "one_negative": SingleNegative(),
        }
        return kinds[config.loss]

    def data_warnings(self) -> list[str]:
        """What was mended in the data, and what is left out."""
        return list(self.data.remarks)

    def data_summary(self) -> list[str]:
        """Ratings of each split, users and items; and how the first history begins."""
        return recommend.summarize_data(self.data)

    def fingerprint(self) -> dict[str, str]:
        """A checksum of each split."""
        return self.data.fingerprint()

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """The epoch's batches of windows of like length."""
        rows, lengths = self.config.batch_size, self.histories.lengths
        if self.config.objective != "next":  # a batch of short histories alone would count as much as one of long ones
            lengths = np.ones_like(lengths)
        return document_corpus.epoch_batches(
            lengths, batch_size=rows, budget=rows * (self.config.max_history + 1), seed=seed, epoch=epoch
        )

    def collate(self, examples: Indices) -> HistoryBatch:
        """Window numbers -> users, items, and what was chosen."""
        return self.histories.batch(examples)

    def loss(self, model: Any, batch: HistoryBatch) -> Loss:
        """The loss of what was chosen next, or of what was thought of it, summed over all choices."""
        chosen, ratings = batch.targets[batch.target_mask], batch.ratings[batch.target_mask]
        if self.config.objective == "next":
            states = model.states(batch.users, batch.catalog)[batch.target_mask]
            return Loss(self.criterion(model, states, batch.catalog, chosen), len(chosen))
        logits = model.rating_logits(batch.users, batch.catalog, batch.targets, batch.visible)[batch.target_mask]
        if self.config.objective == "clicks":
            total = binary_cross_entropy_with_logits(logits, (ratings > 0).to(logits), reduction="sum")
        else:
            total = mse_loss(torch.tanh(logits / 2), ratings, reduction="sum")  # 2σ(x) - 1, from -1 to 1
        return Loss(total, len(chosen))

    def evaluate(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        """HR, NDCG, MRR, coverage and novelty of the lists; or AUC, log loss and RMSE of what is thought of items."""
        if split not in SPLIT_IDS or split == "train":
            raise DataError(f"there is no split {split!r} to ask about; {did_you_mean(split, ('valid', 'test'))}")
        questions = self.histories.test_cases(SPLIT_IDS[split])
        if not questions:
            raise DataError(f"no rating is held out for {split!r}: users have too few; give more, or split=time")
        if self.config.objective != "next":
            return evaluation.rating_metrics(self, model, questions)
        ranked = self.rank_cases(model, questions)
        scores = metrics.ranking_metrics(ranked.ranks, top=self.config.eval_k) | {"loss": float(ranked.losses.mean())}
        return scores | metrics.coverage_and_novelty(ranked.top_items, self.data.item_counts, top=self.config.eval_k)

    def rank_cases(self, model: Any, test_cases: Sequence[TestCase], candidates: Tensor | None = None) -> RankingResult:
        """Questions -> the rank of what was chosen among all items, or `among` some of them (n) bool."""
        parts = []
        with eval_mode(model) as device:
            shelf = self.item_catalog(device)
            for low in range(0, len(test_cases), BATCH_CASES):
                some = test_cases[low : low + BATCH_CASES]
                scores = all_log_probabilities(model, self.user_states(model, some, shelf), shelf).float().cpu()
                if candidates is not None:
                    scores = scores.masked_fill(~candidates, -torch.inf)
                parts.append(
                    metrics.rank_targets(scores, self.target_items(some), self.seen_items(some), top=self.config.eval_k)
                )
        return metrics.concat_rankings(parts)

    def item_catalog(self, device: torch.device) -> ItemCatalog:
        """All items, on a device."""
        found: ItemCatalog = map_tensors(self.histories.catalog, lambda x: x.to(device))
        return found

    def user_states(self, model: Any, test_cases: Sequence[TestCase], catalog: ItemCatalog) -> Tensor:
        """Questions -> (m d) what is known of each user at that moment."""
        people = map_tensors(self.histories.test_inputs(test_cases), lambda x: x.to(catalog.ids.device))
        states: Tensor = model.states(people, catalog)
        return states[torch.arange(len(test_cases)), people.lengths]

    def target_items(self, test_cases: Sequence[TestCase]) -> Tensor:
        """(m) the places of what was chosen."""
        return torch.from_numpy(self.data.events.items[[question.row for question in test_cases]])

    def seen_items(self, test_cases: Sequence[TestCase]) -> Tensor:
        """(m s) places of what each had chosen before, -1 where there is none."""
        rows = [self.histories.history_before(question) for question in test_cases]
        places = np.full((len(rows), max(map(len, rows), default=0)), -1)
        for i, mine in enumerate(rows):
            places[i, : len(mine)] = self.data.events.items[mine]
        return torch.from_numpy(places)

    def extra_metrics(self, model: Any, split: str, decoding: Any) -> dict[str, float]:
        """Users and items that were held out entirely, the rivals, and on built-in data the best that can be."""
        return evaluation.extra_metrics(self, model, SPLIT_IDS.get(split, VALID))

    def signatures(self) -> dict[str, str]:
        """How each score is computed, for others to repeat it."""
        config = self.config
        return evaluation.signatures(top=config.eval_k, liked=config.liked, disliked=config.disliked)

    def parse_input(self, text: str) -> UserQuery:
        """'42', 'age=30, occupation=artist | Alien (1979); Blade Runner (1982)', or nothing: anyone."""
        user, profile, history = user_query.parse(text)
        return user_query.resolve(self.data, user=user, profile=profile, history=history)

    def _asked(self, given: UserQuery, options: Options) -> UserQuery:
        if not (options.user or options.profile or options.history):
            return given
        told = {"user": options.user, "profile": options.profile, "history": options.history}
        return user_query.resolve(self.data, **told)

    def predict(
        self, model: Any, inputs: Sequence[UserQuery], options: Options, decoding: Any
    ) -> list[list[Prediction]]:
        """Users -> for each the best items, with reasons."""
        with eval_mode(model) as device:
            return [
                recommend.to_predictions(self, model, self._asked(given, options), options, self.item_catalog(device))
                for given in inputs
            ]

    def inspect(self, model: Any, parsed_input: UserQuery, options: Options, decoding: Any) -> Inspectable:
        """A user -> the list and its reasons, other users beside, and the items in two dimensions."""
        with eval_mode(model) as device:
            return recommend.build_inspectable(
                self, model, self._asked(parsed_input, options), options, self.item_catalog(device)
            )

    def save(self, folder: Path) -> None:
        """Write users, items and ratings."""
        self.data.save(folder)


def build(config: Config, folder: Path | None = None) -> Recommendation:
    """A config -> the task with its data, or with that of a run folder."""
    if folder is not None:
        return load(config, folder)
    columns = Columns(config.user, config.item, config.rating, config.time, config.title, config.header)
    path = config.path
    found = (
        rating_files.find_tables(path, columns)
        if path
        else films.generate(config.users, config.items, seed=config.seed)
    )
    data = dataset.build_collection(found, config.dataset_options)
    evaluation.check_held_out(data, config)
    return Recommendation(config, data)


def load(config: Config, folder: Path) -> Recommendation:
    """A config and a run folder -> the task; the files it was trained on are not needed."""
    return Recommendation(config, dataset.load(folder))
