"""Engine auto: choose the engine of each request, CTranslate2 if it gives the same results as the native engine.

The weights are exported once. Each kind of request (options and decoding settings) is compared once on the comparison
inputs of the run: texts, order and scores of the predictions. The result is cached next to the export.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard.core import config as configs
from regard.core import trust as trusts
from regard.core.errors import ConfigError, MissingExtra, RegardError
from regard.core.extras import require
from regard.core.prediction import Prediction
from regard.core.task import Task
from regard.decoding.strategy import DecodingStrategy
from regard.engines import engine, torch_free
from regard.engines.ctranslate2 import cache, models
from regard.engines.ctranslate2.export import is_supported
from regard.engines.engine import Engine, EngineHandle
from regard.engines.torch_free import FallbackPredict, TorchFreePredictor
from regard.training.load_run import LoadedRun

SCORE_RTOL = 1e-3  # relative tolerance of scores: sums of float32 in another order
Predictions = list[list[Prediction]]


class SelectedEngine(NamedTuple):
    """The engine that was selected for one kind of request, and how it predicts parsed inputs."""

    options: Any
    decoding: DecodingStrategy | None
    handle: EngineHandle
    torch_free_predictor: TorchFreePredictor | None  # the same for texts, without torch, if the task supports it

    def matches(self, options: Any, decoding: DecodingStrategy | None) -> bool:
        """Return True if a request is of the kind for which the engine was selected."""
        return bool((options, decoding) == (self.options, self.decoding))

    def predict(self, task: Task, inputs: Sequence[Any]) -> Predictions:
        """Return the predictions of each parsed input. The fallback of the torch-free predictor does not parse texts
        again: they must not be interpreted as paths."""

        def predict_with_task(parsed_inputs: Sequence[Any]) -> Predictions:
            return task.predict(self.handle.model, parsed_inputs, self.options, self.handle.decoding)

        if self.torch_free_predictor is None or not all(isinstance(parsed_input, str) for parsed_input in inputs):
            return predict_with_task(inputs)
        return replace(self.torch_free_predictor, fallback=predict_with_task).predict(inputs)


class EngineSelector:
    """The native engine and CTranslate2 of a run, and the choice between them for each request."""

    def __init__(self, parts: LoadedRun, *, precision: str, is_unmodified: Callable[[], bool]) -> None:
        self.native: Engine = engine.build(engine.NATIVE, parts, precision)
        self.chosen = False  # CTranslate2 was chosen for the last request
        self.why = ""  # one line: why it was not, although it supports the request
        self._parts, self._precision, self._is_unmodified = parts, precision, is_unmodified
        self._folder: Path | None = None
        self._ct2_engines: dict[str, Engine] = {}
        self._torch_free: dict[str, TorchFreePredictor | None] = {}

    def handle_for(self, request: Any, decoding: DecodingStrategy | None) -> EngineHandle:
        """Return the model and the decoding strategy of the engine that is chosen for a request."""
        if self.equivalent_key(request, decoding) is None:
            return self.native(decoding)
        return self._ct2_engine(self._precision)(decoding)

    def torch_free_predictor(
        self, request: Any, decoding: DecodingStrategy | None, fallback: FallbackPredict
    ) -> TorchFreePredictor | None:
        """Return the predictor of a request that needs neither torch nor the task; None if there is none."""
        key = self.equivalent_key(request, decoding)
        if key is None or self._folder is None:
            return None
        if key not in self._torch_free:
            entry = cache.EquivalenceCache(self._folder).get(key)
            self._torch_free[key] = None if entry is None else self._open_torch_free(entry, fallback)
        return self._torch_free[key]

    def equivalent_key(self, request: Any, decoding: DecodingStrategy | None) -> str | None:
        """Return the cache key of the request if CTranslate2 gives the native results; None if it does not."""
        self.why, self.chosen = "", False
        if not models.can_match_native(self._parts.model, decoding) or not self._has_export():
            return None
        options = configs.to_dict(request)
        settings = {} if decoding is None else {"name": decoding.name, **configs.to_dict(decoding.config)}
        key = cache.request_key(configs.to_dict(self._parts.recipe.task.config), options, settings)
        assert self._folder is not None
        equivalence_cache = cache.EquivalenceCache(self._folder)
        entry = equivalence_cache.get(key)
        if entry is None:
            entry = {"why": self._compare(request, decoding), "options": options, "decoding": settings}
            equivalence_cache.put(key, entry)
        self.why, self.chosen = entry["why"], not entry["why"]
        return key if self.chosen else None

    def cache_command(self, settings: Sequence[str], request: Any, decoding: DecodingStrategy | None) -> None:
        """Cache which request the arguments of a command stand for."""
        key = self.equivalent_key(request, decoding)
        if key is not None and self._folder is not None:
            command_key = cache.command_key(self._parts.folder / "config.json", settings)
            cache.EquivalenceCache(self._folder).put_command(command_key, key)

    def _open_torch_free(self, entry: cache.Table, fallback: FallbackPredict) -> TorchFreePredictor | None:
        table, run = self._parts.recipe.to_dict(), self._parts.folder
        assert self._folder is not None
        with trusts.trust_scope(run, trusted=self._parts.trusted):
            return torch_free.from_cache_entry(
                run, self._folder, entry, table=table, precision=self._precision, single=False, fallback=fallback
            )

    def _has_export(self) -> bool:
        """Return True if there is an export of the current weights; it is created now if possible."""
        model = self._parts.model
        if not is_supported(model) or next(model.parameters()).device.type != "cpu" or not self._is_unmodified():
            return False
        if self._folder is None:
            try:
                require("ctranslate2", extra="ctranslate2")
                self._folder = models.ensure_export(self._parts)
            except (MissingExtra, RegardError):  # not installed, or the score or position encoding is not supported
                return False
        return True

    def _ct2_engine(self, precision: str) -> Engine:
        if precision not in self._ct2_engines:
            self._ct2_engines[precision] = engine.build("ctranslate2", self._parts, precision)
        return self._ct2_engines[precision]

    def _compare(self, request: Any, decoding: DecodingStrategy | None) -> str:
        """Return why CTranslate2 must not predict such a request, or "". Both engines are run in float32."""
        task = self._parts.task
        texts = [text for text in task.comparison_inputs or task.examples if text]
        if not texts:
            return "the run has no examples on which engines can be compared"
        threads = torch.get_num_threads()  # CTranslate2 changes it when it loads a model
        handles = engine.build(engine.NATIVE, self._parts)(decoding), self._ct2_engine("float32")(decoding)
        try:
            torch.set_num_threads(1)  # so that processes can be forked afterwards
            inputs = [task.parse_input(text) for text in texts]
            native, external = (task.predict(model, inputs, request, search) for model, search in handles)
        except ConfigError as error:  # a request that CTranslate2 does not support: a forced prefix
            return str(error)
        finally:
            torch.set_num_threads(threads)
        return find_difference(texts, native, external)


def find_difference(texts: Sequence[str], native: Predictions, external: Predictions) -> str:
    """Describe the first difference between the predictions of two engines; "" if there is none."""
    for text, native_row, external_row in zip(texts, native, external, strict=True):
        if [prediction.text for prediction in native_row] != [prediction.text for prediction in external_row]:
            return f"CTranslate2 predicts another output for {text!r:.60} in the comparison"
        for prediction, ct2_prediction in zip(native_row, external_row, strict=True):
            score, ct2_score = prediction.score, ct2_prediction.score
            if abs((score or 0) - (ct2_score or 0)) > SCORE_RTOL * max(1, abs(score or 0)):
                return f"CTranslate2 has another score for {text!r:.60} in the comparison ({ct2_score}, not {score})"
    return ""
