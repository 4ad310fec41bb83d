"""Overlapping windows are those of `unfold`, and so is their gradient."""

from __future__ import annotations

import pytest
import torch

from regard.attention.kernels.local import sliding_windows


@pytest.mark.parametrize(("length", "step", "size"), [(6, 2, 12), (7, 3, 16), (4, 4, 12), (5, 3, 5), (2, 3, 12)])
def test_windows_and_gradient_are_those_of_unfold(length: int, step: int, size: int) -> None:
    x = torch.randn(2, size, 3, dtype=torch.float64, requires_grad=True)
    expected = x.unfold(1, length, step).mT
    change = torch.randn_like(expected)
    found = sliding_windows(x, length, step)
    torch.testing.assert_close(found, expected)
    assert found.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    wanted, gained = (torch.autograd.grad(made, x, change)[0] for made in (expected, found))
    torch.testing.assert_close(gained, wanted)
