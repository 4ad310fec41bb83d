"""Run folders to the application that serves them: here, or in each of several processes."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.core.errors import ConfigError, RegardError

LOOKS, COUNTED = "looks", "counted"  # folders of what several processes share


@dataclass(frozen=True)
class Starting:
    """What is served and how; called, it loads the runs. It can be sent to another process."""

    folders: tuple[Path, ...]
    text: str | None = None  # what the first run's page shows first
    host: str = "127.0.0.1"
    key: str = ""
    engine: str = "native"
    trust: bool = False
    say: Callable[[str], None] = logging.getLogger("regard.serve").warning
    processes: int = 1  # that share the port and the machine
    shared: Path | None = None  # a folder for what they must all know

    def __call__(self) -> Any:
        """The application. A run that is damaged is named, and the others are served."""
        if self.shared is not None:
            from regard.serve.metrics import FOLDER

            os.environ[FOLDER] = str(self.shared / COUNTED)  # before the library that counts is imported
            (self.shared / COUNTED).mkdir(exist_ok=True)
        from regard.serve import service
        from regard.serve.hosted import open_runs

        hosted, wrong = open_runs(self.folders, engine=self.engine, trust=self.trust)
        self._name(wrong, served=len(hosted))
        if self.shared is None:  # else every process would say it
            for each in (one for one in hosted if one.run.why):
                self.say(f"{each.name}: {each.run.why}")
        use_threads([each.run.model for each in hosted], processes=self.processes)
        looks = None if self.shared is None else self.shared / LOOKS
        return service.create(hosted, self.text, host=self.host, key=self.key, looks=looks)

    def tried(self) -> tuple[Starting, list[str]]:
        """The same without the runs that cannot be loaded, which are named, and the names of those that can; found out
        in a process of its own, so that this one stays small."""
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            names, wrong = pool.submit(_try, self.folders, self.engine, trust=self.trust).result()
        self._name(wrong, served=len(names))
        return replace(self, folders=tuple(folder for folder in self.folders if folder not in wrong)), names

    def _name(self, wrong: dict[Path, str], *, served: int) -> None:
        if not served and len(wrong) == 1:
            raise RegardError(next(iter(wrong.values())))
        for folder, line in wrong.items():
            self.say(f"{folder} is not served: {line}")
        if not served:
            raise ConfigError("there is no run to serve; name the folder of one")


def _try(folders: Sequence[Path], engine: str, *, trust: bool) -> tuple[list[str], dict[Path, str]]:
    """The names of the runs that can be loaded, and what is wrong with the others."""
    from regard.serve.hosted import open_runs

    hosted, wrong = open_runs(folders, engine=engine, trust=trust)
    return [each.name for each in hosted], wrong


def use_threads(models: Sequence[Any], *, processes: int) -> None:
    """As many threads for a product as pay for the widest of the models, shared with the other processes. More than one
    for narrow models only keeps the second core from whoever reads requests."""
    import torch

    from regard.api.workers import threads

    torch.set_num_threads(max(1, max(map(threads, models), default=1) // processes))
