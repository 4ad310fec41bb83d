"""Optional dependencies, imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any

from regard.core.errors import MissingExtra


def require(module: str, *, extra: str) -> Any:
    """The imported module, or one line with the pip command that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name is None or not module.startswith(missing.name.split(".")[0]):
            raise
        raise MissingExtra(f"{module} is not installed; run: pip install 'regard[{extra}]'") from None
