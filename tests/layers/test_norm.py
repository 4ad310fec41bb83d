"""Pre-norm and post-norm: position of the norm, and the final norm of a stack."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import layer_norm

from regard.layers.norm import PostNorm, PreNorm


def test_pre_norm():
    x, around = torch.randn(2, 3, 8), PreNorm(8, 0.0)
    torch.testing.assert_close(around(x, torch.sin), x + layer_norm(x, (8,)).sin())
    assert isinstance(around.final_norm(8), nn.LayerNorm)


def test_post_norm():
    x, around = torch.randn(2, 3, 8), PostNorm(8, 0.0)
    torch.testing.assert_close(around(x, torch.sin), layer_norm(x + x.sin(), (8,)))
    assert isinstance(around.final_norm(8), nn.Identity)


@pytest.mark.parametrize("norm_class", [PreNorm, PostNorm])
def test_the_residual_is_never_dropped(norm_class):
    x, around = torch.randn(4, 50, 8), norm_class(8, 1.0).train()
    expected = x if norm_class is PreNorm else layer_norm(x, (8,))
    torch.testing.assert_close(around(x, torch.sin), expected)
