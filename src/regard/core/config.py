"""Configuration: one frozen dataclass per file, read strictly from TOML and `key=value`, written whole as JSON.

Plain dataclasses rather than a validation library: the types used are few (int, float, bool, str, None, Literal, tuple,
Path and nested dataclasses), errors can name the exact key and the nearest known one, and `regard --help` stays fast.
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
MAX_INTEGER = 2**63  # what tensors count with ends before it
TYPE_NAMES: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    Path: "a path",
}


def read_toml(path: Path) -> Table:
    """The table in a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such recipe") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        raise ConfigError(f"{path}: not valid TOML: {wrong}") from None


def merge(base: Table, changes: Table) -> Table:
    """`base` with `changes` laid over it, section by section."""
    merged = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def override(table: Table, settings: list[str]) -> Table:
    """The table with `a.b=value` settings laid over it; values are TOML, or else plain text."""
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise ConfigError(f"setting {setting!r} is not of the form key=value, e.g. training.steps=1000")
        change: Any = _value(text)
        for part in reversed(key.split(".")):
            change = {part: change}
        table = merge(table, change)
    return table


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def from_dict(cls: type[T], table: Table, section: str) -> T:
    """A config object from a table; an unknown key or a wrong type is an error that names its path."""
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]  # cls is a dataclass type
    hints = typing.get_type_hints(cls) if table else {}
    given: Table = {}
    for key, value in table.items():
        if key not in fields:
            raise ConfigError(f"{section}: no setting {key!r}; {did_you_mean(key, fields)}")
        given[key] = _convert(hints[key], value, f"{section}.{key}")
    for name, field in fields.items():
        absent = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if absent and name not in given:
            raise ConfigError(f"{section}.{name}: must be given")
    try:
        return cls(**given)
    except ConfigError as wrong:
        raise ConfigError(f"{section}: {wrong}") from None


def _convert(kind: Any, value: Any, where: str) -> Any:
    origin = get_origin(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type) and isinstance(value, dict):
        return from_dict(kind, value, where)
    if origin is Literal:
        if value in get_args(kind):
            return value
        raise ConfigError(f"{where}: {value!r} is not one of {', '.join(map(repr, get_args(kind)))}")
    if origin in (types.UnionType, typing.Union):
        return _convert_union(get_args(kind), value, where)
    if origin is tuple and isinstance(value, str):  # columns=ko,en, as well as columns=['ko', 'en']
        value = [_value(part.strip()) for part in value.split(",") if part.strip()]
    elif origin is tuple and not isinstance(value, list | tuple):
        value = [value]
    if origin is tuple:
        inner = get_args(kind)
        kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else list(inner)
        if len(kinds) != len(value):
            raise ConfigError(f"{where}: expected {len(kinds)} values, got {len(value)}")
        return tuple(_convert(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, value, strict=True)))
    return _convert_plain(kind, value, where)


def _convert_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None or value == "none":
        if type(None) in kinds:
            return None
    for kind in kinds:
        if kind is type(None):
            continue
        try:
            return _convert(kind, value, where)
        except ConfigError as wrong:
            last = wrong
    raise last


def _convert_plain(kind: Any, value: Any, where: str) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    if kind is str and isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # a name that is a number: data.source=1
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, int) and abs(value) >= MAX_INTEGER:
        raise ConfigError(f"{where}: no whole number may be as large as {value}")
    if isinstance(kind, type) and isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    wanted = TYPE_NAMES.get(kind, f"settings of its own, {where}.KEY=VALUE")
    raise ConfigError(f"{where}: expected {wanted}, got {_as_given(value)}")


def _as_given(value: Any) -> str:
    """A value as one would write it in a setting: true, none, 'text', 3.5."""
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
    """Plain values for JSON, defaults written out."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return {field.name: to_dict(getattr(config, field.name)) for field in dataclasses.fields(config)}
    if isinstance(config, tuple | list):
        return [to_dict(item) for item in config]
    if isinstance(config, dict):
        return {key: to_dict(value) for key, value in config.items()}
    return str(config) if isinstance(config, Path) else config
