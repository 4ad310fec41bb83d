"""Optional dependencies, imported on first use."""

from __future__ import annotations

import importlib
from typing import Any

from regard.core.errors import MissingExtra


def require(module: str, *, extra: str) -> Any:
    """Import and return a module; if it is not installed, raise an error with the pip command."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name.split(".")[0]):
            raise
        raise MissingExtra(f"{module} is not installed; run: pip install 'regard[{extra}]'") from None
