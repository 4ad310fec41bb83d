"""torch.compile as a trial: where it fails, the plain path goes on and one line says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from regard.core.protocols import Loss

Work = Callable[[Any, Any], Loss]


class Compiled:
    """A loss function, compiled until compiling fails."""

    def __init__(self, work: Work, say: Callable[[str], None]) -> None:
        self._plain, self._say = work, say
        self._fast: Work | None = torch.compile(work, dynamic=True)

    def __call__(self, model: Any, batch: Any) -> Loss:
        """The loss. The plain path also runs after an error of the task's own, which it then raises itself."""
        if self._fast is not None:
            try:
                return self._fast(model, batch)
            except Exception as reason:  # whatever a compiler can raise
                self._fast = None
                self._say(f"compile: not used, the plain path goes on: {_first_line(reason)}")
        return self._plain(model, batch)


def _first_line(reason: Exception) -> str:
    lines = str(reason).strip().splitlines() or [""]
    return f"{type(reason).__name__}: {lines[0][:200]}"
