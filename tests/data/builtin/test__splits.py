from collections import Counter

import pytest

from regard.core.errors import DataError
from regard.data.builtin._splits import split_of, split_rng


def test_valid_and_test_are_a_tenth_each():
    counts = Counter(split_of(f"text {i}") for i in range(5000))
    assert 400 < counts["valid"] < 600 and 400 < counts["test"] < 600


def test_the_seed_decides_and_an_unknown_split_is_an_error():
    draws = [
        split_rng(split, language="en", seed=seed).random() for split, seed in (("train", 1), ("train", 2), ("test", 1))
    ]
    assert len(set(draws)) == 3 and draws[0] == split_rng("train", language="en", seed=1).random()
    with pytest.raises(DataError, match="the built-in data has no split 'dev'; known: train, valid, test"):
        split_rng("dev", language="en", seed=1)
