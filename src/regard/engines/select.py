"""Which engine answers a request: CTranslate2 where it was found to answer as our own engine does, else our own.

The weights are exported once. A kind of request (what is asked, and the settings of the search) is compared once, on
the texts that a run keeps for this, answers and their order and scores; what was found is kept beside the export.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from regard.core import config as configs
from regard.core.errors import MissingExtra, RegardError
from regard.core.extras import require
from regard.core.prediction import Prediction
from regard.decoding.strategy import DecodingStrategy
from regard.engines import engine, torch_free
from regard.engines.ctranslate2 import cache, models
from regard.engines.ctranslate2.export import is_supported
from regard.engines.engine import Engine, EngineHandle
from regard.engines.torch_free import FallbackPredict, TorchFreePredictor
from regard.training.load_run import LoadedRun

SCORE_RTOL = 1e-3  # scores differ by so much at most, as a share; sums of float32 in another order
Predictions = list[list[Prediction]]


class EngineSelector:
    """The engines of a run, and what is known of them."""

    def __init__(self, parts: LoadedRun, *, precision: str, is_unmodified: Callable[[], bool]) -> None:
        self.native: Engine = engine.build(engine.NATIVE, parts, precision)
        self.chosen = False  # whether CTranslate2 was chosen for the last request
        self.why = ""  # why our own engine answered a request that CTranslate2 might have, in one line
        self._parts, self._precision, self._untouched = parts, precision, is_unmodified
        self._folder: Path | None = None
        self._others: dict[str, Engine] = {}
        self._quick: dict[str, TorchFreePredictor | None] = {}

    def handle_for(self, request: Any, decoding: DecodingStrategy | None) -> EngineHandle:
        """What the task is handed for a request."""
        if self.equivalent_key(request, decoding) is None:
            return self.native(decoding)
        return self._other(self._precision)(decoding)

    def torch_free_predictor(
        self, request: Any, decoding: DecodingStrategy | None, fallback: FallbackPredict
    ) -> TorchFreePredictor | None:
        """What answers a request of texts without the task, where there is such a thing."""
        key = self.equivalent_key(request, decoding)
        if key is None or self._folder is None:
            return None
        if key not in self._quick:
            entry = cache.EquivalenceCache(self._folder).get(key)
            self._quick[key] = None if entry is None else self._open(entry, fallback)
        return self._quick[key]

    def _open(self, entry: cache.Table, slow: FallbackPredict) -> TorchFreePredictor | None:
        table, run = self._parts.recipe.to_dict(), self._parts.folder
        assert self._folder is not None
        return torch_free.from_cache_entry(
            run, self._folder, entry, table=table, precision=self._precision, single=False, fallback=slow
        )

    def equivalent_key(self, request: Any, decoding: DecodingStrategy | None) -> str | None:
        """The name of the request where CTranslate2 answers it as our own engine does; None where ours must."""
        self.why, self.chosen = "", False
        if not models.can_match_native(self._parts.model, decoding) or not self._possible():
            return None
        options = configs.to_dict(request)
        settings = {} if decoding is None else {"name": decoding.name, **configs.to_dict(decoding.config)}
        key = cache.request_key(configs.to_dict(self._parts.recipe.task.config), options, settings)
        assert self._folder is not None
        notes = cache.EquivalenceCache(self._folder)
        entry = notes.get(key)
        if entry is None:
            entry = {"why": self._compare(request, decoding), "options": options, "decoding": settings}
            notes.put(key, entry)
        self.why, self.chosen = entry["why"], not entry["why"]
        return key if self.chosen else None

    def cache_command(self, settings: Sequence[str], request: Any, decoding: DecodingStrategy | None) -> None:
        """Note that the words of a command ask for this request."""
        key = self.equivalent_key(request, decoding)
        if key is not None and self._folder is not None:
            cache.EquivalenceCache(self._folder).put_command(
                cache.command_key(self._parts.folder / "config.json", settings), key
            )

    def _possible(self) -> bool:
        """Whether there is an export of the weights as they are, made now where it can be."""
        model = self._parts.model
        if not is_supported(model) or next(model.parameters()).device.type != "cpu" or not self._untouched():
            return False
        if self._folder is None:
            try:
                require("ctranslate2", extra="ctranslate2")
                self._folder = models.ensure_export(self._parts)
            except (MissingExtra, RegardError):  # not there, or it does not know this score or these positions
                return False
        return True

    def _other(self, precision: str) -> Engine:
        if precision not in self._others:
            self._others[precision] = engine.build("ctranslate2", self._parts, precision)
        return self._others[precision]

    def _compare(self, request: Any, decoding: DecodingStrategy | None) -> str:
        """Why CTranslate2 must not answer such a request; nothing where it may. Both are asked in float32."""
        task = self._parts.task
        texts = [text for text in task.comparison_inputs or task.examples if text]
        if not texts:
            return "the run has no examples on which engines could be compared"
        own = engine.build(engine.NATIVE, self._parts)(decoding)
        other = self._other("float32")(decoding)
        threads = torch.get_num_threads()
        try:
            torch.set_num_threads(1)  # so that processes can be forked afterwards
            given = [task.parse_input(text) for text in texts]
            ours, theirs = (task.predict(model, given, request, search) for model, search in (own, other))
        finally:
            torch.set_num_threads(threads)
        return find_difference(texts, ours, theirs)


def find_difference(texts: Sequence[str], native: Predictions, external: Predictions) -> str:
    """Where two engines answered otherwise, in words; nothing where all is the same, in the same order."""
    for text, own, other in zip(texts, native, external, strict=True):
        if [answer.text for answer in own] != [answer.text for answer in other]:
            return f"CTranslate2 answers {text!r:.60} otherwise on comparing"
        for one, two in zip(own, other, strict=True):
            if abs((one.score or 0) - (two.score or 0)) > SCORE_RTOL * max(1, abs(one.score or 0)):
                return f"CTranslate2 scores {text!r:.60} otherwise on comparing ({two.score} and not {one.score})"
    return ""
