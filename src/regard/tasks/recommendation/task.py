"""Recommendation: batches of histories, losses over items, ranking metrics, lists with reasons."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

from regard.core.data_size import DataSize
from regard.core.data_specs import RecommendationSpec
from regard.core.errors import DataError, did_you_mean
from regard.core.inference_mode import eval_mode
from regard.core.inspectable import Inspectable
from regard.core.protocols import Indices, Loss, TargetMetric
from regard.core.protocols.recommender import RecommenderModel
from regard.core.task import Prediction, Task
from regard.data.builtin import films
from regard.data.ratings import dataset, rating_files, user_query
from regard.data.ratings.dataset import RatingsCollection
from regard.data.ratings.history_batches import Histories, HistoryBatch, UnorderedHistories
from regard.data.ratings.splits import SPLIT_IDS, TRAIN, VALID
from regard.data.ratings.tables import Columns
from regard.data.ratings.user_query import UserQuery
from regard.data.text import document_corpus
from regard.layers.item_softmax import FullSoftmax, ItemLoss, SampledSoftmax, SingleNegative
from regard.tasks.recommendation import evaluation, inspect
from regard.tasks.recommendation.config import TINY, Config, Options
from regard.tasks.recommendation.evaluation import RecommendationEvaluation
from regard.tasks.recommendation.inspect import EmbeddingRecommender
from regard.tasks.recommendation.recommend import ListRecommender

__all__ = ["TINY", "Config", "Options", "Recommendation", "build", "load"]

NUM_EXAMPLE_USERS = 2  # users of the data among the examples
EXAMPLE_HISTORY_LENGTH = 20  # examples are the users whose histories are nearest to this length


class Recommendation(Task):
    """Recommendation task: windows of histories, losses over items, ranking metrics, lists with reasons."""

    spec: RecommendationSpec
    throughput_unit, input_suffixes = "choices", ()

    def __init__(self, config: Config, data: RatingsCollection) -> None:
        self.config, self.data = config, data
        liked = config.liked if config.objective == "clicks" else None
        histories = UnorderedHistories if config.objective == "any" else Histories
        self.histories = histories(
            data, max_length=config.max_history, split=config.split, causal=config.objective == "next", liked=liked
        )
        self.spec = RecommendationSpec(
            len(data.users.ids),
            len(data.items.ids),
            data.users.widths,
            data.items.widths,
            config.max_history,
            float(data.days.max()),
        )
        self.evaluation = RecommendationEvaluation(config, data, self.histories)
        started_at = time.monotonic()
        memory = self.evaluation.memory
        self.fit_s = time.monotonic() - started_at
        self.recommender = ListRecommender(config, data, self.histories, span_days=self.spec.span_days, memory=memory)
        top = config.eval_k
        self.target_metric = {
            "next": TargetMetric(f"ndcg@{top}", True),
            "any": TargetMetric(f"ndcg@{top}", True),
            "clicks": TargetMetric("auc", True),
            "ratings": TargetMetric("rmse", False),
        }[config.objective]
        self.higher_is_better = {
            **{f"{name}@{top}": True for name in ("hr", "precision", "recall")},
            "mrr": True,
            "loss": False,
            "log_loss": False,
        }
        self.examples = example_users(data)

    @cached_property
    def criterion(self) -> ItemLoss:
        """The loss of a choice among items."""
        config = self.config
        losses: dict[str, ItemLoss] = {
            "softmax": FullSoftmax(config.smoothing),
            "sampled": SampledSoftmax(config.num_negatives),
            "one_negative": SingleNegative(),
        }
        return losses[config.loss]

    def data_warnings(self) -> list[str]:
        return list(self.data.remarks)

    def data_summary(self) -> list[str]:
        return summarize_data(self.data)

    def fingerprint(self) -> dict[str, str]:
        return self.data.fingerprint()

    def epoch_batches(self, epoch: int, seed: int) -> list[Indices]:
        """Return the epoch's batches of windows of similar length."""
        batch_size, lengths = self.config.batch_size, self.histories.lengths
        if not self.config.ranks_items:  # a batch of short histories only would count as much as one of long ones
            lengths = np.ones_like(lengths)
        budget = batch_size * (self.config.max_history + 1)
        return document_corpus.epoch_batches(lengths, batch_size=batch_size, budget=budget, seed=seed, epoch=epoch)

    def collate(self, examples: Indices) -> HistoryBatch:
        """Window ids -> users, items and targets."""
        return self.histories.batch(examples)

    def loss(self, model: RecommenderModel, batch: HistoryBatch) -> Loss:
        """Return the loss of the next (or any other) choices, or of their ratings, summed over all choices."""
        targets, ratings = batch.targets[batch.target_mask], batch.ratings[batch.target_mask]
        if self.config.ranks_items:
            states = model.states(batch.users, batch.catalog)[batch.target_mask]
            return Loss(self.criterion(model, states, batch.catalog, targets), len(targets))
        logits = model.rating_logits(batch.users, batch.catalog, batch.targets, batch.visible)[batch.target_mask]
        if self.config.objective == "clicks":
            total = binary_cross_entropy_with_logits(logits, (ratings > 0).to(logits), reduction="sum")
        else:
            total = mse_loss(torch.tanh(logits / 2), ratings, reduction="sum")  # 2σ(x) - 1, from -1 to 1
        return Loss(total, len(targets))

    def evaluate(self, model: RecommenderModel, split: str, decoding: Any) -> dict[str, float]:
        """Return metrics of the lists, of predicted clicks or of predicted ratings.

        Lists have HR, NDCG and MRR of the next item, or precision, recall and NDCG of all held-out items of a user
        (with coverage and novelty). Clicks have AUC and log loss, ratings RMSE.
        """
        if split not in SPLIT_IDS or split == "train":
            raise DataError(f"there is no split {split!r} to evaluate; {did_you_mean(split, ('valid', 'test'))}")
        cases = self.histories.test_cases(SPLIT_IDS[split])
        if not cases:
            raise DataError(
                f"no rating is held out for {split!r}: users have too few ratings; give more, or choose split=time"
            )
        if not self.config.ranks_items:
            return self.evaluation.rating_metrics(model, cases)
        return self.evaluation.ranking_scores(model, cases)

    def extra_metrics(self, model: RecommenderModel, split: str, decoding: Any) -> dict[str, float]:
        """Return scores of cold users and items and of baselines, and on built-in data those of an oracle."""
        return self.evaluation.extra_metrics(model, SPLIT_IDS.get(split, VALID))

    def signatures(self) -> dict[str, str]:
        config = self.config
        return evaluation.signatures(config)

    def parse_input(self, text: str) -> UserQuery:
        """Parse '42', 'age=30, occupation=artist | Alien (1979); Blade Runner (1982)', or "": any user."""
        user, profile, history = user_query.parse(text)
        return user_query.resolve(self.data, user=user, profile=profile, history=history)

    def _query(self, parsed_input: UserQuery, options: Options) -> UserQuery:
        """Return the user of the options, or else of the input."""
        if not (options.user or options.profile or options.history):
            return parsed_input
        return user_query.resolve(self.data, user=options.user, profile=options.profile, history=options.history)

    def predict(
        self, model: RecommenderModel, inputs: Sequence[UserQuery], options: Options, decoding: Any
    ) -> list[list[Prediction]]:
        """Users -> the best items of each, with reasons."""
        with eval_mode(model) as device:
            catalog = self.evaluation.item_catalog(device)
            queries = [self._query(parsed_input, options) for parsed_input in inputs]
            return self.recommender.predict(model, queries, options, catalog)

    def inspect(
        self, model: EmbeddingRecommender, parsed_input: UserQuery, options: Options, decoding: Any
    ) -> Inspectable:
        """A user -> the list and its reasons, other users, and the items in two dimensions."""
        query = self._query(parsed_input, options)
        with eval_mode(model) as device:
            catalog = self.evaluation.item_catalog(device)
            return inspect.build_inspectable(self.recommender, model, query, options, catalog)

    def save(self, folder: Path) -> None:
        """Write users, items and ratings."""
        self.data.save(folder)


