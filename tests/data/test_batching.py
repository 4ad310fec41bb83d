import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import DataError
from regard.data import batching
from regard.data.text import tokenizer
from regard.data.text.pair_corpus import encode_in_memory
from regard.data.text.pair_files import Languages, read

sides = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=200)


def lengths(pairs):
    return tuple(np.array(side) for side in zip(*pairs, strict=True))


def whole(source, target, **choices):
    choices = {"among": np.arange(len(source)), "budget": 60, "seed": 1, "epoch": 0} | choices
    return batching.epoch_batches(source, target, **choices)


@given(sides, st.integers(30, 200), st.integers(0, 3))
def test_every_example_is_in_one_batch_and_none_is_empty(pairs, budget, epoch):
    batches = whole(*lengths(pairs), budget=budget, epoch=epoch)
    assert sorted(np.concatenate(batches)) == list(range(len(pairs)))
    assert all(len(batch) for batch in batches)


@given(sides, st.integers(30, 200))
def test_the_budget_counts_padded_tokens_of_the_larger_side(pairs, budget):
    source, target = lengths(pairs)
    for batch in whole(source, target, budget=budget):
        assert len(batch) * max(source[batch].max(), target[batch].max()) <= budget


@given(sides)
def test_the_plan_depends_on_seed_and_epoch_alone(pairs):
    source, target = lengths(pairs)
    first, again = whole(source, target, epoch=3), whole(source, target, epoch=3)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("change", [{"epoch": 1}, {"seed": 2}])
def test_another_epoch_or_seed_mixes_anew(change):
    random = np.random.default_rng(0)
    source, target = random.integers(1, 9, (2, 300))
    first, other = whole(source, target), whole(source, target, **change)
    assert {tuple(sorted(batch)) for batch in first} != {tuple(sorted(batch)) for batch in other}


def test_batches_do_not_come_sorted_by_length():
    width = np.repeat(np.arange(1, 31), 20)
    longest = [width[batch].max() for batch in whole(width, width)]
    assert longest != sorted(longest) and longest != sorted(longest, reverse=True)


def test_too_long_pairs_are_reported_not_lost():
    source, target = np.array([3, 50, 4, 5]), np.array([3, 4, 60, 5])
    kept, too_long = batching.select_by_length(source, target, max_length=40, budget=1000)
    assert kept.tolist() == [0, 3] and too_long.tolist() == [1, 2]


def test_the_budget_limits_a_single_pair_too():
    kept, too_long = batching.select_by_length(np.array([3, 50]), np.array([3, 4]), max_length=100, budget=40)
    assert kept.tolist() == [0] and too_long.tolist() == [1]


@pytest.mark.parametrize(
    ("longest", "budget", "setting"), [(100, 2, "tokens=2"), (2, 100, "longest=2")], ids=["budget", "longest"]
)
def test_a_limit_that_no_pair_fits_is_an_error(longest, budget, setting):
    with pytest.raises(DataError, match=rf"no sentence pair fits {setting}; the shortest of 2 needs 3 tokens"):
        batching.select_by_length(np.array([3, 5]), np.array([2, 9]), max_length=longest, budget=budget)


def test_no_pairs_are_an_error():
    nothing = np.zeros(0, dtype=np.int64)
    with pytest.raises(DataError, match="there is no sentence pair with text on both sides"):
        batching.select_by_length(nothing, nothing, max_length=10, budget=10)


def test_planning_a_pair_over_the_budget_is_an_error():
    with pytest.raises(DataError, match="a sentence pair of 9 tokens is over the budget tokens=8; leave it out"):
        whole(np.array([9]), np.array([1]), budget=8)


@given(st.lists(st.integers(0, 30), max_size=100), st.integers(1, 60), st.none() | st.integers(1, 7))
def test_rows_of_like_length_stand_together_longest_first(widths, budget, most):
    lengths = np.array(widths, dtype=np.int64)
    batches = batching.batches_by_length(lengths, budget=budget, max_rows=most)
    order = np.concatenate([np.zeros(0, dtype=np.int64), *batches])
    assert order.tolist() == sorted(range(len(widths)), key=lambda i: -widths[i])
    for batch in batches:
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= budget
        assert 1 <= len(batch) <= (most or len(widths))


def test_a_small_corpus_is_one_chapter(monkeypatch):
    assert batching.epoch_shard(10, epoch=3, seed=1) == (0, 10)
    monkeypatch.setattr(batching, "CHAPTER", 4)
    turns = [[batching.epoch_shard(10, epoch=turn * 3 + place, seed=1) for place in range(3)] for turn in range(2)]
    assert sorted(turns[0]) == sorted(turns[1]) == [(0, 3), (3, 6), (6, 10)]


def test_padding_is_what_padded_tensors_hold():
    source, target = np.array([2, 4]), np.array([3, 3])
    assert batching.padding_fraction(source, target, [np.array([0, 1])]) == pytest.approx(2 / 14)


def test_pad_fills_on_the_right():
    padded = batching.pad([[5, 6, 7], [8]])
    assert padded.tokens.tolist() == [[5, 6, 7], [8, 0, 0]] and padded.lengths.tolist() == [3, 1]


def test_no_rows_are_a_batch_of_none():
    assert batching.pad([]).tokens.shape == (0, 0)


def test_padding_on_multi30k_is_small(shared_data):
    pairs = list(read(shared_data / "multi30k", Languages("de", "en"))["train"])
    assert len(pairs) == 29_000
    vocabulary = tokenizer.train([text for pair in pairs for text in pair], level="word", size=8000)
    source, target = encode_in_memory(pairs, vocabulary, vocabulary).lengths()
    for budget in (2048, 4096):
        assert batching.padding_fraction(source, target, whole(source, target, budget=budget)) < 0.04


def test_a_million_pairs_are_planned_in_seconds():
    random = np.random.default_rng(0)
    source = random.integers(2, 60, 1_000_000)
    target = np.clip(source + random.integers(-5, 6, len(source)), 2, 60)
    start = time.process_time()
    batches = whole(source, target, budget=4096)
    assert time.process_time() - start < 10
    assert sum(map(len, batches)) == len(source) and batching.padding_fraction(source, target, batches) < 0.05
