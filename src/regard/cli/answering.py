"""Inputs through a run, answers printed in order: in pieces, by several processes where there are many."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from regard.api.run import Run, load
from regard.api.workers import available, in_order, threads
from regard.cli.asking import How, Verb
from regard.cli.incoming import Line, given, standard_input
from regard.cli.words import to_options
from regard.core.errors import ConfigError, DataError, RegardError, printable
from regard.core.files import write_bytes
from regard.core.registry import names
from regard.core.task import Answer
from regard.training.hardware import keep_freed_memory

T = TypeVar("T")
ON_ERROR = ("stop", "skip", "blank")
NAMED = 20  # inputs that cannot be answered, or had to be mended, are named, up to so many; all are counted
LINES = 512  # a process's share of what is read, answered and printed first
LEAST = 128  # lines that are worth a process of their own
FEW = 4  # inputs up to which the threads are chosen for the model
MOST = 2048  # its share later on: like lengths are found among many, and memory is bounded however long the input is


class Result(NamedTuple):
    """A line and the rows that answer it, or what is wrong with it."""

    line: Line
    rows: list[str]
    wrong: str = ""
    remarks: tuple[str, ...] = ()  # what had to be mended in the input


def answer(folder: Path, inputs: Sequence[str], settings: Sequence[str], *, verb: Verb, how: How) -> None:
    """Print the answers to the inputs, or to the lines of standard input; many of them by several processes."""
    if how.workers < 0:
        raise ConfigError(f"--workers {how.workers}: give a number of processes, or 0 for one on each core")
    if how.on_error not in (None, *ON_ERROR):
        raise ConfigError(f"--on-error {how.on_error}: it is one of {', '.join(ON_ERROR)}")
    keep_freed_memory()
    run = load(folder, engine=how.engine, trust=how.trust)
    if verb.name not in (None, *run.verbs):
        other = run.verb if run.verb in names("regard.cli.verbs") else "answer"
        task = run.recipe.task.name
        raise ConfigError(f"{folder} was trained for {task}, whose verb is {run.verb}; regard {other} {folder} …")
    options = to_options(settings, run.options)
    run.answer([], **options)  # what can be wrong with run, engine and options is, before anything is read
    words = inputs or ([""] if "" in run.task.examples else None)
    coming = standard_input() if words is None else given(words)
    if how.out:
        if how.ray:
            raise ConfigError("--ray prints answers; --out is for answers of this machine: leave one of them out")
        write(run.answer([_readable(line, coming.name) for line in coming.lines if line], **options), how.out)
        return
    work = Working(run, options, verb, how.as_json)
    told = Told(coming.name, how.on_error or ("blank" if coming.name else "stop"), verb, as_json=how.as_json)
    for results in _spread(work, coming.lines, how):
        told.print(results)
    told.close()


@dataclass(frozen=True)
class Working:
    """What is done with a piece of the input. It can be sent to another machine: its run goes as a folder's name."""

    run: Run
    options: dict[str, Any]
    verb: Verb
    as_json: bool

    def __call__(self, piece: list[Line]) -> list[Result]:
        """Lines -> the rows that answer each, or what is wrong with it."""
        texts = [line.text for line in piece if not line.wrong]
        tried = iter(attempts(lambda some: self.run.answer(some, **self.options), texts))
        rows = partial(json_rows if self.as_json else text_rows, verb=self.verb, options=self.options)
        return [_result(line, tried, rows) for line in piece]


def _spread(work: Working, lines: Iterable[Line | None], how: How) -> Iterator[list[Result]]:
    """The results of all lines in order: by this process, by several of this machine, or by a cluster."""
    if how.ray:
        from regard.cli import bulk

        return bulk.answered(work, lines, address=how.ray, workers=how.workers)
    processes = 1 if how.engine == "ctranslate2" else min(how.workers or available(), available())  # it has its own
    return answered(work, pieces(lines, processes), model=work.run.model, processes=processes)


def _readable(line: Line, name: str) -> str:
    if line.wrong:
        raise DataError(f"{name}:{line.number}: {line.wrong}")
    return line.text


def _result(line: Line, tried: Iterator[Any], rows: Callable[[str, Sequence[Answer]], list[str]]) -> Result:
    found = line.wrong or next(tried)
    if isinstance(found, str):
        return Result(line, [], found)
    return Result(line, rows(line.text, found), remarks=remarks_of(found))


def remarks_of(answers: Sequence[Answer]) -> tuple[str, ...]:
    """What the answers to one input say was mended in it, each thing once."""
    return tuple(dict.fromkeys(remark for answer in answers for remark in answer.remarks))


def attempts(ask: Callable[[list[str]], list[list[Answer]]], texts: list[str]) -> list[list[Answer] | str]:
    """Texts -> the answers to each, or what is wrong with it: a part in which something is wrong is halved."""
    if not texts:
        return []
    try:
        return [*ask(texts)]
    except RegardError as wrong:
        if len(texts) == 1:
            return [str(wrong)]
    half = len(texts) // 2
    return attempts(ask, texts[:half]) + attempts(ask, texts[half:])


