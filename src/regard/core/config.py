"""Configuration: frozen dataclasses, read strictly from TOML and `key=value` settings, written completely as JSON.

Plain dataclasses are used instead of a validation library. The types are few (int, float, bool, str, None, Literal,
tuple, Path and nested dataclasses), errors name the exact key and the closest valid one, and `regard --help` stays
fast.
"""

from __future__ import annotations

import dataclasses
import tomllib
import types
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from regard.core.errors import ConfigError, did_you_mean

T = TypeVar("T")
Table = dict[str, Any]
MAX_INTEGER = 2**63  # integers must be smaller, to fit into an int64 tensor
TYPE_NAMES: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    Path: "a path",
}


def read_toml(path: Path) -> Table:
    """Return the table in a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such recipe") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def merge(base: Table, changes: Table) -> Table:
    """Return `base` updated with `changes`, section by section."""
    merged = dict(base)
    for key, value in changes.items():
        both_tables = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both_tables else value
    return merged


def override(table: Table, settings: list[str]) -> Table:
    """Return the table updated with `a.b=value` settings; values are TOML, or else plain text."""
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise ConfigError(f"setting {setting!r} is not of the form key=value, e.g. training.steps=1000")
        change: Any = _parse_value(text)
        for part in reversed(key.split(".")):
            change = {part: change}
        table = merge(table, change)
    return table


def _parse_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def from_dict(cls: type[T], table: Table, section: str) -> T:
    """Build a config object from a table; errors name the path of the unknown key or of the value of the wrong type."""
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]  # cls is a dataclass type
    hints = typing.get_type_hints(cls) if table else {}
    values: Table = {}
    for key, value in table.items():
        if key not in fields:
            raise ConfigError(f"{section}: no setting {key!r}; {did_you_mean(key, fields)}")
        values[key] = _convert(hints[key], value, f"{section}.{key}")
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in values:
            raise ConfigError(f"{section}.{name}: must be given")
    try:
        return cls(**values)
    except ConfigError as error:
        raise ConfigError(f"{section}: {error}") from None


def _convert(annotation: Any, value: Any, path: str) -> Any:
    origin = get_origin(annotation)
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type) and isinstance(value, dict):
        return from_dict(annotation, value, path)
    if origin is Literal:
        if value in get_args(annotation):
            return value
        raise ConfigError(f"{path}: {value!r} is not one of {', '.join(map(repr, get_args(annotation)))}")
    if origin in (types.UnionType, typing.Union):
        return _convert_union(get_args(annotation), value, path)
    if origin is tuple and isinstance(value, str):  # columns=ko,en, as well as columns=['ko', 'en']
        value = [_parse_value(part.strip()) for part in value.split(",") if part.strip()]
    elif origin is tuple and not isinstance(value, list | tuple):
        value = [value]
    if origin is tuple:
        arguments = get_args(annotation)
        item_types = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else list(arguments)
        if len(item_types) != len(value):
            raise ConfigError(f"{path}: expected {len(item_types)} values, got {len(value)}")
        items = enumerate(zip(item_types, value, strict=True))
        return tuple(_convert(item_type, item, f"{path}[{i}]") for i, (item_type, item) in items)
    return _convert_plain(annotation, value, path)


def _convert_union(members: tuple[Any, ...], value: Any, path: str) -> Any:
    if value is None or value == "none":
        if type(None) in members:
            return None
    for member in members:
        if member is type(None):
            continue
        try:
            return _convert(member, value, path)
        except ConfigError as error:
            last_error = error
    raise last_error


def _convert_plain(annotation: Any, value: Any, path: str) -> Any:
    if annotation is Path and isinstance(value, str):
        if not value.strip():
            raise ConfigError(f"{path}= is empty (an unset shell variable?); give a path, or leave {path} out")
        return Path(value)
    if annotation is str and isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # a name of digits: data.source=1
    if annotation is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if annotation is int and isinstance(value, int) and abs(value) >= MAX_INTEGER:
        raise ConfigError(f"{path}: {value} is too large; whole numbers must be below 2^63")
    is_bool_for_int = annotation is int and isinstance(value, bool)
    if isinstance(annotation, type) and isinstance(value, annotation) and not is_bool_for_int:
        return value
    expected = TYPE_NAMES.get(annotation, f"a table of settings, {path}.KEY=VALUE")
    raise ConfigError(f"{path}: expected {expected}, got {_format_value(value)}")


def _format_value(value: Any) -> str:
    """Return a value as it is written in a setting: true, none, 'text', 3.5."""
    return str(value).lower() if value is None or isinstance(value, bool) else repr(value)


def check_fields(
    settings: Any,
    *,
    at_least_1: Sequence[str] = (),
    at_least_0: Sequence[str] = (),
    positive: Sequence[str] = (),
    probability: Sequence[str] = (),
) -> None:
    """Raise a ConfigError that names the first field of a settings dataclass outside its range; None is allowed.

    `probability` fields are at least 0 and below 1.
    """
    rules: tuple[tuple[Sequence[str], Callable[[Any], bool], str], ...] = (
        (at_least_1, lambda value: value >= 1, "must be at least 1"),
        (at_least_0, lambda value: value >= 0, "must be at least 0"),
        (positive, lambda value: value > 0, "must be greater than 0"),
        (probability, lambda value: 0 <= value < 1, "must be at least 0 and below 1"),
    )
    for names, is_valid, message in rules:
        for name in names:
            value = getattr(settings, name)
            if value is not None and not is_valid(value):
                raise ConfigError(f"{name}={value} {message}")


def to_dict(config: Any) -> Any:
    """Return a config object as plain values for JSON, defaults included."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return {field.name: to_dict(getattr(config, field.name)) for field in dataclasses.fields(config)}
    if isinstance(config, tuple | list):
        return [to_dict(item) for item in config]
    if isinstance(config, dict):
        return {key: to_dict(value) for key, value in config.items()}
    return str(config) if isinstance(config, Path) else config
