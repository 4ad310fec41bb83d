"""Generated users and films: choices and ratings follow the true preferences."""

import numpy as np

from regard.data.builtin import films


def test_tables_depend_on_the_seed():
    assert films.generate(20, 30, seed=1) == films.generate(20, 30, seed=1) != films.generate(20, 30, seed=2)


def test_no_film_is_rated_twice_and_times_increase():
    table = films.generate(40, 30, seed=1).ratings[0].columns
    pairs = list(zip(table["user"], table["item"], strict=True))
    assert len(set(pairs)) == len(pairs)
    for user in set(table["user"]):
        times = [int(t) for u, t in zip(table["user"], table["time"], strict=True) if u == user]
        assert times == sorted(times) and len(times) >= films.MIN_RATINGS


def test_preferred_films_are_chosen_and_rated_higher():
    _, _, truth = films.generate_profiles(200, 60, seed=1)
    table = films.generate(200, 60, seed=1).ratings[0].columns
    users, items, stars = (np.array([int(x) for x in table[name]]) for name in ("user", "item", "rating"))
    chosen = truth.taste[users - 1, items - 1]
    assert chosen.mean() > truth.taste.mean() + 0.5
    assert np.corrcoef(chosen, stars)[0, 1] > 0.3


def test_titles_are_unique():
    titles = films.generate_profiles(3, 600, seed=1)[1]["title"]
    assert len(set(titles)) == 600
