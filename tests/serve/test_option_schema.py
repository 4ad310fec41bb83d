"""Options as a JSON schema and back: from the dataclass alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from regard.core.errors import ConfigError
from regard.serve import option_schema
from regard.serve.option_schema import OptionSchema


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


KIND = OptionSchema(Options, {"count": "how many"}, {"count": 5}, (".mid",))


def test_a_schema_says_what_the_fields_say():
    found = option_schema.to_json_schema(KIND)
    assert found["additionalProperties"] is False
    assert found["properties"]["class"] == {"type": "string", "maxLength": 100_000, "default": ""}
    assert found["properties"]["count"] == {"type": "integer", "maximum": 5, "description": "how many", "default": 2}
    assert found["properties"]["nbest"]["maximum"] == 32 and "maximum" not in found["properties"]["seed"]
    assert found["properties"]["heat"] == {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None}
    assert found["properties"]["how"]["enum"] == ["a", "b"] and found["properties"]["like"]["type"] == "array"
    assert found["properties"]["prompt"]["anyOf"][0] == {"$ref": "#/components/schemas/Upload"}
    assert found["properties"]["again"]["type"] == "boolean"


def test_values_are_made_into_the_dataclass():
    given = {"class": "cat", "count": 5, "heat": 1, "like": ["Bach"], "prompt": Path("a.mid"), "seed": 2**40}
    assert option_schema.parse_options(KIND, given, "options") == Options(
        "cat", 5, 1, 1.0, 2**40, "a", ("Bach",), Path("a.mid")
    )
    assert option_schema.parse_options(KIND, {"prompt": None}, "options") == Options()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cuont": 1}, "options: no setting 'cuont'; did you mean 'count'?"),
        ({"class_": "x"}, "options: no setting 'class_'; did you mean 'class'?"),
        ({"prompt": "/etc/passwd"}, "options.prompt is a file; send the file itself, not where it lies"),
        ({"count": 6}, "options.count=6: a request may ask for at most 5"),
        ({"nbest": -33}, "options.nbest=-33: a request may ask for at most 32"),
        ({"heat": float("inf")}, "options.heat is no number"),
        ({"class": "x" * 100_001}, "options.class has 100,001 letters; at most 100,000 fit into a request"),
        ({"like": ["x"] * 1001}, "options.like has 1,001 entries; at most 1,000 fit into a request"),
        ({"count": "many"}, "options.count: expected a whole number, got 'many'"),
    ],
)
def test_what_is_wrong_or_too_much_is_one_line(given, said):
    with pytest.raises(ConfigError) as wrong:
        option_schema.parse_options(KIND, given, "options")
    assert str(wrong.value) == said


def test_what_a_field_means_is_read_beside_it():
    from regard.decoding.strategies.beam import Config

    found = option_schema.to_json_schema(option_schema.schema_of("regard.decoding.strategies", "beam", Config))
    assert found["properties"]["width"]["description"] == "beginnings that are kept at every step"
    assert option_schema.schema_of("regard.decoding.strategies", "elsewhere", Config).descriptions == {}
