"""The four requirements of each position scheme, as in textbooks."""

from __future__ import annotations

import pytest
import torch

from regard.core.registry import registered_names
from regard.experiments.position_requirements import Requirements, all_requirements, measure_requirements


def test_every_scheme_is_reported():
    assert list(all_requirements()) == registered_names("regard.layers.positions")


@pytest.mark.parametrize(
    ("name", "failed"),
    [
        ("none", {"unique"}),
        ("index", {"bounded"}),
        ("fraction", {"equal_distance"}),
        ("binary", set()),
        ("sinusoidal", set()),
        ("rotary", set()),
        ("learned", {"bounded", "deterministic"}),  # a table of fixed length, learned in training
        ("relative", {"deterministic"}),
    ],
)
def test_requirements(name, failed):
    requirements = measure_requirements(name)
    assert {key for key in Requirements._fields if not getattr(requirements, key)} == failed


def test_measuring_preserves_the_random_state():
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    measure_requirements("learned")
    assert torch.rand(1).equal(expected)
