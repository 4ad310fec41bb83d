"""One label per row and column, plain JSON, and a page of a bearable size."""

from __future__ import annotations

import json
from dataclasses import replace

import examples
import numpy as np
import pytest

from regard.core.errors import ShapeError
from regard.inspection.bundle import bundle
from regard.inspection.format import Axis, Inspection, Map, to_json


def test_labels_must_be_as_many_as_rows_and_columns():
    found = examples.translation(1, 2)
    short = {**found.axes, "source": Axis(("too", "few"))}
    with pytest.raises(
        ShapeError, match=r"map encoder\.0: 10 × 10 weights but 2 labels on axis 'source' and 2 on 'source'"
    ):
        replace(found, axes=short)


def test_it_becomes_plain_json():
    data = to_json(examples.translation(2, 2))
    again = json.loads(json.dumps(data, allow_nan=False))
    assert again["title"] == data["title"]
    assert [one["shape"] for one in again["maps"] if one["group"] == "cross"] == [[2, 8, 10]] * 2
    assert again["axes"]["read"]["labels"][0] == "<s>"


def test_a_page_of_six_layers_eight_heads_and_a_hundred_tokens_is_under_five_megabytes():
    random = np.random.default_rng(0)
    axes = {"source": Axis(tuple("w" * 100)), "output": Axis(tuple("v" * 100)), "read": Axis(tuple("u" * 100))}
    groups = {"encoder": ("source", "source"), "decoder": ("output", "read"), "cross": ("output", "source")}
    maps = tuple(
        Map(f"{group}.{layer}", group, layer, *names, examples.softmax(random.normal(0, 2, (8, 100, 100))))
        for group, names in groups.items()
        for layer in range(6)
    )
    page = bundle(to_json(Inspection("a long sentence", "transformer", "translation", axes, maps)))
    assert len(page.encode()) < 5_000_000
