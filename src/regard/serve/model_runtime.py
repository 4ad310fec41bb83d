"""A run that is served: its name, what can be asked of it, and one thing at a time done with its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from regard.api.run import Run, load
from regard.core import config as configs
from regard.core.errors import ConfigError, RegardError, nearest
from regard.core.registry import find, names
from regard.core.task import Answer, Task
from regard.decoding.strategy import Decoding
from regard.engines.engine import Pair
from regard.engines.torch_free import Quick
from regard.serve import option_schema
from regard.serve.continuous_batching import Pool, Pooled
from regard.serve.model_lock import Gate
from regard.serve.option_schema import Kind
from regard.serve.scheduler import Listener
from regard.serve.streams import Hearing

NOBODY = Listener()


class Usual(NamedTuple):
    """A request that says nothing but its inputs, and what answers it."""

    options: Any
    decoding: Decoding | None
    pair: Pair
    quick: Quick | None  # the same for texts, without torch, where there is such a thing

    def answer(self, task: Task, inputs: Sequence[Any]) -> list[list[Answer]]:
        """Inputs that have been read -> their answers. What is left of quick ones takes the other way, as it is: it has
        been read, and is not to be taken for anything else."""

        def slow(given: Sequence[Any]) -> list[list[Answer]]:
            return task.answer(self.pair.model, given, self.options, self.pair.decoding)

        if self.quick is None or not all(isinstance(given, str) for given in inputs):
            return slow(inputs)
        return replace(self.quick, slow=slow).answer(inputs)


class Hosted:
    """A run under the name that requests call it by."""

    def __init__(self, name: str, run: Run) -> None:
        self.name, self.run = name, run
        self.gate = Gate()  # a look hangs hooks on the model, and nothing else may run meanwhile
        self.pool = Pool()

    @property
    def verbs(self) -> tuple[str, ...]:
        """What it can be asked to do."""
        return self.run.verbs

    @property
    def opens(self) -> tuple[str, ...]:
        """Suffixes of the files that are its inputs; none where they are texts."""
        return self.run.task.opens or ()

    @property
    def texts(self) -> bool:
        """Whether its inputs are texts, or may be."""
        task = self.run.task
        return not self.opens or self.from_nothing or type(task).read_text is not Task.read_text

    @cached_property
    def options(self) -> Kind:
        """What its task can be asked."""
        recipe = self.run.recipe.task
        found = option_schema.kind("regard.tasks", recipe.name, self.run.options, opens=self.opens)
        return found._replace(most=getattr(recipe.module("tasks"), "SERVED", {}))

    @cached_property
    def unasked(self) -> Any:
        """The options of a request that says nothing of them: one value for all, found equal at once."""
        return option_schema.made(self.options, {}, "options")

    @property
    def from_nothing(self) -> bool:
        """Whether it makes something without an input."""
        return "" in self.run.task.examples

    def decoding(self, wanted: Any) -> Decoding | None:
        """What a request says of the search, a name or a table -> the decoder: the run's own, or changed, or another of
        ours. No module is imported because a request names one."""
        own = self.run.recipe.decoding
        if wanted is None:
            return own
        if own is None:
            raise ConfigError(f"{self.name} does not search for its answers; leave decoding out")
        table = {"name": wanted} if isinstance(wanted, str) else wanted
        if not isinstance(table, Mapping):
            raise ConfigError('decoding is the name of a decoder, or a table of its settings: {"width": 5}')
        name = table.get("name", own.name)
        listed = names("regard.decoding.strategies")
        if name not in (own.name, *listed):
            raise ConfigError(f"decoding: no decoder {str(name)[:80]!r}; {nearest(str(name)[:80], listed)}")
        settings = {key: value for key, value in table.items() if key != "name"}
        kind = self.decoder(name)
        kept = configs.to_dict(own.config) if name == own.name else {}
        return Decoding(name, option_schema.made(kind, kept | settings, "decoding"))

    def decoder(self, name: str) -> Kind:
        """The settings of a decoder."""
        return option_schema.kind("regard.decoding.strategies", name, find("regard.decoding.strategies", name).Config)

    @cached_property
    def decodes(self) -> bool:
        """Whether its answers are searched for, by our own decoders: their searches are then joined."""
        return type(self.run.engine(self.run.recipe.decoding).decoding) is Decoding

    @cached_property
    def usual(self) -> Usual | None:
        """Where engine auto has another engine than ours for the usual request, that engine. Only this request is
        compared: if any were, who sends ever new settings would have the server compare all day."""
        request, decoding = self.unasked, self.run.recipe.decoding
        pair = self.run.other(request, decoding)
        return None if pair is None else Usual(request, decoding, pair, self.run.quick())

    def by_other(self, options: Any, decoding: Decoding | None, hearing: Hearing | None) -> bool:
        """Whether another engine answers a request, whole: nobody can read along."""
        return hearing is None and self.usual is not None and (options, decoding) == self.usual[:2]

    def answer(
        self, inputs: Sequence[Any], options: Any, decoding: Decoding | None, listener: Listener = NOBODY
    ) -> list[list[Answer]]:
        """Inputs that have been read -> their answers; whoever listens hears when the search begins, and what is
        decoded so far."""
        task, (hearing, begun, places) = self.run.task, listener
        with self.gate.shared():
            if self.usual is not None and self.by_other(options, decoding, hearing):
                begun()  # it has threads of its own
                return self.usual.answer(task, inputs)
            model, decoding = self.run.engine(decoding)
            if self.decodes and decoding is not None:
                told = None if hearing is None else partial(self._tell, hearing, inputs[0], options)
                shared = partial(Pooled, pool=self.pool, told=told, begun=begun, places=places)
                decoding = shared(decoding.name, decoding.config)
            return task.answer(model, inputs, options, decoding)

    def _tell(self, hearing: Hearing, given: Any, options: Any, tokens: Sequence[int]) -> None:
        hearing.tell(self.run.task.so_far(given, options, tokens), len(tokens))


def open_runs(folders: Sequence[Path], *, engine: str, trust: bool) -> tuple[list[Hosted], dict[Path, str]]:
    """Run folders -> those that can be served, and what is wrong with the others."""
    hosted: list[Hosted] = []
    wrong: dict[Path, str] = {}
    for folder in folders:
        try:
            run = load(folder, engine=engine, trust=trust)
            one = Hosted(_free(folder.resolve().name, [each.name for each in hosted]), run)
            _ = one.decodes, one.usual  # engines are built and compared now, if they can be
            hosted.append(one)
        except RegardError as problem:
            wrong[folder] = str(problem)
    return hosted, wrong


def _free(name: str, taken: Sequence[str]) -> str:
    """The name, or the first of name-2, name-3 … that is free."""
    tries = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
    return next(each for each in tries if each not in taken)