class Told:
    """Prints answers in order; what could not be answered is named, counted, and handled as was asked for."""

    def __init__(self, name: str, on_error: str, verb: Verb, *, as_json: bool) -> None:
        self.name, self.on_error, self.verb, self.as_json = name, on_error, verb, as_json
        self.lines = self.failed = self.mended = 0

    def print(self, results: Sequence[Result]) -> None:
        """The rows of some results, and on standard error what had to be mended; JSON has that in its rows."""
        for result in results:
            self.lines += 1
            if result.remarks and not self.as_json:
                self._remark(result)
            if result.wrong:
                self._fail(result)
            elif result.rows:
                print("\n".join(result.rows))
        sys.stdout.flush()

    def _place(self, result: Result) -> str:
        return f"{self.name}:{result.line.number}: " if self.name else ""

    def _remark(self, result: Result) -> None:
        self.mended += 1
        if self.mended <= NAMED:
            say(result.remarks, place=self._place(result))

    def _fail(self, result: Result) -> None:
        place = self._place(result)
        if self.on_error == "stop":
            sys.stdout.flush()
            raise DataError(f"{place}{result.wrong}")
        self.failed += 1
        if self.failed <= NAMED:
            print(f"regard: {place}{printable(' '.join(result.wrong.split()))}", file=sys.stderr)
        if self.on_error == "blank":
            empty = {self.verb.input: result.line.text, self.verb.answers: [], "error": result.wrong}
            print(json.dumps(empty, ensure_ascii=False) if self.as_json else "")

    def close(self) -> None:
        """Say how many there were that could not be answered or had to be mended, if any."""
        if self.mended > NAMED:
            told = f"{self.mended:,} of {self.lines:,} inputs had to be mended; the first {NAMED} are named above"
            print(f"regard: {told}", file=sys.stderr)
        if self.failed:
            what = "are left out" if self.on_error == "skip" else "have an empty line"
            some = f"; the first {NAMED} are named above" if self.failed > NAMED else ""
            print(
                f"regard: {self.failed:,} of {self.lines:,} inputs could not be answered and {what}{some}",
                file=sys.stderr,
            )


def say(remarks: Sequence[str], *, place: str = "") -> None:
    """What had to be mended in an input, on standard error, a line each."""
    for remark in remarks:
        print(f"regard: {place}{printable(remark)}", file=sys.stderr)


def answered(
    work: Callable[[list[Line]], list[Result]],
    pieces: Iterator[list[Line] | None],
    *,
    model: torch.nn.Module,
    processes: int,
) -> Iterator[list[Result]]:
    """What each piece gives, in order; a piece behind which more must be waited for is answered first."""
    first = list(islice(pieces, 2))
    some = [piece for piece in first if piece is not None]
    if sum(map(len, some)) <= FEW:
        torch.set_num_threads(threads(model))
    if processes == 1 or len(some) < 2:  # too little to share, or lines that come one by one
        yield from (work(piece) for piece in chain(some, pieces) if piece is not None)
    else:
        yield from in_order(work, chain(first, pieces), processes=processes, begin=_begin)


def _begin() -> None:
    """Every process has one thread: they do not wait for each other."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)


def pieces(lines: Iterable[T | None], processes: int) -> Iterator[list[T] | None]:
    """Blocks of lines, each twice as long as the last, cut alike for all processes: they are done at the same time.

    None among the lines says that more must be waited for: the block ends, and None follows it.
    """
    iterator, size = iter(lines), LINES
    while True:
        block: list[T] = []
        waiting = False
        for line in iterator:
            if line is None:
                waiting = True
                break
            block.append(line)
            if len(block) == size * processes:
                break
        if not block and not waiting:
            return
        shares = min(processes, max(1, len(block) // LEAST))
        share = -(-len(block) // shares)
        yield from (block[low : low + share] for low in range(0, len(block), share or 1))
        if waiting:
            yield None
        size = min(2 * size, MOST)


def json_rows(given: str, answers: Sequence[Answer], *, verb: Verb, options: dict[str, Any]) -> list[str]:
    """One JSON object: the input and its answers."""
    table = {verb.input: given, verb.answers: [answer.to_json() for answer in answers]}
    return [json.dumps(table, ensure_ascii=False)]


def text_rows(given: str, answers: Sequence[Answer], *, verb: Verb, options: dict[str, Any]) -> list[str]:
    """A line an answer; where several are asked for, with its number or the score that they are ranked by."""
    if verb.numbered:
        return [f"{number}: {answer.text}" for number, answer in enumerate(answers, start=1)]
    if len(answers) == 1 and options.get("nbest", 1) == 1:
        return [answers[0].text]
    ranks = [answer.score if answer.rank is None else answer.rank for answer in answers]
    return [a.text if rank is None else f"{rank:.4f}\t{a.text}" for a, rank in zip(answers, ranks, strict=True)]


def write(answers: Sequence[Sequence[Answer]], out: Sequence[Path]) -> None:
    """Every answer as every kind of file that is asked for; where there are several, their files are numbered."""
    flat = [answer for each in answers for answer in each]
    contents: dict[Path, bytes] = {}
    for number, answer in enumerate(flat, start=1):
        for path in out:
            target = path if len(flat) == 1 else path.with_stem(f"{path.stem}-{number}")
            contents[target] = answer.render(path.suffix)  # all are made before any is written
    for each in answers:
        say(remarks_of(each))
    for number, answer in enumerate(flat, start=1):
        print(f"{number}: {answer.text}")
    for target, content in contents.items():
        write_bytes(target, content)
        print(f"wrote {target}")
