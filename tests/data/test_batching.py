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


def plan_batches(source, target, **options):
    options = {"candidates": np.arange(len(source)), "budget": 60, "seed": 1, "epoch": 0} | options
    return batching.epoch_batches(source, target, **options)


@given(sides, st.integers(30, 200), st.integers(0, 3))
def test_every_example_is_in_one_batch_and_none_is_empty(pairs, budget, epoch):
    batches = plan_batches(*lengths(pairs), budget=budget, epoch=epoch)
    assert sorted(np.concatenate(batches)) == list(range(len(pairs)))
    assert all(len(batch) for batch in batches)


@given(sides, st.integers(30, 200))
def test_the_budget_counts_padded_tokens_of_the_larger_side(pairs, budget):
    source, target = lengths(pairs)
    for batch in plan_batches(source, target, budget=budget):
        assert len(batch) * max(source[batch].max(), target[batch].max()) <= budget


@given(sides)
def test_batches_depend_only_on_seed_and_epoch(pairs):
    source, target = lengths(pairs)
    first, again = plan_batches(source, target, epoch=3), plan_batches(source, target, epoch=3)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("change", [{"epoch": 1}, {"seed": 2}])
def test_batches_differ_between_epochs_and_seeds(change):
    random = np.random.default_rng(0)
    source, target = random.integers(1, 9, (2, 300))
    first, changed = plan_batches(source, target), plan_batches(source, target, **change)
    assert {tuple(sorted(batch)) for batch in first} != {tuple(sorted(batch)) for batch in changed}


def test_batches_are_not_sorted_by_length():
    width = np.repeat(np.arange(1, 31), 20)
    widths = [width[batch].max() for batch in plan_batches(width, width)]
    assert widths != sorted(widths) and widths != sorted(widths, reverse=True)


def test_too_long_pairs_are_reported():
    source, target = np.array([3, 50, 4, 5]), np.array([3, 4, 60, 5])
    selected, too_long = batching.select_by_length(source, target, max_length=40, budget=1000)
    assert selected.tolist() == [0, 3] and too_long.tolist() == [1, 2]


def test_the_budget_limits_a_single_pair_too():
    selected, too_long = batching.select_by_length(np.array([3, 50]), np.array([3, 4]), max_length=100, budget=40)
    assert selected.tolist() == [0] and too_long.tolist() == [1]


@pytest.mark.parametrize(
    ("max_length", "budget", "setting"),
    [(100, 2, "max_batch_tokens=2"), (2, 100, "max_length=2")],
    ids=["budget", "max_length"],
)
def test_a_limit_that_no_pair_fits_is_an_error(max_length, budget, setting):
    with pytest.raises(DataError, match=rf"no sentence pair fits {setting}; the shortest of 2 needs 3 tokens"):
        batching.select_by_length(np.array([3, 5]), np.array([2, 9]), max_length=max_length, budget=budget)


def test_no_pairs_are_an_error():
    empty = np.zeros(0, dtype=np.int64)
    with pytest.raises(DataError, match="there is no sentence pair with text on both sides"):
        batching.select_by_length(empty, empty, max_length=10, budget=10)


def test_batching_a_pair_over_the_budget_is_an_error():
    with pytest.raises(DataError, match="a sentence pair of 9 tokens is over the budget max_batch_tokens=8; remove it"):
        plan_batches(np.array([9]), np.array([1]), budget=8)


@given(st.lists(st.integers(0, 30), max_size=100), st.integers(1, 60), st.none() | st.integers(1, 7))
def test_rows_are_batched_by_length_longest_first(widths, budget, max_rows):
    lengths = np.array(widths, dtype=np.int64)
    batches = batching.batches_by_length(lengths, budget=budget, max_rows=max_rows)
    order = np.concatenate([np.zeros(0, dtype=np.int64), *batches])
    assert order.tolist() == sorted(range(len(widths)), key=lambda i: -widths[i])
    for batch in batches:
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= budget
        assert 1 <= len(batch) <= (max_rows or len(widths))


def test_a_small_corpus_is_one_shard(monkeypatch):
    assert batching.epoch_shard(10, epoch=3, seed=1) == (0, 10)
    monkeypatch.setattr(batching, "SHARD_PAIRS", 4)
    cycles = [
        [batching.epoch_shard(10, epoch=cycle * 3 + position, seed=1) for position in range(3)] for cycle in range(2)
    ]
    assert sorted(cycles[0]) == sorted(cycles[1]) == [(0, 3), (3, 6), (6, 10)]


def test_the_padding_fraction_is_that_of_padded_tensors():
    source, target = np.array([2, 4]), np.array([3, 3])
    assert batching.padding_fraction(source, target, [np.array([0, 1])]) == pytest.approx(2 / 14)


def test_pad_fills_on_the_right():
    padded = batching.pad([[5, 6, 7], [8]])
    assert padded.tokens.tolist() == [[5, 6, 7], [8, 0, 0]] and padded.lengths.tolist() == [3, 1]


def test_padding_of_no_rows_is_empty():
    assert batching.pad([]).tokens.shape == (0, 0)


def test_padding_on_multi30k_is_small(shared_data):
    pairs = list(read(shared_data / "multi30k", Languages("de", "en"))["train"])
    assert len(pairs) == 29_000
    vocabulary = tokenizer.train([text for pair in pairs for text in pair], level="word", size=8000)
    source, target = encode_in_memory(pairs, vocabulary, vocabulary).lengths()
    for budget in (2048, 4096):
        assert batching.padding_fraction(source, target, plan_batches(source, target, budget=budget)) < 0.04


def test_a_million_pairs_are_batched_in_seconds():
    random = np.random.default_rng(0)
    source = random.integers(2, 60, 1_000_000)
    target = np.clip(source + random.integers(-5, 6, len(source)), 2, 60)
    start = time.process_time()
    batches = plan_batches(source, target, budget=4096)
    assert time.process_time() - start < 10
    assert sum(map(len, batches)) == len(source) and batching.padding_fraction(source, target, batches) < 0.05
