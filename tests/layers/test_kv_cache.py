"""A memory grows in place and stays a value; its rows are selected and joined, the shorter ones padded."""

from __future__ import annotations

import pytest
import torch

from regard.attention.kernels.short_keys import padded_length
from regard.attention.masks import Mask
from regard.attention.score import ProjectedKeys
from regard.core.state_tree import Shared, batch_size, concat_states, map_tensors, select
from regard.layers.kv_cache import KV


def memory(s, b=3):
    return KV.of(ProjectedKeys(torch.randn(b, 2, s, 4)), torch.randn(b, 2, s, 5))


def test_append():
    old, new = memory(2), memory(3)
    both = old.append(new)
    assert both.length == 5
    assert both.k.tensor.equal(torch.cat([old.k.tensor, new.k.tensor], dim=2)) and both.v.equal(
        torch.cat([old.v, new.v], dim=2)
    )
    assert old.length == 2  # a value: the old one is as it was


def test_gradients_go_through():
    old, new = memory(2), memory(3)
    new.keys.requires_grad_()
    old.append(new).k.tensor.sum().backward()
    assert new.keys.grad.equal(torch.ones_like(new.keys))


def test_an_empty_memory_adds_nothing():
    full = memory(2)
    assert memory(0).append(full).k.tensor.equal(full.k.tensor)
    assert full.append(memory(0)).v.equal(full.v)


def test_it_grows_in_place_and_stays_a_value():
    start, new, other = memory(2), memory(1), memory(1)
    first = start.append(new)
    longer = first.append(other)
    second = first.append(new)  # a second future of the same past: it copies first
    assert longer.k.tensor.data_ptr() == first.k.tensor.data_ptr() != second.k.tensor.data_ptr()
    assert longer.k.tensor.equal(torch.cat([start.k.tensor, new.k.tensor, other.k.tensor], dim=2))
    assert second.v.equal(torch.cat([start.v, new.v, new.v], dim=2))
    assert first.k.tensor.equal(torch.cat([start.k.tensor, new.k.tensor], dim=2))


def test_it_grows_beyond_its_columns():
    grown, parts = memory(1), [memory(50) for _ in range(4)]
    expected = torch.cat([grown.k.tensor, *(part.k.tensor for part in parts)], dim=2)
    with torch.inference_mode():
        for part in parts:
            grown = grown.append(part)
    assert grown.k.tensor.equal(expected)
    with torch.no_grad():  # tensors of the inference mode are not written outside of it
        assert grown.append(parts[0]).length == 251


@pytest.mark.parametrize("length", [1, 15, 16, 17, 300])
def test_spare_columns_are_zeros_up_to_whole_vectors(length):
    full = memory(length)
    grown = memory(0).extend(full.k, full.v)
    assert grown.k.tensor.equal(full.k.tensor) and grown.v.equal(full.v)
    columns = grown.keys.shape[2]
    assert columns % 8 == 0 and length <= columns <= padded_length(length + length // 16)
    assert not grown.keys[:, :, length:].any() and not grown.values[:, :, length:].any()


def test_rows_are_selected_and_can_be_written_on():
    new, old = memory(1), memory(2).append(memory(1))
    chosen = select(old, torch.tensor([2, 2, 0]))
    assert chosen.k.tensor.equal(old.k.tensor[[2, 2, 0]]) and batch_size(chosen) == 3
    grown = chosen.append(new)
    assert grown.keys.data_ptr() == chosen.keys.data_ptr() and old.length == 3


def test_a_view_of_another_memory_is_not_written():
    old = memory(2).append(memory(1))
    part = map_tensors(old, lambda x: x[1:])
    grown = part.append(memory(1, b=2))
    longer = old.append(memory(1))
    assert grown.k.tensor[:, :, :3].equal(old.k.tensor[1:]) and longer.k.tensor[:, :, :3].equal(old.k.tensor)
    assert grown.keys.data_ptr() != part.keys.data_ptr()


def test_pasts_are_joined_on_the_left():
    long, short = memory(5), memory(2, b=1)
    joined = concat_states(long, short)
    assert (
        joined.length == 5 and joined.mask.start.tolist() == [0, 0, 0, 3] and joined.position.tolist() == [5, 5, 5, 2]
    )
    assert (
        joined.k.tensor[:3].equal(long.k.tensor)
        and joined.k.tensor[3:, :, 3:].equal(short.k.tensor)
        and not joined.v[3:, :, :3].any()
    )
    more = memory(1, b=4)
    assert joined.append(more).k.tensor[3:].equal(torch.cat([joined.k.tensor[3:], more.k.tensor[3:]], dim=2))
    assert long.position == 5


def test_columns_that_no_row_uses_are_dropped():
    joined = concat_states(concat_states(memory(5), memory(2, b=1)), memory(3, b=2))
    assert joined.mask.start.tolist() == [0, 0, 0, 3, 2, 2]
    left = select(joined, torch.tensor([3, 4]))
    again = concat_states(left, memory(1, b=1))
    assert again.length == 3 and again.mask.start.tolist() == [1, 0, 2]
    assert again.k.tensor[0, :, 1:].equal(joined.k.tensor[3, :, 3:])


def test_pasts_of_equal_length_have_no_start():
    one, two = memory(2), memory(2, b=1)
    joined = concat_states(one, two)
    assert joined.mask == Mask() and joined.k.tensor.equal(torch.cat([one.k.tensor, two.k.tensor]))


@pytest.mark.parametrize(
    "empty", [memory(0, b=1), KV.of(ProjectedKeys(torch.zeros(1, 2, 0, 0)), torch.zeros(1, 2, 0, 0))]
)
def test_a_past_before_its_first_token_is_joined(empty):
    full = memory(2)
    assert concat_states(full, empty).position.tolist() == [2, 2, 2, 0]
    assert concat_states(empty, full).position.tolist() == [0, 2, 2, 2]
    neither, first = concat_states(empty, empty), memory(1, b=2)
    assert neither.length == 0 and neither.extended(first.k, first.v).k.tensor.equal(first.k.tensor)


def test_sources_are_joined_on_the_right():
    long, short = memory(5), memory(2, b=2)._replace(mask=Mask.lengths(torch.tensor([1, 2])))
    joined = concat_states(Shared(long), Shared(short)).value
    assert joined.mask.keys.sum(dim=1).tolist() == [5, 5, 5, 1, 2]
    assert (
        joined.k.tensor[:3].equal(long.k.tensor)
        and joined.k.tensor[3:, :, :2].equal(short.k.tensor)
        and not joined.v[3:, :, 2:].any()
    )


def test_a_past_with_holes_cannot_be_joined():
    holes = memory(2)._replace(mask=Mask.lengths(torch.tensor([1, 2, 2])))
    with pytest.raises(ValueError, match=r"^a memory with a mask of keys is joined only as the memory of a source"):
        concat_states(holes, memory(2))
