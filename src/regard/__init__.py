"""regard: a toolkit for attention models built on one formula, ATTN(Q, K, V) = Normalize[f(Q, K) + M] · V.

Public names are imported on first use, so that `regard --help` does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from regard.core.version import __version__

if TYPE_CHECKING:  # for type checkers and editors; _HOMES is the same list at run time
    from regard.api.hub import push
    from regard.api.run import Run, load, resume, train
    from regard.attention.functional import attend, attention_map
    from regard.attention.masks import Mask
    from regard.attention.record import AttentionMap, record
    from regard.attention.scores import build as score
    from regard.core.errors import RegardError
    from regard.core.prediction import Prediction
    from regard.serve.client import Client

__all__ = [
    "AttentionMap",
    "Client",
    "Mask",
    "Prediction",
    "RegardError",
    "Run",
    "__version__",
    "attend",
    "attention_map",
    "load",
    "push",
    "record",
    "resume",
    "score",
    "train",
]  # fmt: skip

_HOMES = {  # public name -> module:attribute
    "AttentionMap": "regard.attention.record:AttentionMap",
    "Client": "regard.serve.client:Client",
    "Mask": "regard.attention.masks:Mask",
    "Prediction": "regard.core.prediction:Prediction",
    "RegardError": "regard.core.errors:RegardError",
    "Run": "regard.api.run:Run",
    "attend": "regard.attention.functional:attend",
    "attention_map": "regard.attention.functional:attention_map",
    "load": "regard.api.run:load",
    "push": "regard.api.hub:push",
    "record": "regard.attention.record:record",
    "resume": "regard.api.run:resume",
    "score": "regard.attention.scores:build",
    "train": "regard.api.run:train",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    module, attribute = _HOMES[name].split(":")
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return __all__
