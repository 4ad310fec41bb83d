"""regard: attention models of every kind from one formula, ATTN(Q, K, V) = Normalise[f(Q, K) + M] · V.

Names are imported when they are first used, so that `regard --help` does not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import Any

from regard.core.version import __version__

_HOMES: dict[str, str] = {}  # public name -> the module it lives in
__all__ = ["__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
