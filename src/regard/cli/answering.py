"""Inputs through a run, answers printed in order: in pieces, by several processes where there are many."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch

from regard.api.run import load
from regard.api.workers import available, in_order, threads
from regard.cli.asking import How, Verb
from regard.cli.words import to_options
from regard.core.errors import ConfigError
from regard.core.files import write_bytes
from regard.core.registry import names
from regard.core.task import Answer
from regard.training.hardware import keep_freed_memory

LINES = 512  # a process's share of what is read, answered and printed first
LEAST = 128  # lines that are worth a process of their own
FEW = 4  # inputs up to which the threads are chosen for the model
MOST = 2048  # its share later on: like lengths are found among many, and memory is bounded however long the input is


def answer(folder: Path, inputs: Sequence[str], settings: Sequence[str], *, verb: Verb, how: How) -> None:
    """Print the answers to the inputs, or to the lines of standard input; many of them by several processes."""
    if how.workers < 0:
        raise ConfigError(f"--workers {how.workers}: give a number of processes, or 0 for one on each core")
    keep_freed_memory()
    run = load(folder, engine=how.engine, trust=how.trust)
    if verb.name not in (None, *run.verbs):
        other = run.verb if run.verb in names("regard.cli.verbs") else "answer"
        task = run.recipe.task.name
        raise ConfigError(f"{folder} was trained for {task}, whose verb is {run.verb}; regard {other} {folder} …")
    options = to_options(settings, run.options)
    run.answer([], **options)  # what can be wrong with run, engine and options is, before anything is read
    given = inputs or ([""] if "" in run.task.examples else _lines(sys.stdin))
    if how.out:
        write(run.answer(list(given), **options), how.out)
        return
    processes = 1 if how.engine == "ctranslate2" else min(how.workers or available(), available())  # it has its own

    def work(piece: list[str]) -> list[str]:
        answers = run.answer(piece, **options)
        rows = json_rows if how.as_json else text_rows
        return [row for pair in zip(piece, answers, strict=True) for row in rows(*pair, verb=verb, options=options)]

    for rows in answered(work, pieces(given, processes), model=run.model, processes=processes):
        print("\n".join(rows), flush=True)


def answered(work: Any, pieces: Iterator[list[str]], *, model: torch.nn.Module, processes: int) -> Iterator[list[str]]:
    """The rows to print for each piece, in order."""
    first = list(islice(pieces, 2))
    if sum(map(len, first)) <= FEW:
        torch.set_num_threads(threads(model))
    if processes == 1 or len(first) < 2:  # too little to share
        yield from map(work, chain(first, pieces))
    else:
        yield from in_order(work, chain(first, pieces), processes=processes, begin=_begin)


def _begin() -> None:
    """Every process has one thread: they do not wait for each other."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)


def _lines(stream: Iterable[str]) -> Iterator[str]:
    return (line.rstrip("\r\n") for line in stream)


def pieces(lines: Iterable[str], processes: int) -> Iterator[list[str]]:
    """Blocks of lines, each twice as long as the last, cut alike for all processes: they are done at the same time."""
    iterator, size = iter(lines), LINES
    while block := list(islice(iterator, size * processes)):
        shares = min(processes, max(1, len(block) // LEAST))
        share = -(-len(block) // shares)
        yield from (block[low : low + share] for low in range(0, len(block), share))
        size = min(2 * size, MOST)


def json_rows(given: str, answers: Sequence[Answer], *, verb: Verb, options: dict[str, Any]) -> list[str]:
    """One JSON object: the input and its answers."""
    table = {verb.input: given, verb.answers: [answer.to_json() for answer in answers]}
    return [json.dumps(table, ensure_ascii=False)]


def text_rows(given: str, answers: Sequence[Answer], *, verb: Verb, options: dict[str, Any]) -> list[str]:
    """A line an answer; where several are asked for, with its score or its number."""
    if verb.numbered:
        return [f"{number}: {answer.text}" for number, answer in enumerate(answers, start=1)]
    if len(answers) == 1 and options.get("nbest", 1) == 1:
        return [answers[0].text]
    return [answer.text if answer.score is None else f"{answer.score:.4f}\t{answer.text}" for answer in answers]


def write(answers: Sequence[Sequence[Answer]], out: Sequence[Path]) -> None:
    """Every answer as every kind of file that is asked for; where there are several, their files are numbered."""
    flat = [answer for each in answers for answer in each]
    contents: dict[Path, bytes] = {}
    for number, answer in enumerate(flat, start=1):
        for path in out:
            target = path if len(flat) == 1 else path.with_stem(f"{path.stem}-{number}")
            contents[target] = answer.render(path.suffix)  # all are made before any is written
    for number, answer in enumerate(flat, start=1):
        print(f"{number}: {answer.text}")
    for target, content in contents.items():
        write_bytes(target, content)
        print(f"wrote {target}")
