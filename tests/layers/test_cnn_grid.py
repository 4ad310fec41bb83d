"""Images to grids of features."""

import pytest
import torch
from torch import nn

from regard.layers.cnn_grid import Backbone, GridEncoder
from regard.layers.positions._two_dimensional import Position2D


@pytest.mark.parametrize("stride", [2, 8])
def test_each_side_is_divided_and_rounded_up(stride):
    assert Backbone(3, 16, stride=stride)(torch.zeros(2, 3, 20, 33)).shape == (
        2,
        16,
        -(-20 // stride),
        -(-33 // stride),
    )


def test_cells_are_in_raster_order_and_have_positions():
    grid = GridEncoder(nn.Identity(), 3, Position2D("sinusoidal", 8, height=2, width=3)).eval()
    image = torch.randn(1, 3, 2, 3)
    cells = grid(image)
    assert cells.shape == (1, 6, 8)
    changed = image.clone()
    changed[:, :, 1, 0] += 1.0  # the fourth cell
    assert ((grid(changed) - cells).abs().amax(dim=-1)[0] > 1e-6).tolist() == [False, False, False, True, False, False]
    same = grid(torch.zeros_like(image))[0]
    assert (same[0] - same[5]).abs().max() > 0.1
