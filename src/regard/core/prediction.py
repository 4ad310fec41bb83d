"""One answer of a model. Nothing here imports torch: what answers without it says its answers so too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.core import files
from regard.core.errors import ConfigError


@dataclass(frozen=True)
class Prediction:
    """One answer of a model."""

    text: str  # one line that people read
    score: float | None = None  # log probability, where there is one
    rank: float | None = None  # what answers are ranked by, best first
    value: Any = None  # the answer as an object of the task's own: notes, boxes, a label
    # suffix (".mid", ".png", ".txt" for a drawing in a terminal) -> a function that makes the file's bytes
    files: Mapping[str, Callable[[], bytes]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()  # what had to be mended in the input, one line each
    # what of the value is worth reading by a program, as plain values under names of their own: {"entities": […]}
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        plain = {"text": self.text, "score": self.score, "rank": self.rank, **self.data}
        return plain | ({"remarks": list(self.remarks)} if self.remarks else {})

    def render(self, suffix: str) -> bytes:
        """The bytes of a file of this kind, or an error that lists the kinds there are."""
        if suffix.lower() not in self.files:
            kinds = ", ".join(self.files) or "none"
            raise ConfigError(f"this answer cannot be written as {suffix or 'a file without a suffix'}; kinds: {kinds}")
        return self.files[suffix.lower()]()

    def save(self, path: Path | str) -> Path:
        """Write it as a file of the kind that the name ends with."""
        target = Path(path)
        files.write_bytes(target, self.render(target.suffix))
        return target
