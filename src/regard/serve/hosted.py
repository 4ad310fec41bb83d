"""A run that is served: its name, what can be asked of it, and one thing at a time done with its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.api.run import Run, load
from regard.core import config as configs
from regard.core.errors import ConfigError, RegardError, nearest
from regard.core.registry import find, names
from regard.core.task import Answer, Task
from regard.decoding import Decoding
from regard.serve import schema
from regard.serve.gate import Gate
from regard.serve.line import Listener
from regard.serve.pool import Pool, Pooled
from regard.serve.schema import Kind

NOBODY = Listener()


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
        found = schema.kind("regard.tasks", recipe.name, self.run.options, opens=self.opens)
        return found._replace(most=getattr(recipe.module("tasks"), "SERVED", {}))

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
        listed = names("regard.decoding")
        if name not in (own.name, *listed):
            raise ConfigError(f"decoding: no decoder {str(name)[:80]!r}; {nearest(str(name)[:80], listed)}")
        settings = {key: value for key, value in table.items() if key != "name"}
        kind = self.decoder(name)
        kept = configs.to_dict(own.config) if name == own.name else {}
        return Decoding(name, schema.made(kind, kept | settings, "decoding"))

    def decoder(self, name: str) -> Kind:
        """The settings of a decoder."""
        return schema.kind("regard.decoding", name, find("regard.decoding", name).Config)

    @cached_property
    def decodes(self) -> bool:
        """Whether its answers are searched for, by our own decoders: their searches are then joined."""
        return type(self.run.engine(self.run.recipe.decoding).decoding) is Decoding

    def answer(
        self, inputs: Sequence[Any], options: Any, decoding: Decoding | None, listener: Listener = NOBODY
    ) -> list[list[Answer]]:
        """Inputs that have been read -> their answers; whoever listens hears when the search begins, and what is
        decoded so far."""
        task, (hearing, begun) = self.run.task, listener
        with self.gate.shared():
            model, decoding = self.run.engine(decoding)
            if self.decodes and decoding is not None:
                told = None if hearing is None else lambda tokens: hearing.tell(task.spell(tokens), len(tokens))
                decoding = Pooled(decoding.name, decoding.config, pool=self.pool, told=told, begun=begun)
            return task.answer(model, inputs, options, decoding)


def open_runs(folders: Sequence[Path], *, engine: str, trust: bool) -> tuple[list[Hosted], dict[Path, str]]:
    """Run folders -> those that can be served, and what is wrong with the others."""
    hosted: list[Hosted] = []
    wrong: dict[Path, str] = {}
    for folder in folders:
        try:
            run = load(folder, engine=engine, trust=trust)
            run.answer([])  # the engine is built, if it can be
            hosted.append(Hosted(_free(folder.resolve().name, [each.name for each in hosted]), run))
        except RegardError as problem:
            wrong[folder] = str(problem)
    return hosted, wrong


def _free(name: str, taken: Sequence[str]) -> str:
    """The name, or the first of name-2, name-3 … that is free."""
    tries = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
    return next(each for each in tries if each not in taken)
