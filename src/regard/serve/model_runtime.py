"""A run that is served: its name, what can be asked of it, and one thing at a time done with its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from regard.api.run import Run, load
from regard.core import config as configs
from regard.core.errors import ConfigError, RegardError, did_you_mean
from regard.core.registry import find, registered_names
from regard.core.task import Prediction, Task
from regard.decoding.strategy import DecodingStrategy
from regard.engines.engine import EngineHandle
from regard.engines.torch_free import TorchFreePredictor
from regard.serve import option_schema
from regard.serve.continuous_batching import BatchedStrategy, ContinuousBatcher
from regard.serve.model_lock import ModelLock
from regard.serve.option_schema import OptionSchema
from regard.serve.scheduler import BatchCallbacks
from regard.serve.streams import PartialOutputStream

NO_CALLBACKS = BatchCallbacks()


class DefaultRequest(NamedTuple):
    """A request that says nothing but its inputs, and what answers it."""

    options: Any
    decoding: DecodingStrategy | None
    engine_handle: EngineHandle
    torch_free_predictor: TorchFreePredictor | None  # the same for texts, without torch, where there is such a thing

    def predict(self, task: Task, inputs: Sequence[Any]) -> list[list[Prediction]]:
        """Inputs that have been read -> their answers. What is left of quick ones takes the other way, as it is: it has
        been read, and is not to be taken for anything else."""

        def slow(given: Sequence[Any]) -> list[list[Prediction]]:
            return task.predict(self.engine_handle.model, given, self.options, self.engine_handle.decoding)

        if self.torch_free_predictor is None or not all(isinstance(given, str) for given in inputs):
            return slow(inputs)
        return replace(self.torch_free_predictor, fallback=slow).predict(inputs)


class ServedRun:
    """A run under the name that requests call it by."""

    def __init__(self, name: str, run: Run) -> None:
        self.name, self.run = name, run
        self.gate = ModelLock()  # a look hangs hooks on the model, and nothing else may run meanwhile
        self.pool = ContinuousBatcher()

    @property
    def verbs(self) -> tuple[str, ...]:
        """What it can be asked to do."""
        return self.run.verbs

    @property
    def input_suffixes(self) -> tuple[str, ...]:
        """Suffixes of the files that are its inputs; none where they are texts."""
        return self.run.task.input_suffixes or ()

    @property
    def accepts_text(self) -> bool:
        """Whether its inputs are texts, or may be."""
        task = self.run.task
        return (
            not self.input_suffixes
            or self.generates_without_input
            or type(task).parse_untrusted_text is not Task.parse_untrusted_text
        )

    @cached_property
    def options_schema(self) -> OptionSchema:
        """What its task can be asked."""
        recipe = self.run.recipe.task
        found = option_schema.schema_of(
            "regard.tasks", recipe.name, self.run.options, input_suffixes=self.input_suffixes
        )
        return found._replace(maximums=getattr(recipe.module("tasks"), "SERVER_LIMITS", {}))

    @cached_property
    def default_options(self) -> Any:
        """The options of a request that says nothing of them: one value for all, found equal at once."""
        return option_schema.parse_options(self.options_schema, {}, "options")

    @property
    def generates_without_input(self) -> bool:
        """Whether it makes something without an input."""
        return "" in self.run.task.examples

    def parse_decoding(self, requested: Any) -> DecodingStrategy | None:
        """What a request says of the search, a name or a table -> the decoder: the run's own, or changed, or another of
        ours. No module is imported because a request names one."""
        own = self.run.recipe.decoding
        if requested is None:
            return own
        if own is None:
            raise ConfigError(f"{self.name} does not search for its answers; leave decoding out")
        table = {"name": requested} if isinstance(requested, str) else requested
        if not isinstance(table, Mapping):
            raise ConfigError('decoding is the name of a decoder, or a table of its settings: {"beam_width": 5}')
        name = table.get("name", own.name)
        listed = registered_names("regard.decoding.strategies")
        if name not in (own.name, *listed):
            raise ConfigError(f"decoding: no decoder {str(name)[:80]!r}; {did_you_mean(str(name)[:80], listed)}")
        settings = {key: value for key, value in table.items() if key != "name"}
        kind = self.decoder_schema(name)
        kept = configs.to_dict(own.config) if name == own.name else {}
        return DecodingStrategy(name, option_schema.parse_options(kind, kept | settings, "decoding"))

    def decoder_schema(self, name: str) -> OptionSchema:
        """The settings of a decoder."""
        return option_schema.schema_of(
            "regard.decoding.strategies", name, find("regard.decoding.strategies", name).Config
        )

    @cached_property
    def uses_own_decoder(self) -> bool:
        """Whether its answers are searched for, by our own decoders: their searches are then joined."""
        return type(self.run.engine_handle(self.run.recipe.decoding).decoding) is DecodingStrategy

    @cached_property
    def default_request(self) -> DefaultRequest | None:
        """Where engine auto has another engine than ours for the usual request, that engine. Only this request is
        compared: if any were, who sends ever new settings would have the server compare all day."""
        request, decoding = self.default_options, self.run.recipe.decoding
        pair = self.run.external_engine(request, decoding)
        return None if pair is None else DefaultRequest(request, decoding, pair, self.run.torch_free_predictor())

    def uses_external_engine(
        self, options: Any, decoding: DecodingStrategy | None, stream: PartialOutputStream | None
    ) -> bool:
        """Whether another engine answers a request, whole: nobody can read along."""
        return stream is None and self.default_request is not None and (options, decoding) == self.default_request[:2]

    def predict(
        self,
        inputs: Sequence[Any],
        options: Any,
        decoding: DecodingStrategy | None,
        callbacks: BatchCallbacks = NO_CALLBACKS,
    ) -> list[list[Prediction]]:
        """Inputs that have been read -> their answers; whoever listens hears when the search begins, and what is
        decoded so far."""
        task, (hearing, begun, places) = self.run.task, callbacks
        with self.gate.shared():
            if self.default_request is not None and self.uses_external_engine(options, decoding, hearing):
                begun()  # it has threads of its own
                return self.default_request.predict(task, inputs)
            model, decoding = self.run.engine_handle(decoding)
            if self.uses_own_decoder and decoding is not None:
                told = None if hearing is None else partial(self._tell, hearing, inputs[0], options)
                shared = partial(
                    BatchedStrategy, batcher=self.pool, on_tokens=told, on_search_start=begun, request_indices=places
                )
                decoding = shared(decoding.name, decoding.config)
            return task.predict(model, inputs, options, decoding)

    def _tell(self, hearing: PartialOutputStream, given: Any, options: Any, tokens: Sequence[int]) -> None:
        hearing.update(self.run.task.partial_text(given, options, tokens), len(tokens))


def open_runs(folders: Sequence[Path], *, engine: str, trust: bool) -> tuple[list[ServedRun], dict[Path, str]]:
    """Run folders -> those that can be served, and what is wrong with the others."""
    hosted: list[ServedRun] = []
    wrong: dict[Path, str] = {}
    for folder in folders:
        try:
            run = load(folder, engine=engine, trust=trust)
            one = ServedRun(_free(folder.resolve().name, [each.name for each in hosted]), run)
            _ = one.uses_own_decoder, one.default_request  # engines are built and compared now, if they can be
            hosted.append(one)
        except RegardError as problem:
            wrong[folder] = str(problem)
    return hosted, wrong


def _free(name: str, taken: Sequence[str]) -> str:
    """The name, or the first of name-2, name-3 … that is free."""
    tries = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
    return next(each for each in tries if each not in taken)
