"""What decodes for a run: our own engine, exact or with 8-bit weights, or CTranslate2 with the same weights.

An engine turns the decoding of a request into a pair (model, decoding) that a task uses like any other. So a task does
not know of engines, and an engine of no task. Which of them answers is chosen by name, or request by request (auto.py).
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
    """What a task is handed."""

    model: Any  # a core.protocols.Decoder where the task decodes
    decoding: DecodingStrategy | None


Engine = Callable[[DecodingStrategy | None], EngineHandle]


def build(name: str, parts: LoadedRun, precision: str = "float32") -> Engine:
    """native: every model, exact. int8: a Transformer, weights rounded to 8 bits. ctranslate2: a plain Transformer,
    GPT or encoder of BERT, by a library of its own, in the precision asked for."""
    makers = {AUTO: _native, NATIVE: _native, "int8": _rounded, "ctranslate2": _other}
    if name not in makers:
        raise ConfigError(f"no engine {name!r}; {did_you_mean(name, makers)}")
    if precision not in ct2_search.PRECISIONS:
        raise ConfigError(f"no precision {precision!r}; {did_you_mean(precision, ct2_search.PRECISIONS)}")
    if precision == "int8" and makers[name] is _native:
        return _rounded(parts, precision)
    return makers[name](parts, precision)


def model_fingerprint(model: nn.Module) -> object:
    """Equal for equal weights under the same hooks: another value says that the model was changed or is watched."""
    weights = tuple((weight.data_ptr(), _version(weight)) for weight in model.parameters())
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]
    return weights, hooks


def _version(weight: Tensor) -> int:
    """How often a weight was changed; what was made under torch.inference_mode does not count that."""
    return 0 if weight.is_inference() else weight._version


class OptimizedModelCache:
    """A copy of a model optimised for decoding; built once and reused until a weight or a hook changes."""

    def __init__(self, model: nn.Module) -> None:
        self._model: Any = model
        self._seen: object = None
        self._optimised: Any = None

    def __call__(self) -> Any:
        """The copy, or the model itself where it has none."""
        now = model_fingerprint(self._model)
        if self._seen != now:
            self._optimised, self._seen = optimize_for_decoding(self._model), now
        return self._optimised


def _native(parts: LoadedRun, precision: str) -> Engine:
    ready = OptimizedModelCache(parts.model)
    return lambda decoding: EngineHandle(ready(), decoding)


def _rounded(parts: LoadedRun, precision: str) -> Engine:
    whole: Any = parts.model
    model = optimize_for_decoding(whole, "int8")
    if model is whole:
        raise ConfigError(f"engine int8 is for the Transformer; {type(whole).__name__} needs engine native")
    return lambda decoding: EngineHandle(model, decoding)


def _other(parts: LoadedRun, precision: str) -> Engine:
    model, search = models.build(parts, precision)
    return lambda decoding: EngineHandle(model, search(decoding))
