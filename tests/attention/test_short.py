"""Attention over few keys: equal to the plain formula, whatever is padded."""

import pytest
import torch

from regard.attention import short


@pytest.mark.parametrize(("length", "room"), [(0, 16), (1, 16), (16, 16), (17, 24), (24, 24), (100, 104)])
def test_room_is_made_of_whole_vectors(length, room):
    assert short.whole(length) == room


@pytest.mark.parametrize("width", [1, 3])
def test_mixing_is_the_formula_and_padding_is_not_seen(width):
    torch.manual_seed(0)
    b, heads, s, d = 2, 3, 5, 4
    x, keys, values = (torch.randn(*shape) for shape in ((b * width, 12), (b, s, 12), (b, s, 12)))
    lengths = torch.tensor([5, 2])
    room = short.whole(s)
    mask = short.absent(lengths, room).repeat_interleave(heads, dim=0)
    k, v = (short.split(side, heads, room) for side in (keys, values))
    found = short.unfold(short.mix(short.fold(x, heads, b), k, v, mask, 0.5), heads, b * width)
    for row in range(b * width):
        source = row // width
        length = int(lengths[source])
        for head in range(heads):
            part = slice(head * d, head * d + d)
            weights = (0.5 * keys[source, :length, part] @ x[row, part]).softmax(0)
            torch.testing.assert_close(found[row, part], weights @ values[source, :length, part])
