"""`regard translate`: sentences in, translations out, line by line and in order."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from regard.api.engines import Candidate
from regard.api.run import Run, load
from regard.api.workers import available, in_order, threads
from regard.core.errors import ConfigError
from regard.training.allocator import prepare_process

LINES = 512  # a process's share of what is read, translated and printed first
LEAST = 128  # lines that are worth a process of their own
FEW = 4  # sentences up to which the threads are chosen for the model
MOST = 2048  # its share later on: like lengths are found among many, and memory is bounded however long the input is


class How(NamedTuple):
    """What the options say."""

    nbest: int = 1
    as_json: bool = False
    engine: str = "native"
    shortlist: int = 0  # 0: all tokens
    workers: int = 0  # 0: one on each core


def run(folder: Path, sentences: list[str], *, how: How, settings: list[str]) -> None:
    """Translate the sentences, or the lines of standard input; many lines by several processes."""
    if how.nbest < 1:
        raise ConfigError(f"--nbest {how.nbest}: ask for at least one translation")
    if how.workers < 0:
        raise ConfigError(f"--workers {how.workers}: give a number of processes, or 0 for one on each core")
    prepare_process()
    found = load(folder, settings, engine=how.engine, shortlist=how.shortlist)
    found.candidates([], nbest=how.nbest)  # what can be wrong with run and engine is, before anything is read
    processes = _processes(how.engine, how.workers)
    pieces = _pieces(sentences or _lines(sys.stdin), processes)
    for piece, translated in _translated(found, pieces, nbest=how.nbest, processes=processes):
        for text, candidates in zip(piece, translated, strict=True):
            print("\n".join(_rows(text, candidates, nbest=how.nbest, as_json=how.as_json)))
        sys.stdout.flush()


def _processes(engine: str, workers: int) -> int:
    """CTranslate2 has workers of its own."""
    return 1 if engine == "ctranslate2" else min(workers or available(), available())


def _translated(
    found: Run, pieces: Iterator[list[str]], *, nbest: int, processes: int
) -> Iterator[tuple[list[str], list[list[Candidate]]]]:
    def work(piece: list[str]) -> tuple[list[str], list[list[Candidate]]]:
        return piece, found.candidates(piece, nbest=nbest)

    first = list(islice(pieces, 2))
    if sum(map(len, first)) <= FEW:
        _use(threads(found.model))
    if processes == 1 or len(first) < 2:  # too little to share
        yield from map(work, chain(first, pieces))
    else:
        yield from in_order(work, chain(first, pieces), processes=processes, begin=_begin)


def _begin() -> None:
    """Every process has one thread: they do not wait for each other."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _use(1)


def _use(count: int) -> None:
    import torch

    torch.set_num_threads(count)


def _lines(stream: Iterable[str]) -> Iterator[str]:
    return (line.rstrip("\r\n") for line in stream)


def _pieces(lines: Iterable[str], processes: int | None = None) -> Iterator[list[str]]:
    """Blocks of lines, each twice as long as the last, cut alike for all processes: they are done at the same time."""
    iterator, size, processes = iter(lines), LINES, processes or available()
    while block := list(islice(iterator, size * processes)):
        shares = min(processes, max(1, len(block) // LEAST))
        share = -(-len(block) // shares)
        yield from (block[low : low + share] for low in range(0, len(block), share))
        size = min(2 * size, MOST)


def _rows(text: str, candidates: list[Candidate], *, nbest: int, as_json: bool) -> list[str]:
    if as_json:
        best = [{"text": found, "score": score} for found, score in candidates]
        return [json.dumps({"source": text, "translations": best}, ensure_ascii=False)]
    if nbest == 1:
        return [candidates[0][0]]
    return [f"{score:.4f}\t{found}" for found, score in candidates]
