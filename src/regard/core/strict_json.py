"""JSON as its standard defines it: numbers are finite. NaN and infinity, which Python would print, become null."""

from __future__ import annotations

import json
import math
from typing import Any


def to_strict_json(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON, in which every number is finite."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    except ValueError:  # rare, so that the copy below is, too
        return json.dumps(replace_non_finite(value), ensure_ascii=False, allow_nan=False, indent=indent)


def replace_non_finite(value: Any) -> Any:
    """Replace NaN and infinite numbers by None."""
    if isinstance(value, dict):
        return {str(key): replace_non_finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [replace_non_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
