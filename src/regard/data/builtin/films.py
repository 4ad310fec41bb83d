"""Generated users and films whose preferences depend on the profiles, so that the best recommendations are known.

A user has an age and an occupation, a film has genres and a year. Each occupation likes some genres and dislikes
others. Users prefer films of the years in which they were about twenty, and films that share a genre with the last
film they watched. These three effects determine the probability of every next film.
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
LIKED, DISLIKED = 2.2, -2.2  # logits of a genre
ERA_LOGIT, SAME_GENRE_LOGIT = 1.6, 1.8  # logits of a film of the user's youth, and of a genre of the last film
FIRST_YEAR, LAST_YEAR, CURRENT_YEAR = 1950, 2024, 2025
ADJECTIVES = "Blue Broken Distant Empty Golden Hidden Last Long Lost Quiet Red Second Silent Small Wild Winter".split()
NOUNS = "Bridge City Door Garden Harbour Hour House Island Letter Moon Night River Road Station Summer Window".split()
MIN_RATINGS, MAX_RATINGS = 8, 32  # ratings of a user
DAY_SECONDS = 86_400


class Truth(NamedTuple):
    """True logits of the generator: users × films, and films × films."""

    taste: Array  # (u f) log probability of a film, up to a constant per user
    mood: Array  # (f f) logit that the last film adds to the next one


def generate_profiles(users: int, films: int, *, seed: int) -> tuple[dict[str, list[str]], dict[str, list[str]], Truth]:
    """Return the profiles of users and films by column, and the preferences that follow from them."""
    rng = np.random.default_rng([seed, 0])
    ages, jobs = rng.integers(16, 80, users), rng.integers(0, len(OCCUPATIONS), users)
    years, film_genres = rng.integers(FIRST_YEAR, LAST_YEAR + 1, films), _sample_genres(rng, films)
    genre_logits = np.zeros((len(OCCUPATIONS), len(GENRES)))
    for job in range(len(OCCUPATIONS)):  # neighbours share a genre, so that no occupation is isolated
        genre_logits[job, [job % 8, (job + 3) % 8]] = LIKED
        genre_logits[job, [(job + 1) % 8, (job + 5) % 8]] = DISLIKED
    youth = CURRENT_YEAR - ages[:, None] + 20
    era_proximity = np.exp(-(((years - youth) / 12.0) ** 2))
    popularity = 0.5 * rng.standard_normal(films)
    genre_weights = film_genres / film_genres.sum(axis=1, keepdims=True)
    taste = genre_logits[jobs] @ genre_weights.T + ERA_LOGIT * era_proximity + popularity
    user_columns = {"age": [str(age) for age in ages], "occupation": [OCCUPATIONS[i] for i in jobs]}
    genres = ["|".join(g for g, has_genre in zip(GENRES, row, strict=True) if has_genre) for row in film_genres]
    titles = [f"{title} ({year})" for title, year in zip(_titles(films), years, strict=True)]
    film_columns = {"title": titles, "year": [str(year) for year in years], "genres": genres}
    share_genre = (film_genres @ film_genres.T > 0).astype(np.float64)
    return user_columns, film_columns, Truth(taste, SAME_GENRE_LOGIT * share_genre)


def generate(users: int, films: int, *, seed: int) -> RatingTables:
    """Generate the tables of users, films and ratings."""
    user_columns, film_columns, truth = generate_profiles(users, films, seed=seed)
    rng = np.random.default_rng([seed, 1])
    lengths = rng.integers(MIN_RATINGS, min(MAX_RATINGS, films // 2) + 1, users)
    watched, last = np.zeros((users, films), dtype=np.bool_), np.full(users, -1)
    clock = rng.integers(0, 300, users) * DAY_SECONDS + 1_600_000_000
    normalized_taste = (truth.taste - truth.taste.mean(axis=1, keepdims=True)) / truth.taste.std(axis=1, keepdims=True)
    rows: list[tuple[int, int, int, int]] = []
    for step in range(int(lengths.max())):
        scores = truth.taste + np.where(last[:, None] >= 0, truth.mood[last], 0.0)
        chosen = np.where(watched, -np.inf, scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
        mean_stars = 3.2 + 0.9 * normalized_taste[np.arange(users), chosen]
        stars = np.clip(np.rint(mean_stars + 0.5 * rng.standard_normal(users)), 1, 5)
        clock = clock + rng.integers(600, 5 * DAY_SECONDS, users)
        rows += [(u, int(chosen[u]), int(stars[u]), int(clock[u])) for u in np.flatnonzero(step < lengths).tolist()]
        watched[np.arange(users), chosen], last = True, chosen
    cells = [[f"{row[0] + 1}", f"{row[1] + 1}", f"{row[2]}", f"{row[3]}"] for row in rows]
    path = Path("built-in films")
    ratings = {name: [row[i] for row in cells] for i, name in enumerate(("user", "item", "rating", "time"))}
    return RatingTables(
        (Table(path, ratings),),
        Table(path, {"user": [str(i + 1) for i in range(users)], **user_columns}),
        Table(path, {"item": [str(i + 1) for i in range(films)], **film_columns}),
        Columns(),
        FIVE_STAR_SCALE,
    )


def _sample_genres(rng: np.random.Generator, films: int) -> NDArray[np.int64]:
    """Return (f g) with one or two genres per film."""
    genres = np.zeros((films, len(GENRES)), dtype=np.int64)
    genres[np.arange(films), np.arange(films) % len(GENRES)] = 1
    has_second = rng.random(films) < 0.4
    genres[np.flatnonzero(has_second), rng.integers(0, len(GENRES), int(has_second.sum()))] = 1
    return genres


def _titles(count: int) -> list[str]:
    """Return `count` different titles."""
    names = [f"The {adjective} {noun}" for noun in NOUNS for adjective in ADJECTIVES]
    order = np.random.default_rng(7).permutation(len(names))
    suffixes = ["", *(f" {sequel}" for sequel in range(2, 2 + count // len(names)))]
    return [f"{names[index]}{suffix}" for suffix in suffixes for index in order][:count]
