"""`regard translate`: sentences in, translations out, line by line and in order."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from regard.core.errors import ConfigError
from regard.door.run import Candidate, load

LINES = 512  # read, translated and printed at once: memory stays bounded however long the input is


def run(folder: Path, sentences: list[str], *, nbest: int, as_json: bool, settings: list[str]) -> None:
    """Translate the sentences, or the lines of standard input."""
    if nbest < 1:
        raise ConfigError(f"--nbest {nbest}: ask for at least one translation")
    found = load(folder, settings)
    lines: Iterable[str] = sentences or _lines(sys.stdin)
    for piece in _pieces(lines):
        for text, candidates in zip(piece, found.candidates(piece, nbest=nbest), strict=True):
            print("\n".join(_rows(text, candidates, nbest=nbest, as_json=as_json)))
        sys.stdout.flush()


def _lines(stream: Iterable[str]) -> Iterator[str]:
    return (line.rstrip("\r\n") for line in stream)


def _pieces(lines: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(lines)
    while piece := list(islice(iterator, LINES)):
        yield piece


def _rows(text: str, candidates: list[Candidate], *, nbest: int, as_json: bool) -> list[str]:
    if as_json:
        best = [{"text": found, "score": score} for found, score in candidates]
        return [json.dumps({"source": text, "translations": best}, ensure_ascii=False)]
    if nbest == 1:
        return [candidates[0][0]]
    return [f"{score:.4f}\t{found}" for found, score in candidates]
