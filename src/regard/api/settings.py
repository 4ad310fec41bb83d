"""Settings as people write them in Python, a list of "key=value" or a dict, to the words that recipes read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regard.core import config as configs

CHOICES = {"model.name": "model", "decoding.name": "decoding"}  # what another model or decoder is chosen by
Settings = Sequence[str] | Mapping[str, Any]


def to_key_values(settings: Settings) -> list[str]:
    """["a.b=1"] as it is; {"a": {"b": 1}} and {"a.b": 1} -> ["a.b=1"]."""
    if not isinstance(settings, Mapping):
        return list(settings)
    pairs = [(CHOICES.get(key, key), value) for key, value in _flat(settings)]
    pairs.sort(key=lambda pair: "." in pair[0])  # stable; model=… comes before model.dim=…, which changes it
    return [f"{key}={_toml(value)}" for key, value in pairs]


def _flat(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{inner}", deepest) for inner, deepest in _flat(value))
        else:
            yield key, value


def _toml(value: Any) -> str:
    """A plain value as TOML; JSON writes text, numbers and lists of them alike."""
    plain = configs.to_dict(value)
    return "none" if plain is None else json.dumps(plain, ensure_ascii=False)
