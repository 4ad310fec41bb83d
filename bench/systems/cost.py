"""Growth of the cost with sentence length, batch size and corpus size. TINY, greedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from systems import corpus, ct2, paths, workload

Points = list[tuple[int, float]]  # size, seconds
LENGTHS = (8, 16, 32, 64, 128, 256)  # tokens of the source and of the output
ROWS = 16  # sentences of a batch when the length varies
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CORPORA = (500, 1000, 2500, 5000, 10_000)
SHORTEST = 0.3  # minimum seconds of repetitions per point
Decode = Callable[[workload.Rows, int], Any]  # rows, length of the outputs


def points(kind: str, system: str, sentences: workload.Sentences, folder: Path) -> dict[str, Any]:
    """Return the curve of one system: length and batch on one thread, corpus with its own job on all cores."""
    if kind == "corpus":
        return {"points": by_corpus(system, sentences, folder)}
    decode = _regard() if system.startswith("regard") else _ctranslate2(system, folder)
    return {"points": (by_length if kind == "length" else by_batch)(decode)}


def by_length(decode: Decode) -> Points:
    """Return seconds per batch, by the length of sources and outputs."""
    return [(n, _seconds(decode, _rows(ROWS, n), n)) for n in LENGTHS]


def by_batch(decode: Decode) -> Points:
    """Return seconds per batch, by its number of sentences, all of one length."""
    return [(n, _seconds(decode, _rows(n, workload.LENGTH), workload.LENGTH)) for n in BATCHES]


def by_corpus(system: str, sentences: workload.Sentences, folder: Path) -> Points:
    """Return seconds per job, by its number of lines."""
    lines = corpus.lines_of(sentences, CORPORA[-1])
    if system.startswith("regard"):
        job = corpus.regard_job(folder, width=1)
    else:
        job, _ = corpus.ctranslate2_job(folder, system, width=1, sample=lines)
    return [(n, n / corpus.measure(job, lines[:n])["rate"]) for n in CORPORA]


def _seconds(decode: Decode, rows: workload.Rows, length: int) -> float:
    return workload.seconds_of(lambda: decode(rows, length), least=3, budget=SHORTEST)


def _rows(count: int, length: int) -> workload.Rows:
    random = np.random.default_rng(1)
    return [[*random.integers(4, workload.VOCABULARY, length - 1).tolist(), workload.END] for _ in range(count)]


def _regard() -> Decode:
    from systems import regard_system

    regard_system.begin()
    net = regard_system.model("tiny").for_decoding()
    return lambda rows, length: regard_system.decoder(net, length=length)(rows)


def _ctranslate2(system: str, folder: Path) -> Decode:
    engine = ct2.translator(paths.exported(folder, "tiny"), ct2.Setting.read(system))
    return lambda rows, length: ct2.decode(engine, ct2.named(rows), batch=len(rows), length=length)
