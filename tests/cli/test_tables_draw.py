"""A map in the terminal: labels, percentages, and of a large one the beginning."""

from __future__ import annotations

import io

import numpy as np
from rich.console import Console

from regard.cli.tables import MAX_MAP_SIDE, attention_table


def drawn(rows, columns, weights):
    console = Console(width=200, file=io.StringIO())
    console.print(attention_table(rows, columns, weights))
    return console.file.getvalue()


def test_weights_are_percentages():
    text = drawn(["책", "집"], ["the", "book"], np.array([[0.25, 0.75], [1.0, 0.001]]))
    first, second = text.splitlines()[1:]
    assert "25" in first and "75" in first and first.lstrip().startswith("책")
    assert "100" in second and "·" in second


def test_a_large_map_is_cut():
    many = [f"w{number}" for number in range(100)]
    text = drawn(many, many, np.zeros((100, 100)))
    assert f"w{MAX_MAP_SIDE - 1}" in text and f"w{MAX_MAP_SIDE}" not in text
    assert len(text.splitlines()) == MAX_MAP_SIDE + 1
