"""Decoder states as values: select, repeat, concatenate; shared parts are stored once per source."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from regard.core.state_tree import Shared, batch_size, concat_states, map_tensors, repeat_rows, select, select_sources


class Inner(NamedTuple):
    cache: Tensor
    step: int
    name: str | None = None


class State(NamedTuple):
    inner: Inner
    pair: tuple[Tensor, ...]
    source: Shared[Inner]


def state(sources=2, width=3):
    rows = torch.arange(sources * width)
    shared = Shared(Inner(torch.arange(sources) + 1000, 7, "name"))
    return State(Inner(rows[:, None] * 10, 4), (rows, rows + 100), shared)


def test_select_reorders_the_hypotheses():
    selected = select(state(), torch.tensor([4, 4, 0]))
    assert selected.inner.cache.flatten().tolist() == [40, 40, 0]
    assert selected.pair[1].tolist() == [104, 104, 100]
    assert selected.source.value.cache.tolist() == [1000, 1001]
    assert (selected.inner.step, selected.source.value.name) == (4, "name")
    assert isinstance(selected, State) and isinstance(selected.inner, Inner) and isinstance(selected.source, Shared)


def test_select_by_a_mask():
    assert select(state(), torch.arange(6) % 2 == 0).pair[0].tolist() == [0, 2, 4]


def test_select_sources_takes_all_hypotheses_of_each():
    selected = select_sources(state(), torch.tensor([1]), width=3)
    assert selected.pair[0].tolist() == [3, 4, 5]
    assert selected.source.value.cache.tolist() == [1001]


def test_repeated_rows_are_adjacent():
    repeated = repeat_rows(state(width=1), 3)
    assert repeated.pair[0].tolist() == [0, 0, 0, 1, 1, 1]
    assert repeated.source.value.cache.tolist() == [1000, 1001]
    assert batch_size(repeated) == 6


def test_map_reaches_all_tensors():
    mapped = map_tensors(state(), lambda x: x * 0)
    assert not mapped.inner.cache.any() and not mapped.source.value.cache.any()


def test_select_does_not_change_its_input():
    old = state()
    select(old, torch.tensor([5]))
    assert old.pair[0].tolist() == [0, 1, 2, 3, 4, 5]


def test_an_unsupported_type_of_state_is_an_error():
    with pytest.raises(TypeError, match="a state holds list; states are tuples of tensors and plain values"):
        select((torch.zeros(2), [torch.zeros(2)]), torch.tensor([0]))


class Ruler(NamedTuple):
    """A value of variable length that implements `_join`."""

    ticks: Tensor

    def _join(self, other: Ruler, *, shared: bool) -> Ruler:
        length = max(self.ticks.shape[1], other.ticks.shape[1])
        parts = [torch.nn.functional.pad(x, (0, length - x.shape[1])) for x in (self.ticks, other.ticks)]
        return Ruler(torch.cat(parts) + (100 if shared else 0))


def test_states_are_concatenated_along_the_batch():
    first, second = state(sources=2), state(sources=1)
    joined = concat_states(first, second)
    assert batch_size(joined) == batch_size(first) + batch_size(second)
    assert torch.equal(joined.inner.cache, torch.cat([first.inner.cache, second.inner.cache]))
    assert torch.equal(joined.source.value.cache, torch.cat([first.source.value.cache, second.source.value.cache]))
    assert (joined.inner.step, joined.source.value.name) == (4, "name")


def test_values_of_variable_length_join_themselves():
    short, long = Ruler(torch.ones(1, 2)), Ruler(torch.ones(1, 3))
    assert concat_states(short, long).ticks.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert concat_states(Shared(short), Shared(long)).value.ticks.tolist() == [[101, 101, 100], [101, 101, 101]]


def test_plain_values_must_agree():
    with pytest.raises(ValueError, match=r"^two states cannot be joined: one holds 4, the other 5$"):
        concat_states(Inner(torch.ones(1), 4), Inner(torch.ones(1), 5))
