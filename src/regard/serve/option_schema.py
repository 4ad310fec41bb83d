"""A dataclass of options as a JSON schema, and a request's values as that dataclass: from its fields, their types,
defaults and comments, which are written once, in the file of the task or of the decoder."""

from __future__ import annotations

import dataclasses
import keyword
import math
import types
import typing
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from regard.core import config as configs
from regard.core.describe import describe, source_path
from regard.core.errors import ConfigError, RegardError, did_you_mean

MAX_COUNT = 1_000  # what is counted, unless the task says otherwise (SERVED)
BATCH_WIDTH_OPTIONS = ("n", "nbest", "num_samples", "beam_width")  # rows of a batch for each input: memory
MAX_BATCH_WIDTH = 32  # of them
UNBOUNDED_OPTIONS = ("seed",)  # whole numbers that count nothing
MAX_TEXT_CHARACTERS = 100_000  # of a text
UPLOAD = {"$ref": "#/components/schemas/Upload"}


class OptionSchema(NamedTuple):
    """A dataclass, what its fields mean, and the most that each whole number may be."""

    options: type[Any]
    descriptions: Mapping[str, str]
    maximums: Mapping[str, int]
    input_suffixes: tuple[str, ...] = ()  # suffixes of the files that are sent for a field which is a path

    @property
    def names(self) -> Mapping[str, str]:
        """The name in JSON -> the field's: no field can be called `class`."""
        return _names(typing.cast(Hashable, self.options))

    @property
    def hints(self) -> Mapping[str, Any]:
        """The type of each field."""
        return _hints(typing.cast(Hashable, self.options))


@lru_cache(maxsize=256)  # every request asks for the same few
def _names(options: Hashable) -> Mapping[str, str]:
    return {json_name(field.name): field.name for field in dataclasses.fields(typing.cast(Any, options))}


@lru_cache(maxsize=256)
def _hints(options: Hashable) -> Mapping[str, Any]:
    return typing.get_type_hints(options)


def json_name(name: str) -> str:
    """class_ -> class."""
    bare = name.removesuffix("_")
    return bare if keyword.iskeyword(bare) else name


def schema_of(package: str, name: str, options: type[Any], *, input_suffixes: Sequence[str] = ()) -> OptionSchema:
    """The dataclass of a listed file, with the comments beside its fields."""
    try:
        described = describe(source_path(package, name), options.__name__)
    except RegardError:
        described = None
    meanings = {} if described is None else {each.name: each.comment for each in described.settings}
    return OptionSchema(options, meanings, {}, tuple(input_suffixes))


def to_json_schema(schema: OptionSchema) -> dict[str, Any]:
    """The JSON schema of what a request may say."""
    hints = schema.hints
    properties = {}
    for field in dataclasses.fields(schema.options):
        found = _schema(hints[field.name], field.name, schema)
        if schema.descriptions.get(field.name):
            found = {**found, "description": schema.descriptions[field.name]}
        if field.default is not dataclasses.MISSING and not isinstance(field.default, Path):
            found = {**found, "default": configs.to_dict(field.default)}
        properties[json_name(field.name)] = found
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _schema(hint: Any, name: str, kind: OptionSchema) -> dict[str, Any]:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_schema(part, name, kind) for part in inner]}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin is tuple:
        return {"type": "array", "items": _schema(inner[0], name, kind), "maxItems": MAX_COUNT}
    bound = {} if name in UNBOUNDED_OPTIONS else {"maximum": max_value(name, kind)}
    plain: dict[Any, dict[str, Any]] = {
        type(None): {"type": "null"},
        Path: UPLOAD,
        bool: {"type": "boolean"},
        int: {"type": "integer", **bound},
        float: {"type": "number"},
        str: {"type": "string", "maxLength": MAX_TEXT_CHARACTERS},
    }
    return plain.get(hint, {})


def max_value(name: str, schema: OptionSchema) -> int:
    """How much of what a whole number counts may be asked for."""
    return schema.maximums.get(name, MAX_BATCH_WIDTH if name in BATCH_WIDTH_OPTIONS else MAX_COUNT)


def is_path(hint: Any) -> bool:
    """Whether a field is a path, which may be None."""
    return hint is Path or Path in typing.get_args(hint)


def parse_options(schema: OptionSchema, table: Mapping[str, Any], where: str) -> Any:
    """Values by their JSON names -> the dataclass; a file is a path here already, and what is too much is refused."""
    names, hints = schema.names, schema.hints
    given = {}
    for key, value in table.items():
        if key not in names:
            raise ConfigError(f"{where}: no setting {key[:80]!r}; {did_you_mean(key[:80], names)}")
        if is_path(hints[names[key]]) and not (value is None or isinstance(value, Path)):
            raise ConfigError(f"{where}.{key} is a file; send the file itself, not where it lies")
        _check(value, names[key], schema, f"{where}.{key}")
        given[names[key]] = value
    return configs.from_dict(schema.options, given, where)


def _check(value: Any, name: str, kind: OptionSchema, where: str) -> None:
    """Numbers that a request may have, texts and lists that are not too long."""
    if isinstance(value, list):
        if len(value) > MAX_COUNT:
            raise ConfigError(f"{where} has {len(value):,} entries; at most {MAX_COUNT:,} fit into a request")
        for one in value:
            _check(one, "", kind, where)
    elif isinstance(value, str) and len(value) > MAX_TEXT_CHARACTERS:
        raise ConfigError(f"{where} has {len(value):,} letters; at most {MAX_TEXT_CHARACTERS:,} fit into a request")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{where} is no number")
    elif isinstance(value, int) and not isinstance(value, bool) and name and name not in UNBOUNDED_OPTIONS:
        if abs(value) > max_value(name, kind):
            raise ConfigError(f"{where}={value}: a request may ask for at most {max_value(name, kind):,}")
