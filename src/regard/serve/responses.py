"""Predictions as the JSON of a response."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any

from regard.core.errors import ConfigError
from regard.core.strict_json import replace_non_finite
from regard.core.task import Prediction

MAX_FILE_BYTES = 32_000_000  # bytes of all files of a response


def to_json(predictions: Sequence[Sequence[Prediction]], files: Sequence[str] = ()) -> list[list[dict[str, Any]]]:
    """Convert the predictions of each input, best first, with the requested files as base64 by suffix."""
    remaining_bytes = MAX_FILE_BYTES
    rows: list[list[dict[str, Any]]] = []
    for candidates in predictions:
        rows.append([])
        for prediction in candidates:
            fields = prediction.to_json()
            if prediction.data or not _is_finite(prediction):
                fields = replace_non_finite(fields)
            if files:
                contents = {suffix: prediction.render(suffix) for suffix in files}
                remaining_bytes -= sum(map(len, contents.values()))
                if remaining_bytes < 0:
                    raise ConfigError(
                        f"the files of the predictions have more than {MAX_FILE_BYTES:,} bytes; request fewer"
                    )
                fields["files"] = {suffix: base64.b64encode(content).decode() for suffix, content in contents.items()}
            rows[-1].append(fields)
    return rows


def _is_finite(prediction: Prediction) -> bool:
    return math.isfinite(prediction.score or 0.0) and math.isfinite(prediction.ranking_score or 0.0)
