"""A memory grows; one of length zero is a memory like any other; it is a state that can be selected."""

from __future__ import annotations

import torch

from regard.core.tree import select
from regard.layers.memory import KV


def memory(s):
    return KV(torch.randn(3, 2, s, 4), torch.randn(3, 2, s, 5))


def test_append():
    one, two = memory(2), memory(3)
    both = one.append(two)
    assert both.length == 5
    assert both.k.equal(torch.cat([one.k, two.k], dim=2)) and both.v.equal(torch.cat([one.v, two.v], dim=2))
    assert one.length == 2  # a value: the old one is as it was


def test_an_empty_memory_adds_nothing():
    one = memory(2)
    assert memory(0).append(one).k.equal(one.k)
    assert one.append(memory(0)).v.equal(one.v)


def test_rows_are_selected():
    one = memory(2)
    assert select(one, torch.tensor([2, 2])).k.equal(one.k[[2, 2]])


def test_without_gradients_it_grows_in_place_and_stays_a_value():
    start, one, two = memory(2), memory(1), memory(1)
    with torch.no_grad():
        first = start.append(one)
        longer = first.append(two)
        other = first.append(one)  # a second future of the same past
    assert longer.k.data_ptr() == first.k.data_ptr() != other.k.data_ptr()
    assert longer.k.equal(torch.cat([start.k, one.k, two.k], dim=2))
    assert other.v.equal(torch.cat([start.v, one.v, one.v], dim=2))
    assert first.k.equal(torch.cat([start.k, one.k], dim=2))


def test_it_grows_beyond_its_room():
    grown, parts = memory(1), [memory(50) for _ in range(4)]
    expected = torch.cat([grown.k, *(part.k for part in parts)], dim=2)
    with torch.inference_mode():
        for part in parts:
            grown = grown.append(part)
    assert grown.k.equal(expected)
    with torch.no_grad():  # storage of the inference mode is not written outside of it
        assert grown.append(parts[0]).length == 251
