"""Local attention in blocks equals dense attention with the same mask: any length, block edges, raster order."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention import scores
from regard.attention.attend import Attend, attend_fused
from regard.attention.kernels import local
from regard.attention.kernels.local import attend_blocks, sliding_windows, use_local_blocks
from regard.attention.masks import Mask
from regard.attention.score import Dot
from regard.core.errors import ShapeError


def kernel(dot, v, mask):
    return attend_fused(dot, v, mask, 0.0)


def compare(mask, s, b=2, h=2):
    """Compare outputs and gradients of blocks with those of the dense mask."""
    tensors = [torch.randn(b, h, s, width, dtype=torch.float64, requires_grad=True) for width in (4, 4, 3)]
    q, k, v = tensors
    dot = Dot(q, k, 0.5)
    by_block, dense = attend_blocks(dot, v, mask, kernel), attend_fused(dot, v, mask, 0.0)
    torch.testing.assert_close(by_block, dense)
    grad = torch.randn_like(dense)
    torch.testing.assert_close(torch.autograd.grad(by_block, tensors, grad), torch.autograd.grad(dense, tensors, grad))


def random_keys(b, s, seed):
    """Return a mask of random keys, and one row without any key."""
    torch.manual_seed(seed)
    keys = torch.rand(b, s) < 0.8
    keys[-1] = False
    return Mask.present(keys)


@given(st.integers(1, 20), st.integers(0, 9), st.none() | st.integers(0, 9), st.integers(1, 6), st.booleans())
def test_windows(s, back, ahead, min_block_size, padded):
    mask = Mask.causal() & Mask.local(back) if ahead is None else Mask.local(back, ahead)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "MIN_BLOCK_SIZE", min_block_size)
        compare(mask & random_keys(2, s, 0) if padded else mask, s)


@given(st.integers(1, 20), st.integers(1, 7), st.integers(0, 9), st.booleans(), st.booleans())
def test_blocks(s, query, memory, causal, padded):
    mask = Mask.block(query, memory) & (Mask.causal() if causal else Mask())
    compare(mask & random_keys(2, s, 1) if padded else mask, s)


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
    compare(mask & random_keys(2, height * width, 2) if padded else mask, height * width)


def test_conditions_for_the_kernel():
    assert use_local_blocks(Mask.local(10, 10), 1000, 1000)
    assert use_local_blocks(Mask.causal() & Mask.local(10), 1000, 1000)
    assert use_local_blocks(Mask.block(16, 16), 1000, 1000)
    assert use_local_blocks(Mask.image(32, 32, query=(4, 4), memory=(4, 4)), 1024, 1024)
    for mask in (
        Mask(),
        Mask.causal(),
        Mask.local(10),  # no limit ahead
        Mask.local(10, 10) & Mask.block(2, 2),  # two kinds
        Mask.local(10, 10) & Mask.explicit(torch.ones(1000, 1000, dtype=torch.bool)),
        Mask.local(999, 999),
    ):
        assert not use_local_blocks(mask, 1000, 1000)
    assert not use_local_blocks(Mask.local(10, 10), 1, 1000)  # a decoding step with a cache
    assert not use_local_blocks(Mask.image(32, 32, query=(4, 4), memory=(4, 4)), 100, 100)  # an incomplete image


@pytest.mark.parametrize("name", ["scaled_dot", "cosine"])
def test_attend_agrees_with_the_definition(name):
    attend = Attend(scores.build(name, 4)).double()
    q, k, v = (torch.randn(1, 2, 200, 4, dtype=torch.float64) for _ in range(3))
    mask = Mask.causal() & Mask.local(back=20)
    k = attend.project(k)
    torch.testing.assert_close(attend(q, k, v, mask), attend.weigh(q, k.tensor, mask) @ v)


def test_no_tensor_of_all_pairs_is_created():
    """The largest tensor grows linearly with the length: 8 times the length has 64 times the pairs."""

    class LargestTensor(torch.utils._python_dispatch.TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.size = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            for x in result if isinstance(result, tuple | list) else [result]:
                self.size = max(self.size, x.numel() if isinstance(x, torch.Tensor) else 0)
            return result

    sizes = []
    for s in (512, 4096):
        q = torch.randn(1, 1, s, 4, requires_grad=True)
        with LargestTensor() as largest:
            attend_blocks(Dot(q, q, 0.5), q, Mask.causal() & Mask.local(back=16), kernel).sum().backward()
        sizes.append(largest.size)
    assert sizes[1] <= 8 * sizes[0]
    assert sizes[1] < 4096 * 4096 / 16


def test_a_mask_without_locality_is_refused():
    q = torch.randn(1, 1, 4, 2)
    with pytest.raises(ShapeError, match=r"the mask is not a single kind of local mask; use one of Mask\.local"):
        attend_blocks(Dot(q, q, 1.0), q, Mask.causal(), kernel)


@pytest.mark.parametrize(("length", "step", "size"), [(6, 2, 12), (7, 3, 16), (4, 4, 12), (5, 3, 5), (2, 3, 12)])
def test_sliding_windows_and_their_gradient_equal_unfold(length, step, size):
    x = torch.randn(2, size, 3, dtype=torch.float64, requires_grad=True)
    expected = x.unfold(1, length, step).mT
    windows = sliding_windows(x, length, step)
    torch.testing.assert_close(windows, expected)
    assert windows.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    grad = torch.randn_like(expected)
    torch.testing.assert_close(torch.autograd.grad(windows, x, grad), torch.autograd.grad(expected, x, grad))
