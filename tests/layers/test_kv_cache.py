"""The KV cache grows in place but is immutable; rows are selected and joined, the shorter ones padded."""

from __future__ import annotations

import pytest
import torch

from regard.attention.kernels.short_keys import padded_length
from regard.attention.masks import Mask
from regard.attention.score import ProjectedKeys
from regard.core.state_tree import Shared, batch_size, concat_states, map_tensors, select
from regard.layers.kv_cache import KV


def cache(s, b=3):
    return KV.of(ProjectedKeys(torch.randn(b, 2, s, 4)), torch.randn(b, 2, s, 5))


def test_append():
    old, new = cache(2), cache(3)
    both = old.append(new)
    assert both.length == 5
    assert both.k.tensor.equal(torch.cat([old.k.tensor, new.k.tensor], dim=2)) and both.v.equal(
        torch.cat([old.v, new.v], dim=2)
    )
    assert old.length == 2  # the old cache is unchanged


def test_gradients_go_through():
    old, new = cache(2), cache(3)
    new.keys.requires_grad_()
    old.append(new).k.tensor.sum().backward()
    assert new.keys.grad.equal(torch.ones_like(new.keys))


def test_an_empty_cache_adds_nothing():
    full = cache(2)
    assert cache(0).append(full).k.tensor.equal(full.k.tensor)
    assert full.append(cache(0)).v.equal(full.v)


def test_growing_in_place_does_not_change_the_old_cache():
    start, new, second_new = cache(2), cache(1), cache(1)
    first = start.append(new)
    longer = first.append(second_new)
    second = first.append(new)  # a second continuation of the same cache: it copies first
    assert longer.k.tensor.data_ptr() == first.k.tensor.data_ptr() != second.k.tensor.data_ptr()
    assert longer.k.tensor.equal(torch.cat([start.k.tensor, new.k.tensor, second_new.k.tensor], dim=2))
    assert second.v.equal(torch.cat([start.v, new.v, new.v], dim=2))
    assert first.k.tensor.equal(torch.cat([start.k.tensor, new.k.tensor], dim=2))


def test_growing_beyond_the_spare_columns():
    grown, parts = cache(1), [cache(50) for _ in range(4)]
    expected = torch.cat([grown.k.tensor, *(part.k.tensor for part in parts)], dim=2)
    with torch.inference_mode():
        for part in parts:
            grown = grown.append(part)
    assert grown.k.tensor.equal(expected)
    with torch.no_grad():  # inference tensors are not modified outside of inference mode
        assert grown.append(parts[0]).length == 251


@pytest.mark.parametrize("length", [1, 15, 16, 17, 300])
def test_spare_columns_are_zero_and_fill_vectors(length):
    full = cache(length)
    grown = cache(0).extend(full.k, full.v)
    assert grown.k.tensor.equal(full.k.tensor) and grown.v.equal(full.v)
    columns = grown.keys.shape[2]
    assert columns % 8 == 0 and length <= columns <= padded_length(length + length // 16)
    assert not grown.keys[:, :, length:].any() and not grown.values[:, :, length:].any()


def test_selected_rows_can_be_extended():
    new, old = cache(1), cache(2).append(cache(1))
    chosen = select(old, torch.tensor([2, 2, 0]))
    assert chosen.k.tensor.equal(old.k.tensor[[2, 2, 0]]) and batch_size(chosen) == 3
    grown = chosen.append(new)
    assert grown.keys.data_ptr() == chosen.keys.data_ptr() and old.length == 3


def test_a_view_is_not_modified():
    old = cache(2).append(cache(1))
    part = map_tensors(old, lambda x: x[1:])
    grown = part.append(cache(1, b=2))
    longer = old.append(cache(1))
    assert grown.k.tensor[:, :, :3].equal(old.k.tensor[1:]) and longer.k.tensor[:, :, :3].equal(old.k.tensor)
    assert grown.keys.data_ptr() != part.keys.data_ptr()


def test_caches_are_padded_on_the_left():
    long, short = cache(5), cache(2, b=1)
    joined = concat_states(long, short)
    assert (
        joined.length == 5 and joined.mask.start.tolist() == [0, 0, 0, 3] and joined.position.tolist() == [5, 5, 5, 2]
    )
    assert (
        joined.k.tensor[:3].equal(long.k.tensor)
        and joined.k.tensor[3:, :, 3:].equal(short.k.tensor)
        and not joined.v[3:, :, :3].any()
    )
    new = cache(1, b=4)
    assert joined.append(new).k.tensor[3:].equal(torch.cat([joined.k.tensor[3:], new.k.tensor[3:]], dim=2))
    assert long.position == 5


def test_columns_that_no_row_uses_are_dropped():
    joined = concat_states(concat_states(cache(5), cache(2, b=1)), cache(3, b=2))
    assert joined.mask.start.tolist() == [0, 0, 0, 3, 2, 2]
    remaining = select(joined, torch.tensor([3, 4]))
    joined_again = concat_states(remaining, cache(1, b=1))
    assert joined_again.length == 3 and joined_again.mask.start.tolist() == [1, 0, 2]
    assert joined_again.k.tensor[0, :, 1:].equal(joined.k.tensor[3, :, 3:])


def test_caches_of_equal_length_have_no_start():
    first, second = cache(2), cache(2, b=1)
    joined = concat_states(first, second)
    assert joined.mask == Mask() and joined.k.tensor.equal(torch.cat([first.k.tensor, second.k.tensor]))


@pytest.mark.parametrize(
    "empty", [cache(0, b=1), KV.of(ProjectedKeys(torch.zeros(1, 2, 0, 0)), torch.zeros(1, 2, 0, 0))]
)
def test_an_empty_cache_is_joined(empty):
    full = cache(2)
    assert concat_states(full, empty).position.tolist() == [2, 2, 2, 0]
    assert concat_states(empty, full).position.tolist() == [0, 2, 2, 2]
    neither, first = concat_states(empty, empty), cache(1, b=2)
    assert neither.length == 0 and neither.extend(first.k, first.v).k.tensor.equal(first.k.tensor)


def test_sources_are_padded_on_the_right():
    long, short = cache(5), cache(2, b=2)._replace(mask=Mask.lengths(torch.tensor([1, 2])))
    joined = concat_states(Shared(long), Shared(short)).value
    assert joined.mask.keys.sum(dim=1).tolist() == [5, 5, 5, 1, 2]
    assert (
        joined.k.tensor[:3].equal(long.k.tensor)
        and joined.k.tensor[3:, :, :2].equal(short.k.tensor)
        and not joined.v[3:, :, 2:].any()
    )


def test_a_cache_with_a_key_mask_cannot_be_joined():
    holes = cache(2)._replace(mask=Mask.lengths(torch.tensor([1, 2, 2])))
    with pytest.raises(ValueError, match=r"^a cache with a key mask can only be joined as the cache of a source"):
        concat_states(holes, cache(2))
