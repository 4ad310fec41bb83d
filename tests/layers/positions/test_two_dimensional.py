"""Rows and columns are encoded separately, each by half of the features."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.core.registry import registered_names
from regard.layers import positions
from regard.layers.positions._two_dimensional import Position2D

ADDED = [name for name in registered_names("regard.layers.positions") if name not in ("relative", "rotary")]


@pytest.mark.parametrize("name", ADDED)
@pytest.mark.parametrize("dim", [6, 7])
def test_each_half_is_a_separate_scheme(name, dim):
    position = Position2D(name, dim, height=4, width=5)
    encoded = position.encode_raster()
    assert encoded.shape == (20, dim)
    grid = encoded.view(4, 5, dim)
    assert (grid[:, :1, : dim // 2] == grid[:, :, : dim // 2]).all()  # the row does not depend on the column
    assert (grid[:1, :, dim // 2 :] == grid[:, :, dim // 2 :]).all()
    rows, columns = torch.tensor([2, 0]), torch.tensor([4, 1])
    assert position(rows, columns).equal(grid[rows, columns])


def test_sinusoids_of_both_axes():
    position, line = Position2D("sinusoidal", 8, height=4, width=5), positions.build("sinusoidal", 4, max_length=5)
    encoded = position(torch.tensor([3]), torch.tensor([1]))
    assert encoded.equal(torch.cat([line.encode_sequence(5)[3], line.encode_sequence(5)[1]])[None])


@pytest.mark.parametrize("name", ["relative", "rotary"])
def test_schemes_inside_the_score_are_refused(name):
    with pytest.raises(ConfigError, match=f"^position='{name}' is one-dimensional and inside the score; for rows and"):
        Position2D(name, 8, height=4, width=5)
