"""Alignment error: zero for the true links; special tokens and punctuation are ignored."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.core.inspectable import Axis, Inspectable, Item, Truth
from regard.inspection.alignment_error import measure_alignment
from regard.inspection.json_format import Map

SOURCE = Axis((Item("the", 0), Item("c", 1), Item("at", 1), Item("sleeps", 2), Item("<end>", special=True)), "source")
OUTPUT = Axis((Item("고양이가", 0), Item("잔다", 1), Item(".", 1), Item("<end>", special=True)), "output")
TRUE = Truth("output", "source", frozenset({(1, 0), (2, 1)}))


def shown(truth):
    axes = {"source": SOURCE, "output": OUTPUT}
    return Inspectable("a", axes, {}, {}, (), lambda: torch.zeros(1, 1), torch.zeros(1, dtype=torch.long), truth=truth)


def attention(name, *rows, keys="source"):
    weights = np.array(rows, dtype=np.float32)[None]
    return Map(name, name, "output", keys, np.concatenate([weights, weights[:, ::-1]]), group="g", title="t")


RIGHT = attention("right", [0, 0.3, 0.3, 0, 0.4], [0.1, 0, 0, 0.9, 0], [0.2, 0, 0, 0.8, 0], [1, 0, 0, 0, 0])
WRONG = attention("wrong", [1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0])


def test_the_best_map_is_the_one_that_looks_at_the_truth():
    result = measure_alignment([WRONG, RIGHT], shown(TRUE))
    assert result.best == "right" and (result.queries, result.keys) == ("output", "source")
    assert result.rates["right"]["heads"][0] == 0 and result.rates["wrong"]["heads"][0] == pytest.approx(1)
    assert len(result.rates["right"]["heads"]) == 2


def test_only_items_of_words_are_drawn_as_linked():
    assert set(measure_alignment([RIGHT], shown(TRUE)).links) == {(0, 1), (0, 2), (1, 3)}


def test_without_truth_or_without_such_a_map_there_is_nothing_to_measure():
    assert measure_alignment([RIGHT], shown(None)) is None
    assert measure_alignment([attention("other", [1.0] * 5, keys="elsewhere")], shown(TRUE)) is None
