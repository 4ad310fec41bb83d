"""Options of a request, as the form of the page reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def option_schema(options: Mapping[str, tuple[str, Any, str]]) -> dict[str, dict[str, Any]]:
    """Name -> (type, default, description) of each option -> the properties of a JSON schema."""
    return {
        name: {"type": kind, "default": default, "description": description}
        for name, (kind, default, description) in options.items()
    }
