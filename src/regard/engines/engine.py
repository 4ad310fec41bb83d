"""Engines by name: the native engine (float32 or with 8-bit weights) and CTranslate2 with the same weights.

An engine maps the decoding strategy of a request to a pair (model, decoding) that a task uses like any other. So tasks
do not depend on engines, nor engines on tasks. Engine auto, which chooses per request, is in select.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn

from regard.core.errors import ConfigError, did_you_mean
from regard.decoding.strategy import DecodingStrategy, optimize_for_decoding
from regard.engines.ctranslate2 import models
from regard.engines.ctranslate2 import search as ct2_search
from regard.training.load_run import LoadedRun

AUTO, NATIVE = "auto", "native"


class EngineHandle(NamedTuple):
    """The model and the decoding strategy that a task predicts with."""

    model: Any  # a core.protocols.Decoder if the task decodes
    decoding: DecodingStrategy | None


Engine = Callable[[DecodingStrategy | None], EngineHandle]
ENGINES = (AUTO, NATIVE, "int8", "ctranslate2")


def build(name: str, parts: LoadedRun, precision: str = "float32") -> Engine:
    """Return the engine with this name.

    native: every model, exact. int8: a Transformer with 8-bit weights. ctranslate2: a plain Transformer, a GPT or the
    encoder of a BERT, in the given precision. auto stands for native here.
    """
    check_names(name, precision)
    builders = {AUTO: _native, NATIVE: _native, "int8": _int8, "ctranslate2": _ctranslate2}
    if precision == "int8" and builders[name] is _native:
        return _int8(parts, precision)
    return builders[name](parts, precision)


def check_names(engine: str, precision: str) -> None:
    """Raise a ConfigError for an engine or a precision that does not exist."""
    if engine not in ENGINES:
        raise ConfigError(f"no engine {engine!r}; {did_you_mean(engine, ENGINES)}")
    if precision not in ct2_search.PRECISIONS:
        raise ConfigError(f"no precision {precision!r}; {did_you_mean(precision, ct2_search.PRECISIONS)}")


def model_fingerprint(model: nn.Module) -> object:
    """Return a value that changes when a weight is modified or a hook is added or removed."""
    weights = tuple((weight.data_ptr(), _version(weight)) for weight in model.parameters())
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]
    return weights, hooks


def _version(weight: Tensor) -> int:
    """Return the version counter of a weight; tensors created under torch.inference_mode have none."""
    return 0 if weight.is_inference() else weight._version


class OptimizedModelCache:
    """A copy of a model optimized for decoding; built once and reused until a weight or a hook changes."""

    def __init__(self, model: nn.Module) -> None:
        self._model: Any = model
        self._fingerprint: object = None
        self._optimized: Any = None

    def __call__(self) -> Any:
        """Return the copy, or the model itself if it has no optimized form."""
        fingerprint = model_fingerprint(self._model)
        if self._fingerprint != fingerprint:
            self._optimized, self._fingerprint = optimize_for_decoding(self._model), fingerprint
        return self._optimized


def _native(parts: LoadedRun, precision: str) -> Engine:
    optimized = OptimizedModelCache(parts.model)
    return lambda decoding: EngineHandle(optimized(), decoding)


def _int8(parts: LoadedRun, precision: str) -> Engine:
    original: Any = parts.model
    model = optimize_for_decoding(original, "int8")
    if model is original:
        raise ConfigError(f"engine int8: only for the Transformer; {type(original).__name__} needs engine native")
    return lambda decoding: EngineHandle(model, decoding)


def _ctranslate2(parts: LoadedRun, precision: str) -> Engine:
    model, to_ct2 = models.build(parts, precision)
    return lambda decoding: EngineHandle(model, to_ct2(decoding))
