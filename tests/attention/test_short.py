"""Attention over few keys: equal to the plain formula, whatever is padded."""

import pytest
import torch

from regard.attention import short
from regard.attention.masks import Mask
from regard.attention.score import Dot


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
    fold = short.Fold(heads, d)
    found = fold.out_of(short.mix(fold.into(x, b), k, v, mask, 0.5))
    for row in range(b * width):
        source = row // width
        length = int(lengths[source])
        for head in range(heads):
            part = slice(head * d, head * d + d)
            weights = (0.5 * keys[source, :length, part] @ x[row, part]).softmax(0)
            torch.testing.assert_close(found[row, part], weights @ values[source, :length, part])


@pytest.mark.parametrize(("t", "s"), [(1, 1), (1, 15), (5, 5), (7, 16), (16, 16), (3, 33)])
@pytest.mark.parametrize("mask", [Mask(), Mask.causal(), Mask.local(back=20)])
def test_heads_are_mixed_as_by_the_fused_kernel_in_value_and_gradient(t, s, mask):
    torch.manual_seed(0)
    given = [torch.randn(2, 3, size, 4, dtype=torch.float64, requires_grad=True) for size in (t, s, s)]
    allowed = mask.dense(t, s)
    q, k, v = given
    found = short.mix_heads(Dot(q, k, 0.3), v, allowed)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=0.3)
    torch.testing.assert_close(found, expected)
    change = torch.randn_like(found)
    for ours, theirs in zip(
        torch.autograd.grad(found, given, change), torch.autograd.grad(expected, given, change), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_short_is_what_was_measured():
    few, many = torch.zeros(1, 1, short.SHORT, 4), torch.zeros(1, 1, short.SHORT + 1, 4)
    assert short.is_short(few, few)
    assert not short.is_short(few, many) and not short.is_short(many, few) and not short.is_short(few, few[:, :, :0])
