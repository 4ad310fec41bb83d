"""JSON without NaN and infinity."""

from __future__ import annotations

import json

from regard.core.strict_json import to_strict_json


def test_numbers_that_are_not_finite_are_null():
    value = {"a": [float("nan"), {"b": float("-inf")}], "c": (1.5, "NaN"), 3: True}
    assert json.loads(to_strict_json(value), parse_constant=None) == {
        "a": [None, {"b": None}],
        "c": [1.5, "NaN"],
        "3": True,
    }
    assert to_strict_json({"a": "é", "b": 1.0}) == '{"a": "é", "b": 1.0}'
