"""Values of each position scheme."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention import scores
from regard.core.errors import ConfigError, ShapeError
from regard.layers.positions import build
from regard.layers.positions.relative import Relative
from regard.layers.positions.rotary import rotate


def test_none_index_fraction_binary():
    positions = torch.arange(6)
    assert build("none", 4, max_length=8).encode(positions, 6) is None
    assert build("index", 2, max_length=8).encode(positions, 6)[3].tolist() == [3.0, 3.0]
    assert build("fraction", 2, max_length=8).encode(positions, 6)[2].tolist() == [0.25, 0.25]
    assert build("fraction", 1, max_length=8).encode_sequence(5).flatten().tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert build("binary", 4, max_length=8).encode(positions, 6)[5].tolist() == [1.0, 0.0, 1.0, 0.0]
    assert build("binary", 40, max_length=8).encode(positions, 6).shape == (6, 40)


def test_sinusoidal_is_the_formula_of_the_paper():
    encoded = build("sinusoidal", 6, max_length=8).encode(torch.arange(50), 50)
    for position in (0, 1, 49):
        for i in range(3):
            angle = position / 10000 ** (2 * i / 6)
            assert math.isclose(encoded[position, 2 * i], math.sin(angle), abs_tol=1e-5)
            assert math.isclose(encoded[position, 2 * i + 1], math.cos(angle), abs_tol=1e-5)


def test_sinusoids_are_exact_at_large_positions():
    position, dim = 100_000, 16
    angles = [position / 10000 ** (i / dim) for i in range(0, dim, 2)]
    exact = [value for angle in angles for value in (math.sin(angle), math.cos(angle))]
    encoded = build("sinusoidal", dim, max_length=4).encode(torch.tensor([position]), position + 1)
    assert encoded.dtype == torch.float32
    torch.testing.assert_close(encoded[0].double(), torch.tensor(exact, dtype=torch.float64), atol=1e-7, rtol=0)


@given(st.integers(0, 3000), st.integers(0, 40))
def test_rotary_scores_depend_on_the_distance_only(start, distance):
    q, k = (torch.randn(1, 1, 1, 8, dtype=torch.float64) for _ in range(2))
    here = rotate(q, start + distance) @ rotate(k, start).mT
    torch.testing.assert_close(here, rotate(q, distance) @ k.mT)
    torch.testing.assert_close(rotate(q, start).norm(), q.norm())


def test_rotary_positions_are_counted_from_the_start_of_each_row():
    x = torch.randn(2, 3, 5, 8)
    rotated = rotate(x, 7, torch.tensor([0, 4]))
    torch.testing.assert_close(rotated[:1], rotate(x[:1], 7))
    torch.testing.assert_close(rotated[1:], rotate(x[1:], 3))


def test_rotary_needs_an_even_width():
    with pytest.raises(ShapeError, match="rotate pairs of features, but a head has 5; choose an even width per head"):
        build("rotary", 10, max_length=4).position_bias(heads=2, dim=5)


@pytest.mark.parametrize("max_distance", [0, 1, 5, 6, 7, 20])
@pytest.mark.parametrize(("t", "s"), [(6, 6), (2, 6), (1, 6), (6, 3), (1, 1)])
def test_relative_is_the_naive_gather(max_distance, t, s):
    relative = Relative(2, 4, max_distance=max_distance).double()
    q, k = (torch.randn(2, 2, n, 4, dtype=torch.float64, requires_grad=True) for n in (t, s))
    distance = (torch.arange(s - t, s)[:, None] - torch.arange(s)).clamp(
        -max_distance, max_distance
    )  # distance of each key
    gathered = relative.table[:, max_distance - distance]  # (h t s d), which skewing avoids
    naive = (q @ k.mT + torch.einsum("bhtd,htsd->bhts", q, gathered)) / 2
    skewed = relative.score(scores.build("scaled_dot", 4), q, k, s - t)
    torch.testing.assert_close(skewed, naive)
    change = torch.randn_like(naive)
    leaves = [q, k, relative.table]
    torch.testing.assert_close(torch.autograd.grad(skewed, leaves, change), torch.autograd.grad(naive, leaves, change))


@pytest.mark.parametrize("max_distance", [0, 2, 20])
def test_causal_attention_has_no_vectors_for_later_positions(max_distance):
    causal = build("relative", 8, max_length=max_distance).causal_position_bias(heads=2, dim=4)
    assert causal.table.shape == (2, max_distance + 1, 4)
    bidirectional = build("relative", 8, max_length=max_distance).position_bias(heads=2, dim=4)
    with torch.no_grad():
        bidirectional.table[:, : max_distance + 1] = causal.table
    q, k = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 6, 4)
    actual, expected = (bias.score(scores.build("scaled_dot", 4), q, k, 3) for bias in (causal, bidirectional))
    visible = torch.arange(3)[:, None] + 3 >= torch.arange(6)
    torch.testing.assert_close(actual.masked_fill(~visible, 0), expected.masked_fill(~visible, 0))


def test_relative_with_a_negative_distance():
    with pytest.raises(ShapeError, match="max_distance=-1 must be at least 0"):
        Relative(2, 4, max_distance=-1)


def test_an_unknown_scheme():
    with pytest.raises(ConfigError, match="unknown position 'sinusodal'; did you mean 'sinusoidal'"):
        build("sinusodal", 4, max_length=3)
