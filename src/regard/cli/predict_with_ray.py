"""Many inputs by a Ray cluster: cut into pieces, sent as JSON, printed in order, with a word on how far it is."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from regard.cli.inputs import InputLine
from regard.cli.predict_loop import Result
from regard.engines import ray as ray_engine

LINES_PER_CHUNK = 256  # of a piece, which is done again as a whole where a worker dies
PROGRESS_INTERVAL_S = 5.0  # seconds between two words on how far it is


@dataclass(frozen=True)
class JsonChunkPredictor:
    """Work on lines as work on texts, which go from machine to machine."""

    work: Callable[[list[InputLine]], list[Result]]

    def __call__(self, piece: str) -> str:
        """JSON of lines -> JSON of results."""
        return json.dumps(self.work([InputLine(*each) for each in json.loads(piece)]))


def predict_chunks(
    work: Callable[[list[InputLine]], list[Result]], lines: Iterable[InputLine | None], *, address: str, workers: int
) -> Iterator[list[Result]]:
    """What each piece gives, in order; how many inputs are answered is told on standard error."""
    with ray_engine.connect(address) as ray:
        count = workers or ray_engine.cluster_cpus(ray)
        told, done = time.monotonic(), 0
        for text in ray_engine.map_in_order(JsonChunkPredictor(work), _pieces(lines), ray=ray, workers=count):
            results = [
                Result(InputLine(*line), rows, wrong, tuple(remarks)) for line, rows, wrong, remarks in json.loads(text)
            ]
            done += len(results)
            if time.monotonic() - told > PROGRESS_INTERVAL_S:
                told = time.monotonic()
                print(f"regard: {done:,} inputs answered", file=sys.stderr, flush=True)
            yield results
        print(f"regard: {done:,} inputs answered by ray, {count} workers", file=sys.stderr, flush=True)


def _pieces(lines: Iterable[InputLine | None]) -> Iterator[str]:
    piece: list[InputLine] = []
    for line in lines:
        if line is not None:
            piece.append(line)
        if len(piece) == LINES_PER_CHUNK:
            yield json.dumps(piece)
            piece = []
    if piece:
        yield json.dumps(piece)
