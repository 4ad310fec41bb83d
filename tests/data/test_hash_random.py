import numpy as np

from regard.data.hash_random import uniform


def test_draws_follow_from_the_number_alone():
    numbers = np.array([5, 2**40 + 3, 7])
    whole = uniform(numbers, 6)
    assert np.array_equal(uniform(numbers[1:2], 6), whole[1:2]) and np.array_equal(uniform(numbers, 3), whole[:, :3])


def test_draws_are_uniform_and_unrelated():
    drawn = uniform(np.arange(2000), 50)
    assert drawn.min() >= 0 and drawn.max() < 1
    counts = np.histogram(drawn, bins=20)[0] / drawn.size
    assert abs(counts - 0.05).max() < 0.003
    for one, other in ((drawn[:-1], drawn[1:]), (drawn[:, :-1], drawn[:, 1:])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.02
