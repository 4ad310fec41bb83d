"""The JSON format: one item per row and column, plain values, limited size."""

from __future__ import annotations

import json
from dataclasses import replace

import examples
import numpy as np
import pytest

from regard.core.errors import ShapeError
from regard.core.inspectable import Axis, Item, Parent
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import VERSION, HeadComputation, Inspection, Stage, to_json


def test_items_must_be_as_many_as_rows_and_columns():
    result = examples.translation(1, 2)
    short = {**result.axes, "source": examples.axis(("too", "few"), "source")}
    with pytest.raises(
        ShapeError, match=r"map encoder\.0: 10 × 10 weights but 2 items on axis 'source' and 2 on 'source'"
    ):
        replace(result, axes=short)


def test_it_becomes_plain_json():
    data = to_json(examples.translation(2, 2))
    again = json.loads(json.dumps(data, allow_nan=False))
    assert again["version"] == VERSION and again["title"] == again["text"] == data["title"]
    assert [item["shape"] for item in again["maps"] if item["group"] == "cross"] == [[2, 8, 10]] * 2
    assert again["axes"]["read"]["items"][:2] == [{"text": "<s>", "special": True}, {"text": "늙은"}]
    assert again["outputs"][0]["tokens"][0]["alternatives"][2] == ["그", -3.0]
    assert again["first"] == again["truth"]["best"] == "cross.1"
    assert [item["allowed"] is None for item in again["maps"]] == [True, True, False, False, True, True]


def test_items_say_what_they_are_and_axes_to_what_they_belong():
    item = Item("a", word=0, span=(0, 1), box=(0.0, 0.0, 0.5, 1.0), time=0.5, pitch=60.0)
    axes = {"a": Axis((item,), "a", Parent("b", 2)), "b": Axis((), "b")}
    result = to_json(Inspection("x", "m", "t", axes, (), title="a line"))
    assert result["axes"]["a"] == {
        "title": "a",
        "items": [dict(zip(item._fields[:6], item[:6], strict=True))],
        "parent": {"axis": "b", "item": 2},
    }
    assert result["axes"]["b"]["parent"] is None and result["first"] is None and result["title"] == "a line"


def test_the_first_map_is_the_most_telling_one_of_the_upper_level():
    result = examples.translation(2, 1)
    assert result.primary_map.name == "cross.1"
    assert replace(result, truth=None).primary_map.name == "cross.1"  # the last cross-attention of the outputs
    inward = tuple(item for item in result.maps if item.inward)
    assert replace(result, truth=None, maps=inward).primary_map.name == "encoder.0"
    assert examples.levels().primary_map.name == "upper"
    assert replace(examples.levels(), maps=examples.levels().maps[1:]).primary_map.name == "lower #1"


def test_a_page_of_six_layers_eight_heads_and_a_hundred_tokens_is_under_five_megabytes():
    random = np.random.default_rng(0)
    axes = {name: examples.axis("w" * 100, name) for name in ("source", "output", "read")}
    maps = tuple(
        examples.attention(group, layer, examples.softmax(random.normal(0, 2, (8, 100, 100))))
        for group in ("encoder", "decoder", "cross")
        for layer in range(6)
    )
    page = bundle(to_json(Inspection("a long sentence", "transformer", "translation", axes, maps)))
    assert len(page.encode()) < 5_000_000


def test_the_file_of_a_long_input_is_under_five_megabytes():
    """12 heads over 240 tokens, with three stages of the score: as many numbers as would fill 12 MB."""
    random = np.random.default_rng(0)
    axes = {name: examples.axis("w" * 240, name) for name in ("output", "read")}
    weights = examples.softmax(random.normal(0, 2, (4, 240, 240)))
    maps = tuple(replace(examples.attention("decoder", layer, weights), queries="output") for layer in range(3))
    maps = tuple(replace(item, keys="read") for item in maps)
    steps = tuple(
        HeadComputation(
            item.name,
            head,
            "Softmax[ q·k / √d + M ] · V",
            "softmax",
            *(random.normal(size=(240, 32)) for _ in range(3)),
            stages=tuple(Stage(name, random.normal(size=(240, 240))) for name in ("q·k", "score", "with positions")),
        )
        for item in maps
        for head in range(4)
    )
    page = bundle(to_json(Inspection("a long text", "gpt", "language", axes, maps, steps=steps)))
    assert len(page.encode()) < 5_000_000
    assert (
        sum(step["stages"] is not None for step in to_json(Inspection("", "", "", axes, maps, steps=steps))["steps"])
        >= 3
    )
