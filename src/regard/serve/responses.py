"""Answers as the JSON of a response."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any

from regard.core.errors import ConfigError
from regard.core.task import Prediction

MAX_FILE_BYTES = 32_000_000  # bytes of the files of a response


def to_json(predictions: Sequence[Sequence[Prediction]], files: Sequence[str] = ()) -> list[list[dict[str, Any]]]:
    """The answers to each input, best first; with what is asked for as files, base64 by suffix."""
    room = MAX_FILE_BYTES
    rows: list[list[dict[str, Any]]] = []
    for each in predictions:
        rows.append([])
        for answer in each:
            plain = answer.to_json()
            if answer.data or not _is_finite(answer):
                plain = replace_non_finite(plain)
            if files:
                made = {suffix: answer.render(suffix) for suffix in files}
                room -= sum(map(len, made.values()))
                if room < 0:
                    raise ConfigError(
                        f"the files of these answers have more than {MAX_FILE_BYTES:,} bytes; ask for fewer"
                    )
                plain["files"] = {suffix: base64.b64encode(data).decode() for suffix, data in made.items()}
            rows[-1].append(plain)
    return rows


def _is_finite(answer: Prediction) -> bool:
    return math.isfinite(answer.score or 0.0) and math.isfinite(answer.rank or 0.0)


def replace_non_finite(value: Any) -> Any:
    """The same without what JSON has no numbers for: an infinite score is none."""
    if isinstance(value, dict):
        return {str(key): replace_non_finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [replace_non_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
