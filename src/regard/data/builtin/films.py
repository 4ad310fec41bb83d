"""Users and films made by code: tastes hang on the profile, so what a user should be recommended is known.

A user has an age and an occupation, a film has genres and a year. Each occupation likes some genres and dislikes
others; people like films of the years in which they were about twenty; and who has just seen a film of a genre is in
the mood for another one. The chance of every film to be chosen next follows from these three.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.ratings.rating_files import FIVE_STAR_SCALE, RatingTables
from regard.data.ratings.tables import Columns, Table

Array = NDArray[np.float64]
GENRES = ("Comedy", "Crime", "Drama", "Fantasy", "Romance", "Space", "Travel", "War")
OCCUPATIONS = ("artist", "baker", "doctor", "driver", "engineer", "farmer", "student", "teacher", "writer")
LIKED, DISLIKED = 2.2, -2.2  # what a genre adds to the log of a film's chance
ERA_LOGIT, SAME_GENRE_LOGIT = 1.6, 1.8  # the same for a film of one's youth, and for a genre of the last film
FIRST_YEAR, LAST_YEAR, CURRENT_YEAR = 1950, 2024, 2025
ADJECTIVES = "Blue Broken Distant Empty Golden Hidden Last Long Lost Quiet Red Second Silent Small Wild Winter".split()
NOUNS = "Bridge City Door Garden Harbour Hour House Island Letter Moon Night River Road Station Summer Window".split()
MIN_RATINGS, MAX_RATINGS = 8, 32  # films that a user has seen
DAY_SECONDS = 86_400


class Truth(NamedTuple):
    """What decides: users × films, and films × films."""

    taste: Array  # (u f) log of a film's chance, up to a constant for each user
    mood: Array  # (f f) what the last film adds to the next one's


def generate_profiles(users: int, films: int, *, seed: int) -> tuple[dict[str, list[str]], dict[str, list[str]], Truth]:
    """Profiles of users and films by column, and what follows from them."""
    chance = np.random.default_rng([seed, 0])
    ages, work = chance.integers(16, 80, users), chance.integers(0, len(OCCUPATIONS), users)
    years, kinds = chance.integers(FIRST_YEAR, LAST_YEAR + 1, films), _kinds(chance, films)
    opinion = np.zeros((len(OCCUPATIONS), len(GENRES)))
    for place in range(len(OCCUPATIONS)):  # neighbours share a genre, so no occupation is alone
        opinion[place, [place % 8, (place + 3) % 8]] = LIKED
        opinion[place, [(place + 1) % 8, (place + 5) % 8]] = DISLIKED
    youth = CURRENT_YEAR - ages[:, None] + 20
    near = np.exp(-(((years - youth) / 12.0) ** 2))
    fame = 0.5 * chance.standard_normal(films)
    taste = opinion[work] @ (kinds / kinds.sum(axis=1, keepdims=True)).T + ERA_LOGIT * near + fame
    people = {"age": [str(age) for age in ages], "occupation": [OCCUPATIONS[i] for i in work]}
    genres = ["|".join(g for g, is_one in zip(GENRES, row, strict=True) if is_one) for row in kinds]
    titles = [f"{title} ({year})" for title, year in zip(_titles(films), years, strict=True)]
    things = {"title": titles, "year": [str(year) for year in years], "genres": genres}
    shared = (kinds @ kinds.T > 0).astype(np.float64)
    return people, things, Truth(taste, SAME_GENRE_LOGIT * shared)


def generate(users: int, films: int, *, seed: int) -> RatingTables:
    """The tables of users, films and ratings."""
    people, things, truth = generate_profiles(users, films, seed=seed)
    chance = np.random.default_rng([seed, 1])
    lengths = chance.integers(MIN_RATINGS, min(MAX_RATINGS, films // 2) + 1, users)
    seen, last = np.zeros((users, films), dtype=np.bool_), np.full(users, -1)
    clock = chance.integers(0, 300, users) * DAY_SECONDS + 1_600_000_000
    liking = (truth.taste - truth.taste.mean(axis=1, keepdims=True)) / truth.taste.std(axis=1, keepdims=True)
    rows: list[tuple[int, int, int, int]] = []
    for step in range(int(lengths.max())):
        scores = truth.taste + np.where(last[:, None] >= 0, truth.mood[last], 0.0)
        drawn = np.where(seen, -np.inf, scores + chance.gumbel(size=scores.shape)).argmax(axis=1)
        stars = np.clip(
            np.rint(3.2 + 0.9 * liking[np.arange(users), drawn] + 0.5 * chance.standard_normal(users)), 1, 5
        )
        clock = clock + chance.integers(600, 5 * DAY_SECONDS, users)
        rows += [(u, int(drawn[u]), int(stars[u]), int(clock[u])) for u in np.flatnonzero(step < lengths).tolist()]
        seen[np.arange(users), drawn], last = True, drawn
    cells = [[f"{row[0] + 1}", f"{row[1] + 1}", f"{row[2]}", f"{row[3]}"] for row in rows]
    where = Path("built-in films")
    ratings = {name: [row[i] for row in cells] for i, name in enumerate(("user", "item", "rating", "time"))}
    return RatingTables(
        (Table(where, ratings),),
        Table(where, {"user": [str(i + 1) for i in range(users)], **people}),
        Table(where, {"item": [str(i + 1) for i in range(films)], **things}),
        Columns(),
        FIVE_STAR_SCALE,
    )


def _kinds(chance: np.random.Generator, films: int) -> NDArray[np.int64]:
    """(f g) one genre or two for each film."""
    kinds = np.zeros((films, len(GENRES)), dtype=np.int64)
    kinds[np.arange(films), np.arange(films) % len(GENRES)] = 1
    more = chance.random(films) < 0.4
    kinds[np.flatnonzero(more), chance.integers(0, len(GENRES), int(more.sum()))] = 1
    return kinds


def _titles(count: int) -> list[str]:
    """Different names for so many films."""
    pairs = [f"The {adjective} {noun}" for noun in NOUNS for adjective in ADJECTIVES]
    order = np.random.default_rng(7).permutation(len(pairs))
    rounds = ["", *(f" {number}" for number in range(2, 2 + count // len(pairs)))]
    return [f"{pairs[place]}{part}" for part in rounds for place in order][:count]
