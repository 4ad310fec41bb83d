"""Image blocks equal the dense mask: outputs and gradients, odd sizes, borders, incomplete images."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.image_layout import ImageBlocks2D, image_blocks_2d
from regard.attention.kernels import image_blocks
from regard.attention.kernels.image_blocks import block_plan, use_image_blocks
from regard.attention.masks import Mask
from regard.attention.record import record

SMALL_LAYOUTS = st.builds(
    ImageBlocks2D,
    height=st.integers(2, 7),
    width=st.integers(2, 7),
    query=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    memory=st.tuples(st.integers(0, 4), st.integers(0, 3)),
    channels=st.integers(1, 3),
)


def inputs(t, b=2, h=3, d=4, e=5):
    return [torch.randn(b, h, t, width, dtype=torch.float64, requires_grad=True) for width in (d, d, e)]


def by_definition(attend, q, k, v, mask):
    return attend.weigh(q, k, mask) @ v


@pytest.fixture
def attend():
    return Attend(scores.build("scaled_dot", 4)).double()


@settings(max_examples=60)
@given(c=SMALL_LAYOUTS, fraction=st.floats(0.05, 1.0))
def test_blocks_equal_the_dense_mask(c, fraction):
    t = max(1, round(c.length * fraction))
    attend, mask = Attend(scores.build("scaled_dot", 4)).double(), Mask.image_blocks(c) & Mask.causal()
    q, k, v = inputs(t)
    fast, plain = attend(q, k, v, mask), by_definition(attend, q, k, v, mask)
    torch.testing.assert_close(fast, plain)
    grad = torch.randn_like(plain)
    torch.testing.assert_close(*(torch.autograd.grad(output, (q, k, v), grad) for output in (fast, plain)))


def test_attend_uses_the_blocks(attend, monkeypatch):
    mask = Mask.image_blocks(image_blocks_2d(9, 10, query=(2, 3), memory=(2, 2))) & Mask.causal()
    calls = []
    monkeypatch.setattr("regard.attention.attend.attend_image_blocks", lambda *args: calls.append(args) or args[1])
    attend(*inputs(90), mask)
    assert len(calls) == 1
    assert (
        block_plan(mask.layout, 90).keys.shape[1] <= 40
    )  # (2 + 2) x (2 + 3 + 2), without positions not yet generated, in full vectors


@pytest.mark.parametrize(
    ("mask", "t"),
    [
        (Mask.image_blocks(image_blocks_2d(9, 10, query=(2, 3), memory=(2, 2))), 90),  # not causal
        (
            Mask.image_blocks(image_blocks_2d(9, 10, query=(9, 10), memory=(2, 2))) & Mask.causal(),
            90,
        ),  # one block saves nothing
        (
            Mask.image_blocks(image_blocks_2d(9, 10, query=(2, 3), memory=(2, 2))) & Mask.causal() & Mask.local(back=3),
            90,
        ),
        (Mask.image_blocks(image_blocks_2d(9, 10, query=(2, 3), memory=(2, 2))) & Mask.causal(), 4),
    ],
)
def test_other_masks_do_not_use_the_blocks(attend, mask, t):
    assert not use_image_blocks(mask, t, t)
    q, k, v = inputs(t)
    torch.testing.assert_close(attend(q, k, v, mask), by_definition(attend, q, k, v, mask))


def test_any_score_and_dropout(monkeypatch):
    c = image_blocks_2d(5, 6, query=(2, 3), memory=(1, 1))
    mask = Mask.image_blocks(c) & Mask.causal()
    for name in ("additive", "cosine", "general"):
        attend = Attend(scores.build(name, 4)).double()
        q, k, v = inputs(30)
        k = attend.project(k)
        torch.testing.assert_close(attend(q, k, v, mask), by_definition(attend, q, k.tensor, v, mask))
    with_dropout = Attend(scores.build("scaled_dot", 4), dropout=0.5).double().train()
    assert not with_dropout(*inputs(30), mask).equal(with_dropout(*inputs(30), mask))


def test_recording_does_not_change_the_output_and_gives_the_dense_map(attend):
    c = image_blocks_2d(5, 6, query=(2, 3), memory=(1, 1))
    mask = Mask.image_blocks(c) & Mask.causal()
    q, k, v = inputs(30)
    plain = attend(q, k, v, mask)
    with record(attend) as maps:
        assert attend(q, k, v, mask).equal(plain)
    weights = next(iter(maps.values())).weights
    assert weights.shape == (2, 3, 30, 30) and not weights[:, :, ~mask.dense(30, 30)[0, 0]].any()
    torch.testing.assert_close(weights @ v, plain)


def test_plans_are_cached():
    c = image_blocks_2d(8, 8, query=(4, 4), memory=(2, 2))
    assert block_plan(c, 64) is block_plan(c, 64)
    assert (
        image_blocks._max_block_keys(c) == 16 + 2 * 6 + 4 * 2
    )  # the block, two rows above with one more column, two columns on the left