def example_users(data: RatingsCollection) -> tuple[str, ...]:
    """Return users whose histories are neither short nor long, and an empty input: any user."""
    counts = np.diff(data.user_offsets)
    order = np.argsort(np.abs(counts - EXAMPLE_HISTORY_LENGTH), kind="stable")
    return (*(data.users.ids[user] for user in order[:NUM_EXAMPLE_USERS]), "")


def summarize_data(data: RatingsCollection) -> list[str]:
    """Return the sizes of the splits, users and items, their profiles, and the start of the first history."""
    counts = ", ".join(f"{name} {int((data.split_ids == split).sum()):,}" for name, split in SPLIT_IDS.items())
    user_fields, item_fields = (
        ", ".join(f"{field.name} ({field.kind})" for field in table.fields) for table in (data.users, data.items)
    )
    profiles = f"profiles: {user_fields or 'none'} of users, {item_fields or 'none'} of items"
    user = int(data.events.users[0])
    profile = ", ".join([data.users.ids[user], *(f"{name} {cell}" for name, cell in data.users.profile(user).items())])
    first_items = data.events.items[: min(3, int(data.user_offsets[user + 1]))]
    titles = "; ".join(data.items.titles[item] for item in first_items)
    sizes = f"{len(data.users.ids):,} users, {len(data.items.ids):,} items"
    return [f"ratings: {counts}; {sizes}; {profiles}", f"first history: user {profile[:80]}: {titles[:160]} …"]


def measure(config: Config) -> DataSize:
    """Return the numbers of training ratings and of users."""
    data = build(config).data
    return DataSize("rating", int((data.split_ids == TRAIN).sum()), rows=len(data.users.ids))


def build(config: Config, folder: Path | None = None) -> Recommendation:
    """Return the task with the data of its path, generated data, or that of a run folder."""
    if folder is not None:
        return load(config, folder)
    columns = Columns(config.user, config.item, config.rating, config.time, config.title, config.header)
    tables = (
        rating_files.find_tables(config.path, columns)
        if config.path
        else films.generate(config.users, config.items, seed=config.seed)
    )
    data = dataset.build_collection(tables, config.dataset_options)
    evaluation.check_held_out(data, config)
    return Recommendation(config, data)


def load(config: Config, folder: Path) -> Recommendation:
    """Return the task of a run folder; the original files are not needed."""
    return Recommendation(config, dataset.load(folder))
