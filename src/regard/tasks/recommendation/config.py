"""Settings and request options of the recommendation task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.core.config import check_fields
from regard.core.errors import ConfigError
from regard.data.ratings.dataset import DatasetOptions
from regard.data.ratings.splits import Split


@dataclass(frozen=True)
class Config:
    """Ratings, profiles, objective and batches. Without a path, generated users and films are used."""

    path: Path | None = None  # a folder (MovieLens 100K, 1M or ratings.csv; or ratings, users, items), or one table
    user: str = "user"  # user column of custom tables: its name, or its position counted from 1
    item: str = "item"  # item column
    rating: str = "rating"  # rating column; "": every row is a choice
    time: str = "time"  # time column, in seconds or as a date; "": rows are in order
    title: str = "title"  # title column of the table of items
    header: bool | None = None  # true if the ratings start with a header line; none: detected, or an error if unclear
    user_columns: tuple[str, ...] = ()  # columns of a user's profile, as age or age:number; none: all
    item_columns: tuple[str, ...] = ()  # columns of an item's profile; kinds: number, category, several (with |), text
    profiles: Literal["both", "users", "items", "none"] = "both"  # profiles that the model reads
    scale: tuple[float, float] | None = None  # lowest and highest rating; none: from the layout or the data
    split: Split = "leave_one_out"  # held-out events: each user's last two, the latest (time), random, or by files
    cold_users: float = 0.0  # share of users that are held out entirely, to test cold start
    cold_items: float = 0.0  # share of items that are held out entirely
    objective: Literal["next", "any", "clicks", "ratings"] = (
        "next"  # prediction target: the next item, any other item of the user (order hidden), liked or not, the rating
    )
    liked: float = 4.0  # clicks: ratings of at least this are liked
    disliked: float = 2.0  # clicks: ratings of at most this are not liked; those between are left out
    loss: Literal["softmax", "sampled", "one_negative"] = "softmax"  # next: over all items, a sample, or one negative
    num_negatives: int = 256  # sampled: items sampled per batch
    memory: float = 0.0  # next: weight of the items that are near the last ones in other histories, added to log p
    smoothing: float = 0.0  # softmax: this share of the probability is spread over all items
    max_history: int = 100  # maximum number of items of a history
    batch_size: int = 32  # histories in a batch
    eval_k: int = 10  # length of a scored list: HR@10
    users: int = 600  # number of users of the built-in data
    items: int = 240  # number of items of the built-in data
    seed: int = 1  # seed of the built-in data, and of random splits

    def __post_init__(self) -> None:
        check_fields(
            self,
            at_least_1=("num_negatives", "max_history", "batch_size", "eval_k", "users"),
            probability=("cold_users", "cold_items", "smoothing"),
        )
        if self.memory < 0 or (self.memory and self.objective != "next"):
            raise ConfigError(f"memory={self.memory}: give a weight of at least 0, and objective=next if it is above 0")
        if self.items < 20:
            raise ConfigError(f"items={self.items} must be at least 20")
        if self.scale is not None and not self.scale[0] < self.scale[1]:
            raise ConfigError(f"scale={list(self.scale)}: give the lowest rating, then the highest")
        if not self.ranks_items and not self.rating:
            raise ConfigError(f"objective={self.objective} needs a column of ratings; give data.rating=…")

    @property
    def ranks_items(self) -> bool:
        """True if the model predicts items, and not ratings of given items."""
        return self.objective in ("next", "any")

    @property
    def dataset_options(self) -> DatasetOptions:
        """Options for building the collection from tables."""
        return DatasetOptions(
            self.split,
            self.scale,
            user_columns=self.user_columns,
            item_columns=self.item_columns,
            profiles=self.profiles,
            cold_users=self.cold_users,
            cold_items=self.cold_items,
            seed=self.seed,
            ordered=self.objective != "any",
            excluded_ratings=(self.disliked, self.liked) if self.objective == "clicks" else None,
        )


TINY = Config(users=40, items=24, batch_size=8, max_history=12)  # for tests


@dataclass(frozen=True)
class Options:
    """User and length of the list. A user of the data, or a new one described by a profile and a history."""

    user: str = ""  # the id of a user of the data
    profile: str = ""  # of a new user: age=30,occupation=artist
    history: str = ""  # choices of a new user, oldest first: titles or ids separated by commas
    n: int = 10  # number of items
    reasons: int = 2  # number of reasons per item
    include_seen: bool = False  # also recommend items that were chosen before
    index: Literal["exact", "approximate"] = "exact"  # approximate: nearest-neighbour index, for very many items

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("n",), at_least_0=("reasons",))
        if self.user and (self.profile or self.history):
            raise ConfigError("give user=…, or a new user's profile=… and history=…, not both")
