"""Base class of position schemes: adds nothing, no position bias, positions counted from any start."""

from __future__ import annotations

import torch

from regard.layers.positions._base import PositionScheme


class Recording(PositionScheme):
    """Adds the position, and records its arguments."""

    def encode(self, positions, length):
        self.arguments = (positions.tolist(), length)
        return positions[..., None].double()


def test_the_base_adds_nothing():
    x = torch.randn(1, 2, 3)
    scheme = PositionScheme(3, max_length=5)
    assert scheme(x) is x
    assert scheme.position_bias(heads=1, dim=3) is None and scheme.encode_sequence(4) is None


def test_positions_are_counted_from_the_start():
    scheme, x = Recording(3, max_length=5), torch.zeros(2, 2, 3)
    assert scheme(x, 4)[0, :, 0].tolist() == [4.0, 5.0] and scheme.arguments == ([4, 5], 6)
    assert scheme(x).dtype == x.dtype
    scheme(x, torch.tensor([0, 3]))
    assert scheme.arguments[0] == [[0, 1], [3, 4]] and scheme.arguments[1].tolist() == [2, 5]


def test_padding_on_the_left_has_position_zero():
    scheme = Recording(3, max_length=5)
    scheme(torch.zeros(2, 3, 3), torch.tensor([-2, 0]))
    assert scheme.arguments[0] == [[0, 0, 0], [0, 1, 2]]
