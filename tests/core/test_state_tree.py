"""States as values: select, spread, and what is kept once per source."""

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
    own: Inner
    pair: tuple[Tensor, ...]
    source: Shared[Inner]


def state(sources=2, width=3):
    own = torch.arange(sources * width)
    return State(Inner(own[:, None] * 10, 4), (own, own + 100), Shared(Inner(torch.arange(sources) + 1000, 7, "kept")))


def test_select_reorders_what_belongs_to_hypotheses():
    found = select(state(), torch.tensor([4, 4, 0]))
    assert found.own.cache.flatten().tolist() == [40, 40, 0]
    assert found.pair[1].tolist() == [104, 104, 100]
    assert found.source.value.cache.tolist() == [1000, 1001]
    assert (found.own.step, found.source.value.name) == (4, "kept")
    assert isinstance(found, State) and isinstance(found.own, Inner) and isinstance(found.source, Shared)


def test_select_by_a_mask():
    assert select(state(), torch.arange(6) % 2 == 0).pair[0].tolist() == [0, 2, 4]


def test_select_sources_takes_all_hypotheses_of_each():
    found = select_sources(state(), torch.tensor([1]), width=3)
    assert found.pair[0].tolist() == [3, 4, 5]
    assert found.source.value.cache.tolist() == [1001]


def test_spread_puts_copies_side_by_side():
    found = repeat_rows(state(width=1), 3)
    assert found.pair[0].tolist() == [0, 0, 0, 1, 1, 1]
    assert found.source.value.cache.tolist() == [1000, 1001]
    assert batch_size(found) == 6


def test_map_reaches_everything():
    found = map_tensors(state(), lambda x: x * 0)
    assert not found.own.cache.any() and not found.source.value.cache.any()


def test_the_old_state_is_as_it_was():
    old = state()
    select(old, torch.tensor([5]))
    assert old.pair[0].tolist() == [0, 1, 2, 3, 4, 5]


def test_an_unknown_kind_of_state_is_an_error():
    with pytest.raises(TypeError, match="a state holds list; states are tuples of tensors and plain values"):
        select((torch.zeros(2), [torch.zeros(2)]), torch.tensor([0]))


class Ruler(NamedTuple):
    """A value that has a length of its own."""

    marks: Tensor

    def _join(self, other: Ruler, *, shared: bool) -> Ruler:
        longest = max(self.marks.shape[1], other.marks.shape[1])
        parts = [torch.nn.functional.pad(x, (0, longest - x.shape[1])) for x in (self.marks, other.marks)]
        return Ruler(torch.cat(parts) + (100 if shared else 0))


def test_rows_of_two_states_are_joined_one_below_the_other():
    first, second = state(sources=2), state(sources=1)
    joined = concat_states(first, second)
    assert batch_size(joined) == batch_size(first) + batch_size(second)
    assert torch.equal(joined.own.cache, torch.cat([first.own.cache, second.own.cache]))
    assert torch.equal(joined.source.value.cache, torch.cat([first.source.value.cache, second.source.value.cache]))
    assert (joined.own.step, joined.source.value.name) == (4, "kept")


def test_what_has_a_length_joins_itself_and_is_told_where_it_stands():
    short, long = Ruler(torch.ones(1, 2)), Ruler(torch.ones(1, 3))
    assert concat_states(short, long).marks.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert concat_states(Shared(short), Shared(long)).value.marks.tolist() == [[101, 101, 100], [101, 101, 101]]


def test_plain_values_must_agree():
    with pytest.raises(ValueError, match=r"^two states cannot be joined: one holds 4, the other 5$"):
        concat_states(Inner(torch.ones(1), 4), Inner(torch.ones(1), 5))
