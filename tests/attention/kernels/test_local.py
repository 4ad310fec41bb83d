"""Local attention by blocks = dense attention with the same mask: any length, block edges, raster order."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention import scores
from regard.attention.attend import Attend, attend_fused
from regard.attention.kernels import local
from regard.attention.kernels.local import attend_blocks, use_local_blocks
from regard.attention.masks import Mask
from regard.attention.score import Dot
from regard.core.errors import ShapeError


def kernel(dot, v, mask):
    return attend_fused(dot, v, mask, 0.0)


def compare(mask, s, b=2, h=2):
    """Block by block against the dense mask: output and gradients."""
    tensors = [torch.randn(b, h, s, width, dtype=torch.float64, requires_grad=True) for width in (4, 4, 3)]
    q, k, v = tensors
    dot = Dot(q, k, 0.5)
    by_block, dense = attend_blocks(dot, v, mask, kernel), attend_fused(dot, v, mask, 0.0)
    torch.testing.assert_close(by_block, dense)
    change = torch.randn_like(dense)
    torch.testing.assert_close(
        torch.autograd.grad(by_block, tensors, change), torch.autograd.grad(dense, tensors, change)
    )


def some_keys(b, s, seed):
    """Padding on either side, and one row with no key at all."""
    torch.manual_seed(seed)
    keys = torch.rand(b, s) < 0.8
    keys[-1] = False
    return Mask.present(keys)


@given(st.integers(1, 20), st.integers(0, 9), st.none() | st.integers(0, 9), st.integers(1, 6), st.booleans())
def test_windows(s, back, ahead, shortest, padded):
    mask = Mask.causal() & Mask.local(back) if ahead is None else Mask.local(back, ahead)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "SHORT", shortest)
        compare(mask & some_keys(2, s, 0) if padded else mask, s)


@given(st.integers(1, 20), st.integers(1, 7), st.integers(0, 9), st.booleans(), st.booleans())
def test_blocks(s, query, memory, causal, padded):
    mask = Mask.block(query, memory) & (Mask.causal() if causal else Mask())
    compare(mask & some_keys(2, s, 1) if padded else mask, s)


side = st.integers(1, 7)


@given(
    st.tuples(side, side),
    st.tuples(side, side),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    st.booleans(),
    st.booleans(),
)
def test_images(size, query, memory, causal, padded):
    height, width = size
    mask = Mask.image(height, width, query=query, memory=memory) & (Mask.causal() if causal else Mask())
    compare(mask & some_keys(2, height * width, 2) if padded else mask, height * width)


def test_it_is_used_where_it_pays_and_is_right():
    assert use_local_blocks(Mask.local(10, 10), 1000, 1000)
    assert use_local_blocks(Mask.causal() & Mask.local(10), 1000, 1000)
    assert use_local_blocks(Mask.block(16, 16), 1000, 1000)
    assert use_local_blocks(Mask.image(32, 32, query=(4, 4), memory=(4, 4)), 1024, 1024)
    for mask in (
        Mask(),
        Mask.causal(),
        Mask.local(10),  # ahead without limit
        Mask.local(10, 10) & Mask.block(2, 2),  # two kinds at once
        Mask.local(10, 10) & Mask.explicit(torch.ones(1000, 1000, dtype=torch.bool)),
        Mask.local(999, 999),
    ):
        assert not use_local_blocks(mask, 1000, 1000)
    assert not use_local_blocks(Mask.local(10, 10), 1, 1000)  # a step with a cache
    assert not use_local_blocks(Mask.image(32, 32, query=(4, 4), memory=(4, 4)), 100, 100)  # an image not yet whole


@pytest.mark.parametrize("name", ["scaled_dot", "cosine"])
def test_attend_takes_the_path_and_agrees_with_the_definition(name):
    attend = Attend(scores.build(name, 4)).double()
    q, k, v = (torch.randn(1, 2, 200, 4, dtype=torch.float64) for _ in range(3))
    mask = Mask.causal() & Mask.local(back=20)
    k = attend.project(k)
    torch.testing.assert_close(attend(q, k, v, mask), attend.weigh(q, k.tensor, mask) @ v)


def test_no_tensor_of_all_pairs_exists():
    """64 times the pairs in 8 times the length would be seen: the largest tensor grows with the length alone."""

    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.size = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for x in out if isinstance(out, tuple | list) else [out]:
                self.size = max(self.size, x.numel() if isinstance(x, torch.Tensor) else 0)
            return out

    sizes = []
    for s in (512, 4096):
        q = torch.randn(1, 1, s, 4, requires_grad=True)
        with Largest() as largest:
            attend_blocks(Dot(q, q, 0.5), q, Mask.causal() & Mask.local(back=16), kernel).sum().backward()
        sizes.append(largest.size)
    assert sizes[1] <= 8 * sizes[0]
    assert sizes[1] < 4096 * 4096 / 16


def test_a_mask_without_blocks_is_refused():
    q = torch.randn(1, 1, 4, 2)
    with pytest.raises(
        ShapeError, match=r"the mask has no one window or kind of blocks; use Mask\.local, block or image"
    ):
        attend_blocks(Dot(q, q, 1.0), q, Mask.causal(), kernel)
