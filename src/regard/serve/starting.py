"""Run folders to the application that serves them: here, or in each of several processes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import RegardError


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

    def __call__(self) -> Any:
        """The application. A run that is damaged is named, and the others are served."""
        from regard.serve import service
        from regard.serve.hosted import open_runs

        hosted, wrong = open_runs(self.folders, engine=self.engine, trust=self.trust)
        if not hosted and len(wrong) == 1:
            raise RegardError(next(iter(wrong.values())))
        for folder, line in wrong.items():
            self.say(f"{folder} is not served: {line}")
        return service.create(hosted, self.text, host=self.host, key=self.key)
