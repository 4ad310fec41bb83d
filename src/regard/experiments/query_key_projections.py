"""Why queries and keys are multiplied by learned matrices: likeness may attract in one feature and repel in another.

This file is also the model: users and items are compared by their profiles alone, as they are or after W_Q and W_K.
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
from regard.experiments._experiment import (
    Cell,
    ClaimResult,
    Figures,
    budget,
    cells_per_seed,
    describe_seeds,
    means,
    plot_bars,
    scaled_count,
    seed_values,
)
from regard.experiments._train_small import train_small

CLAIM = (
    "Queries and keys need learned matrices W_Q and W_K: where likeness means liking in one feature and disliking in"
    " another, a plain comparison cannot tell, learned weights can."
)
WHERE = "Vaswani et al. 2017, section 3.2.2"
STEPS = 400
USERS, ITEMS, ITEMS_PER_USER, TOP = 400, 120, 12, 10
PULL = 2.5  # how strongly a feature attracts or repels
NUM_TRAIN_ITEMS = (
    ITEMS_PER_USER - 2
)  # films that are learned from; of the last two one is asked for in validation, one in the test
CHANCE = TOP / (ITEMS - NUM_TRAIN_ITEMS)
HIT = f"hit among {TOP}"
VARIANTS = {"as they are": "none", "learned": "learned"}
ORACLE = "who knows the taste"


@dataclass(frozen=True)
class Config:
    """What stands between profiles and their comparison."""

    weights: Literal["learned", "none"] = "learned"  # W_Q and W_K, or nothing


class ProfileRecommender(nn.Module):
    """A `Chooser` in the sense of core.choosing: score = β · (W_Q user) · (W_K item), of the profiles alone."""

    fields = ()

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        learned = config.weights == "learned"
        self.q = nn.Linear(width, width, bias=False) if learned else nn.Identity()
        self.k = nn.Linear(width, width, bias=False) if learned else nn.Identity()
        self.sharpness = nn.Parameter(torch.tensor(1.0))
        self.weigh = Weigh(scores.build("scaled_dot", width))

    def states(self, users: UserBatch, catalog: ItemCatalog) -> Tensor:
        """(b 1+t p): the profile, whatever was chosen."""
        return users.profiles[:, None].expand(-1, users.history.shape[1] + 1, -1)

    def gates(self, states: Tensor) -> Tensor:
        """(m p) -> (m 1): there is one head."""
        return states.new_zeros(len(states), 1)

    def scores(self, states: Tensor, catalog: ItemCatalog) -> Tensor:
        """(m p) -> (m 1 n)."""
        found = self.weigh.scores(self.q(states)[None, None], self.k(catalog.profiles)[None, None])
        return self.sharpness * found[0].transpose(0, 1)

    def query_key_vectors(self, states: Tensor, catalog: ItemCatalog) -> None:
        """Left out: scores are few."""


def build(config: Config, sizes: RecommendationSpec) -> ProfileRecommender:
    """Choices and what the data decided -> a model."""
    return ProfileRecommender(config, sum(sizes.user_field_dims))


class SyntheticUsers(NamedTuple):
    """What is known of the users that were made."""

    utility: np.ndarray[Any, np.dtype[np.float64]]  # (u i) of every film to every user
    choices: np.ndarray[Any, np.dtype[np.int64]]  # (u c) films in the order in which they were chosen


def write_dataset(folder: Path, users: int, *, seed: int) -> SyntheticUsers:
    """Tables of users and films with the same two features, and what was chosen: who is merry likes merry films, whose
    life is fast likes slow ones."""
    chance = np.random.default_rng(seed)
    people, films = chance.uniform(-1, 1, (users, 2)), chance.uniform(-1, 1, (ITEMS, 2))
    worth = PULL * (people[:, :1] @ films[:, :1].T - people[:, 1:] @ films[:, 1:].T)
    rows = ["user,item,rating,time"]
    drawn = (worth + chance.gumbel(size=worth.shape)).argsort(axis=1)[:, ::-1][:, :ITEMS_PER_USER]
    chosen = chance.permuted(drawn, axis=1)  # the best is not always first
    for user, order in enumerate(chosen):
        rows += [f"u{user},f{film},4,{1_600_000_000 + 86_400 * place}" for place, film in enumerate(order)]
    (folder / "ratings.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    for name, key, table in (("users", "user", people), ("items", "item", films)):
        listed = [
            f"{key[0] if key == 'user' else 'f'}{i},{merry:.3f},{fast:.3f}" for i, (merry, fast) in enumerate(table)
        ]
        (folder / f"{name}.csv").write_text("\n".join([f"{key},merry,fast", *listed]) + "\n", encoding="utf-8")
    return SyntheticUsers(worth, chosen)


def cells(effort: float) -> list[Cell]:
    """With and without the matrices, and what can be reached at all."""
    steps, seeds = budget(effort, STEPS)
    users = scaled_count(effort, USERS, 40)
    known = cells_per_seed(ORACLE, seeds, partial(_truth, users))
    return [
        cell for kind in VARIANTS for cell in cells_per_seed(kind, seeds, partial(_measure, kind, users, steps))
    ] + known


def _measure(kind: str, users: int, steps: int, seed: int) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        write_dataset(Path(folder), users, seed=seed)
        settings = [
            *(f"data.path={folder}", f"data.eval_k={TOP}", "data.batch_size=32", "training.optimizer.lr=0.02"),
            *(f"model={__name__}", f"model.weights={VARIANTS[kind]}"),
        ]
        with train_small("recommendation", settings, steps=steps, seed=seed) as made:
            return {HIT: made.scores[f"hr@{TOP}"], "loss": made.scores["loss"]}


def _truth(users: int, seed: int) -> dict[str, float]:
    """The same question, answered by what films are truly worth: films chosen before are left out, as for a model."""
    with TemporaryDirectory() as folder:
        worth, chosen = write_dataset(Path(folder), users, seed=seed)
    np.put_along_axis(worth, chosen[:, :NUM_TRAIN_ITEMS], -np.inf, axis=1)
    ranks = (worth > np.take_along_axis(worth, chosen[:, NUM_TRAIN_ITEMS : NUM_TRAIN_ITEMS + 1], axis=1)).sum(axis=1)
    return {HIT: float((ranks < TOP).mean())}


def verdict(figures: Figures) -> ClaimResult:
    """Learned matrices are far better than none, which do no better than chance."""
    hit, chance = means(figures, HIT), CHANCE
    plain, learned = (hit[kind] for kind in VARIANTS)
    return ClaimResult(
        learned > 1.5 * max(plain, chance) and plain < 1.5 * chance,
        f"Among the {TOP} films that suit best is the one that was chosen next in {learned:.0%} of cases with learned"
        f" matrices, in {plain:.0%} with profiles compared as they are; chance has {chance:.0%}, who knows the taste"
        f" {hit[ORACLE]:.0%}. {describe_seeds(figures)}.",
    )


def draw(figures: Figures, axes: Any) -> None:
    """Hits of each, and chance as a line."""
    plot_bars(axes, {HIT: seed_values(figures, HIT)}, y=f"chosen film among the best {TOP}")
    axes.axhline(CHANCE, color="#555555", linestyle="--", linewidth=1)
    axes.annotate("chance", (0.5, CHANCE), xytext=(0, 4), textcoords="offset points", ha="center")
