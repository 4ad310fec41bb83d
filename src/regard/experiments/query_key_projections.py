"""Why queries and keys need learned projections: similarity may attract in one feature and repel in another.

This module is also the model: users and items are compared by their profiles alone, with or without W_Q and W_K.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention import scores
from regard.attention.weigh import Weigh
from regard.core.data_specs import RecommendationSpec
from regard.core.protocols.recommender import ItemCatalog, UserBatch
from regard.experiments._experiment import Cell, budget, cells_per_seed, scaled_count
from regard.experiments._plots import draw_baseline, plot_bars
from regard.experiments._train_small import train_small
from regard.experiments._verdict import ClaimResult, Figures, decide, describe_seeds, difference, means, seed_values

CLAIM = (
    "Queries and keys need learned projections W_Q and W_K: if similarity attracts in one feature and repels in"
    " another, a plain dot product fails, and learned projections succeed."
)
REFERENCE = "Vaswani et al. 2017, section 3.2.2"
STEPS = 400
CURVE = "validation loss"
RESOLUTION = 0.01  # nats; smaller differences do not matter
MIN_RATIO = 1.5  # of hit rates
USERS, ITEMS, ITEMS_PER_USER, TOP = 400, 120, 12, 10
ATTRACTION = 2.5  # logit by which a feature attracts or repels
NUM_TRAIN_ITEMS = ITEMS_PER_USER - 2  # the last two are for validation and test
CHANCE = TOP / (ITEMS - NUM_TRAIN_ITEMS)
HIT = f"hit@{TOP}"
VARIANTS = {"no projections": "none", "learned projections": "learned"}
ORACLE = "oracle"


@dataclass(frozen=True)
class Config:
    """Projections of the profiles before their comparison."""

    weights: Literal["learned", "none"] = "learned"  # W_Q and W_K, or none


class ProfileRecommender(nn.Module):
    """A `RecommenderModel` of the profiles alone: score = β · (W_Q user) · (W_K item)."""

    fields = ()

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        learned = config.weights == "learned"
        self.q = nn.Linear(width, width, bias=False) if learned else nn.Identity()
        self.k = nn.Linear(width, width, bias=False) if learned else nn.Identity()
        self.sharpness = nn.Parameter(torch.tensor(1.0))
        self.weigh = Weigh(scores.build("scaled_dot", width))

    def states(self, users: UserBatch, catalog: ItemCatalog) -> Tensor:
        """Return (b 1+t p): the profile, independent of the history."""
        return users.profiles[:, None].expand(-1, users.history.shape[1] + 1, -1)

    def gates(self, states: Tensor) -> Tensor:
        """(m p) -> (m 1): one head."""
        return states.new_zeros(len(states), 1)

    def scores(self, states: Tensor, catalog: ItemCatalog) -> Tensor:
        """(m p) -> (m 1 n)."""
        logits = self.weigh.scores(self.q(states)[None, None], self.k(catalog.profiles)[None, None])
        return self.sharpness * logits[0].transpose(0, 1)

    def query_key_vectors(self, states: Tensor, catalog: ItemCatalog) -> None:
        """Return None: there are few scores."""


def build(config: Config, sizes: RecommendationSpec) -> ProfileRecommender:
    """Build the model."""
    return ProfileRecommender(config, sum(sizes.user_field_dims))


class SyntheticUsers(NamedTuple):
    """Ground truth of the generated users."""

    utility: np.ndarray[Any, np.dtype[np.float64]]  # (u i) of every film for every user
    choices: np.ndarray[Any, np.dtype[np.int64]]  # (u c) films in order of choice


def write_dataset(folder: Path, users: int, *, seed: int) -> SyntheticUsers:
    """Write tables of users and films with the same two features, and of choices.

    Users prefer films with the same first feature and with the opposite second feature.
    """
    rng = np.random.default_rng(seed)
    user_features, film_features = rng.uniform(-1, 1, (users, 2)), rng.uniform(-1, 1, (ITEMS, 2))
    attraction = user_features[:, :1] @ film_features[:, :1].T - user_features[:, 1:] @ film_features[:, 1:].T
    utility = ATTRACTION * attraction
    rows = ["user,item,rating,time"]
    best = (utility + rng.gumbel(size=utility.shape)).argsort(axis=1)[:, ::-1][:, :ITEMS_PER_USER]
    choices = rng.permuted(best, axis=1)  # the best is not always first
    for user, order in enumerate(choices):
        rows += [f"u{user},f{film},4,{1_600_000_000 + 86_400 * day}" for day, film in enumerate(order)]
    (folder / "ratings.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    for name, key, prefix, features in (("users", "user", "u", user_features), ("items", "item", "f", film_features)):
        lines = [f"{prefix}{i},{merry:.3f},{fast:.3f}" for i, (merry, fast) in enumerate(features)]
        (folder / f"{name}.csv").write_text("\n".join([f"{key},merry,fast", *lines]) + "\n", encoding="utf-8")
    return SyntheticUsers(utility, choices)


def cells(effort: float) -> list[Cell]:
    """Return cells with and without projections, and the oracle."""
    steps, seeds = budget(effort, STEPS)
    users = scaled_count(effort, USERS, 40)
    oracle = cells_per_seed(ORACLE, seeds, partial(_measure_oracle, users))
    return [
        cell for kind in VARIANTS for cell in cells_per_seed(kind, seeds, partial(_measure, kind, users, steps))
    ] + oracle


def _measure(kind: str, users: int, steps: int, seed: int) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        write_dataset(Path(folder), users, seed=seed)
        settings = [
            *(f"data.path={folder}", f"data.eval_k={TOP}", "data.batch_size=32", "training.optimizer.lr=0.02"),
            *(f"model={__name__}", f"model.weights={VARIANTS[kind]}"),
        ]
        with train_small("recommendation", settings, steps=steps, seed=seed) as trained:
            metrics = {HIT: trained.scores[f"hr@{TOP}"], "loss": trained.scores["loss"]}
            return metrics | trained.late_gain("loss", resolution=RESOLUTION)


def _measure_oracle(users: int, seed: int) -> dict[str, float]:
    """Rank films by their true utility; films of the history are excluded, as for a model."""
    with TemporaryDirectory() as folder:
        utility, choices = write_dataset(Path(folder), users, seed=seed)
    np.put_along_axis(utility, choices[:, :NUM_TRAIN_ITEMS], -np.inf, axis=1)
    target_utility = np.take_along_axis(utility, choices[:, NUM_TRAIN_ITEMS : NUM_TRAIN_ITEMS + 1], axis=1)
    ranks = (utility > target_utility).sum(axis=1)
    return {HIT: float((ranks < TOP).mean())}


def verdict(figures: Figures) -> ClaimResult:
    """Check that learned projections are far better than none, which are no better than chance."""
    hit = means(figures, HIT)
    plain, learned = (hit[kind] for kind in VARIANTS)
    hits = seed_values(figures, HIT)
    conditions = {
        f"learned projections hit more than {MIN_RATIO} times as often as none and as chance": learned
        > MIN_RATIO * max(plain, CHANCE),
        f"no projections hit less than {MIN_RATIO} times as often as chance": plain < MIN_RATIO * CHANCE,
    }
    effects = [
        difference(f"{HIT}, learned minus no projections", *(hits[kind] for kind in reversed(VARIANTS)), form="+.1%")
    ]
    return decide(
        f"The next film is among the {TOP} best-ranked films in {learned:.0%} of cases with learned projections and in"
        f" {plain:.0%} without projections; chance is {CHANCE:.0%}, the oracle reaches {hit[ORACLE]:.0%}."
        f" {describe_seeds(figures)}.",
        conditions,
        effects,
    )


def draw(figures: Figures, axes: Any) -> None:
    """Plot the hit rate of each variant, with chance as a line."""
    plot_bars(axes, {HIT: seed_values(figures, HIT)}, y=HIT)
    draw_baseline(axes, CHANCE, "chance")
