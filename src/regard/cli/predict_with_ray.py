"""Predict for many inputs on a Ray cluster: JSON chunks are sent out, results come back in order."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from regard.cli.inputs import InputLine
from regard.cli.output import Result
from regard.engines import ray as ray_engine

LINES_PER_CHUNK = 256  # a chunk is computed again if its worker dies
PROGRESS_INTERVAL_S = 5.0  # between two progress lines


@dataclass(frozen=True)
class JsonChunkPredictor:
    """Wrap work on lines as work on JSON texts, which can be sent between machines."""

    work: Callable[[list[InputLine]], list[Result]]

    def __call__(self, chunk: str) -> str:
        """JSON of lines -> JSON of results."""
        return json.dumps(self.work([InputLine(*fields) for fields in json.loads(chunk)]))


def predict_chunks(
    work: Callable[[list[InputLine]], list[Result]], lines: Iterable[InputLine | None], *, address: str, workers: int
) -> Iterator[list[Result]]:
    """Yield the results of each chunk in order, and print the progress on standard error."""
    with ray_engine.connect(address) as ray:
        count = workers or ray_engine.cluster_cpus(ray)
        printed_at, done = time.monotonic(), 0
        for text in ray_engine.map_in_order(JsonChunkPredictor(work), _to_json_chunks(lines), ray=ray, workers=count):
            results = [
                Result(InputLine(*line), rows, error, tuple(remarks)) for line, rows, error, remarks in json.loads(text)
            ]
            done += len(results)
            if time.monotonic() - printed_at > PROGRESS_INTERVAL_S:
                printed_at = time.monotonic()
                print(f"regard: {done:,} inputs processed", file=sys.stderr, flush=True)
            yield results
        print(f"regard: {done:,} inputs processed by ray, {count} workers", file=sys.stderr, flush=True)


def _to_json_chunks(lines: Iterable[InputLine | None]) -> Iterator[str]:
    chunk: list[InputLine] = []
    for line in lines:
        if line is not None:
            chunk.append(line)
        if len(chunk) == LINES_PER_CHUNK:
            yield json.dumps(chunk)
            chunk = []
    if chunk:
        yield json.dumps(chunk)
