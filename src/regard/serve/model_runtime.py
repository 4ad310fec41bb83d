"""Model runtime: one loaded run with its lock and its batcher, and how it predicts a batch of parsed inputs.

The engine is chosen in engines/select.py; here the chosen engine is applied to the requests of a server.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from regard.api.run import Run, load
from regard.core import config as configs
from regard.core.errors import RegardError
from regard.core.task import Prediction, Task
from regard.decoding.strategy import DecodingStrategy
from regard.engines.select import SelectedEngine
from regard.serve.continuous_batching import BatchedStrategy, ContinuousBatcher
from regard.serve.model_lock import ModelLock
from regard.serve.scheduler import BatchCallbacks
from regard.serve.streams import PartialOutputStream

NO_CALLBACKS = BatchCallbacks()


class ServedRun:
    """A loaded run under the name by which requests select it."""

    def __init__(self, name: str, run: Run) -> None:
        self.name, self.run = name, run
        self.lock = ModelLock()  # predictions share it; an inspection holds it alone, for its hooks on the model
        self.batcher = ContinuousBatcher()

    @property
    def verbs(self) -> tuple[str, ...]:
        """Verbs of the run's task."""
        return self.run.verbs

    @property
    def input_suffixes(self) -> tuple[str, ...]:
        """Suffixes of the files that are inputs; () if inputs are texts."""
        return self.run.task.input_suffixes or ()

    @property
    def accepts_text(self) -> bool:
        """True if an input may be a text."""
        task = self.run.task
        return (
            not self.input_suffixes
            or self.generates_without_input
            or type(task).parse_untrusted_text is not Task.parse_untrusted_text
        )

    @property
    def generates_without_input(self) -> bool:
        """True if the input may be left out."""
        return "" in self.run.task.examples

    @cached_property
    def default_options(self) -> Any:
        """Options of a request without options: one shared object, so that comparisons are fast."""
        return configs.from_dict(self.run.options, {}, "options")

    @cached_property
    def uses_native_decoder(self) -> bool:
        """True if outputs are decoded by a native strategy: searches are then batched continuously."""
        return type(self.run.engine_handle(self.run.recipe.decoding).decoding) is DecodingStrategy

    @cached_property
    def external_engine(self) -> SelectedEngine | None:
        """The external engine of the default request, if engine auto selected one.

        Only the default request is compared: otherwise a client that sends ever new settings could keep the server
        comparing engines.
        """
        options, decoding = self.default_options, self.run.recipe.decoding
        handle = self.run.external_engine(options, decoding)
        if handle is None:
            return None
        return SelectedEngine(options, decoding, handle, self.run.torch_free_predictor())

    def uses_external_engine(
        self, options: Any, decoding: DecodingStrategy | None, stream: PartialOutputStream | None
    ) -> bool:
        """Return True if an external engine predicts a request. It has no partial output, so it cannot stream."""
        return stream is None and self.external_engine is not None and self.external_engine.matches(options, decoding)

    def predict(
        self,
        inputs: Sequence[Any],
        options: Any,
        decoding: DecodingStrategy | None,
        callbacks: BatchCallbacks = NO_CALLBACKS,
    ) -> list[list[Prediction]]:
        """Return the predictions of each parsed input, best first."""
        task, (stream, on_search_start, request_indices) = self.run.task, callbacks
        with self.lock.shared():
            if self.external_engine is not None and self.uses_external_engine(options, decoding, stream):
                on_search_start()  # the engine has its own threads
                return self.external_engine.predict(task, inputs)
            model, decoding = self.run.engine_handle(decoding)
            if self.uses_native_decoder and decoding is not None:
                on_tokens = None if stream is None else partial(self._report_tokens, stream, inputs[0], options)
                decoding = BatchedStrategy(
                    decoding.name,
                    decoding.config,
                    batcher=self.batcher,
                    on_tokens=on_tokens,
                    on_search_start=on_search_start,
                    request_indices=request_indices,
                )
            return task.predict(model, inputs, options, decoding)

    def _report_tokens(
        self, stream: PartialOutputStream, parsed_input: Any, options: Any, tokens: Sequence[int]
    ) -> None:
        stream.update(self.run.task.partial_text(parsed_input, options, tokens), len(tokens))


def open_runs(folders: Sequence[Path], *, engine: str, trust: bool) -> tuple[list[ServedRun], dict[Path, str]]:
    """Load run folders -> the runs that can be served, and the error message of each of the others."""
    runs: list[ServedRun] = []
    errors: dict[Path, str] = {}
    for folder in folders:
        try:
            run = load(folder, engine=engine, trust=trust)
            served = ServedRun(_unique_name(folder.resolve().name, [previous.name for previous in runs]), run)
            _ = served.uses_native_decoder, served.external_engine  # build and compare the engines now
            runs.append(served)
        except RegardError as error:
            errors[folder] = str(error)
    return runs, errors


def _unique_name(name: str, used_names: Sequence[str]) -> str:
    """Return the name, or the first of name-2, name-3 … that is free."""
    candidates = (name, *(f"{name}-{index}" for index in range(2, len(used_names) + 3)))
    return next(candidate for candidate in candidates if candidate not in used_names)
