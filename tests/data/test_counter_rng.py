import numpy as np

from regard.data.counter_rng import uniform


def test_draws_depend_only_on_the_key():
    keys = np.array([5, 2**40 + 3, 7])
    draws = uniform(keys, 6)
    assert np.array_equal(uniform(keys[1:2], 6), draws[1:2]) and np.array_equal(uniform(keys, 3), draws[:, :3])


def test_draws_are_uniform_and_uncorrelated():
    draws = uniform(np.arange(2000), 50)
    assert draws.min() >= 0 and draws.max() < 1
    counts = np.histogram(draws, bins=20)[0] / draws.size
    assert abs(counts - 0.05).max() < 0.003
    for left, right in ((draws[:-1], draws[1:]), (draws[:, :-1], draws[:, 1:])):
        assert abs(np.corrcoef(left.ravel(), right.ravel())[0, 1]) < 0.02
