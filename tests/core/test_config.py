"""Configuration: strict reading, key=value settings, complete writing; every error names the key and the remedy."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from regard.core.config import check_fields, from_dict, merge, override, read_toml, to_dict
from regard.core.errors import ConfigError


@dataclass(frozen=True)
class Inner:
    rate: float = 0.1
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Config:
    name: str
    layers: int = 2
    deep: bool = False
    path: Path | None = None
    sizes: tuple[int, ...] = (1, 2)
    pair: tuple[int, str] = (1, "x")
    limit: int | None = 5
    inner: Inner = field(default_factory=Inner)

    def __post_init__(self):
        check_fields(self, at_least_1=["layers", "limit"])


def test_given_and_default_values():
    table = {"name": "x", "path": "a/b", "sizes": [3], "pair": [4, "y"], "limit": "none", "inner": {"rate": 1}}
    config = from_dict(Config, table, "model")
    assert config == Config("x", path=Path("a/b"), sizes=(3,), pair=(4, "y"), limit=None, inner=Inner(rate=1.0))
    assert isinstance(config.inner.rate, float)


def test_written_and_read_is_the_same():
    config = Config("x", path=Path("a"), limit=None, inner=Inner(kind="b"))
    assert from_dict(Config, json.loads(json.dumps(to_dict(config))), "model") == config
    assert to_dict({"a": [config.inner]}) == {"a": [{"rate": 0.1, "kind": "b"}]}


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({}, "model.name: must be given"),
        ({"name": "x", "layer": 2}, "model: no setting 'layer'; did you mean 'layers'?"),
        ({"name": "x", "zzz": 2}, "model: no setting 'zzz'; known: deep, inner, layers"),
        ({"name": "x", "layers": "two"}, "model.layers: expected a whole number, got 'two'"),
        (
            {"name": "x", "layers": 2**63},
            "model.layers: 9223372036854775808 is too large; whole numbers must be below 2^63",
        ),
        ({"name": "x", "layers": True}, "model.layers: expected a whole number, got true"),
        ({"name": "x", "deep": 1}, "model.deep: expected true or false, got 1"),
        ({"name": 3.5}, "model.name: expected text, got 3.5"),
        ({"name": "x", "inner": {"kind": "c"}}, "model.inner.kind: 'c' is not one of 'a', 'b'"),
        ({"name": "x", "inner": {"rat": 1.0}}, "model.inner: no setting 'rat'; did you mean 'rate'?"),
        ({"name": "x", "inner": 3}, "model.inner: expected a table of settings, model.inner.KEY=VALUE, got 3"),
        ({"name": "x", "sizes": [1, "a"]}, "model.sizes[1]: expected a whole number, got 'a'"),
        ({"name": "x", "pair": [1]}, "model.pair: expected 2 values, got 1"),
        ({"name": "x", "limit": "many"}, "model.limit: expected a whole number, got 'many'"),
        ({"name": "x", "layers": 0}, "model: layers=0 must be at least 1"),
    ],
)
def test_errors_name_the_key(table, text):
    with pytest.raises(ConfigError) as error:
        from_dict(Config, table, "model")
    assert text in str(error.value)


def test_merge_updates_sections_and_copies():
    base = {"a": {"b": 1, "c": 2}, "d": 3}
    assert merge(base, {"a": {"c": 5}, "d": {"e": 1}}) == {"a": {"b": 1, "c": 5}, "d": {"e": 1}}
    assert base == {"a": {"b": 1, "c": 2}, "d": 3}


def test_settings_are_toml_values_or_else_text():
    table = override({"a": {"b": 1}}, ["a.b=2.5", "a.c=[1, 2]", "d=true", "e=plain words", "f=x=y", "g="])
    assert table == {"a": {"b": 2.5, "c": [1, 2]}, "d": True, "e": "plain words", "f": "x=y", "g": ""}


@pytest.mark.parametrize("setting", ["steps", "=3"])
def test_a_setting_without_key_or_value(setting):
    with pytest.raises(
        ConfigError, match=f"setting '{setting}' is not of the form key=value, e.g. training.steps=1000"
    ):
        override({}, [setting])


def test_reading_a_file(tmp_path):
    path = tmp_path / "recipe.toml"
    with pytest.raises(ConfigError, match=r"recipe\.toml: no such recipe"):
        read_toml(path)
    path.write_text("a = [1,", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"recipe\.toml: not valid TOML"):
        read_toml(path)
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not valid TOML"):
        read_toml(path)
    path.write_text("[a]\nb = 1\n", encoding="utf-8")
    assert read_toml(path) == {"a": {"b": 1}}


@dataclass(frozen=True)
class Limits:
    layers: int | None = 1
    warmup: int | None = 0
    rate: float | None = 0.5
    dropout: float | None = 0.0


RULES = {"at_least_1": ["layers"], "at_least_0": ["warmup"], "positive": ["rate"], "probability": ["dropout"]}


@pytest.mark.parametrize("limits", [Limits(), Limits(None, None, None, None), Limits(dropout=0.999)])
def test_fields_within_their_range_are_accepted(limits):
    check_fields(limits, **RULES)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(layers=0), "layers=0 must be at least 1"),
        (Limits(warmup=-1), "warmup=-1 must be at least 0"),
        (Limits(rate=0.0), "rate=0.0 must be greater than 0"),
        (Limits(dropout=1.0), "dropout=1.0 must be at least 0 and below 1"),
        (Limits(dropout=-0.1), "dropout=-0.1 must be at least 0 and below 1"),
        (Limits(layers=0, warmup=-1), "layers=0 must be at least 1"),  # the first problem only
    ],
)
def test_a_field_outside_its_range_is_named(limits, message):
    with pytest.raises(ConfigError) as error:
        check_fields(limits, **RULES)
    assert str(error.value) == message
