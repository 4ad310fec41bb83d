"""The four requirements as the textbook says of each scheme, and the dot product of two sinusoidal encodings."""

from __future__ import annotations

import math

import pytest
import torch

from regard.core.registry import registered_names
from regard.experiments._position_requirements import (
    Requirements,
    all_requirements,
    dot_by_distance,
    measure_requirements,
)
from regard.layers.positions.sinusoidal import sinusoids


def test_every_scheme_is_reported():
    assert list(all_requirements()) == registered_names("regard.layers.positions")


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("none", {"unique"}),
        ("index", {"bounded"}),
        ("fraction", {"equal_distance"}),
        ("binary", set()),
        ("sinusoidal", set()),
        ("rotary", set()),
        ("learned", {"bounded", "deterministic"}),  # the table ends, and is what training made of it
        ("relative", {"deterministic"}),
    ],
)
def test_requirements(name, broken):
    found = measure_requirements(name)
    assert {key for key in Requirements._fields if not getattr(found, key)} == broken


def test_measuring_leaves_the_random_numbers_alone():
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    measure_requirements("learned")
    assert torch.rand(1).equal(expected)


@pytest.mark.parametrize("dim", [8, 64])
def test_the_dot_product_is_that_of_the_distance_alone(dim):
    found = dot_by_distance(dim, 50)
    places = sinusoids(torch.arange(100), dim)
    for start in (0, 1, 17, 50):
        torch.testing.assert_close(places[start : start + 50] @ places[start], found, atol=1e-3, rtol=0)
        back = places[start + 49 - torch.arange(50)] @ places[start + 49]
        torch.testing.assert_close(back, found, atol=1e-3, rtol=0)  # the same ahead as back
    assert found.argmax() == 0 and math.isclose(found[0], dim / 2, rel_tol=1e-5)
    assert (found[1:] < found[0]).all()
