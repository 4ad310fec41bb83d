"""JSON schemas of options: generated from the dataclass alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.serve import requests
from regard.serve.openapi import to_json_schema
from regard.serve.requests import OptionSchema


@dataclass(frozen=True)
class Options:
    class_: str = ""
    count: int = 2
    nbest: int = 1
    heat: float | None = None
    seed: int = 1
    how: Literal["a", "b"] = "a"
    like: tuple[str, ...] = ()
    prompt: Path | None = None
    again: bool = False


def test_a_schema_has_the_types_limits_and_defaults_of_the_fields():
    schema = to_json_schema(OptionSchema(Options, {"count": "how many"}, {"count": 5}, (".mid",)))
    properties = schema["properties"]
    assert schema["additionalProperties"] is False
    assert properties["class"] == {"type": "string", "maxLength": 100_000, "default": ""}
    assert properties["count"] == {"type": "integer", "maximum": 5, "description": "how many", "default": 2}
    assert properties["nbest"]["maximum"] == 32 and "maximum" not in properties["seed"]
    assert properties["heat"] == {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None}
    assert properties["how"]["enum"] == ["a", "b"] and properties["like"]["type"] == "array"
    assert properties["prompt"]["anyOf"][0] == {"$ref": "#/components/schemas/Upload"}
    assert properties["again"]["type"] == "boolean"


def test_descriptions_are_included():
    schema = requests.decoding_schema("beam")
    assert to_json_schema(schema)["properties"]["beam_width"]["description"] == schema.descriptions["beam_width"]
