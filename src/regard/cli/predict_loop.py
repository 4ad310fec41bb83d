"""Inputs through a run, answers printed in order: in pieces, by several processes where there are many."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from regard.api.parallel import in_order
from regard.cli import predict_command, predict_torch_free
from regard.cli.inputs import InputStream, Line, given, piped_input, standard_input
from regard.cli.output import (
    NAMED,
    PredictionPrinter,
    Result,
    RowFormatter,
    json_rows,
    predict_with_bisection,
    print_remarks,
    remarks_of,
    text_rows,
    write,
)
from regard.cli.predict_command import PredictOptions, Verb
from regard.cli.settings import to_options
from regard.core import checksums
from regard.core.cpu import available, threads
from regard.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from torch import nn

    from regard.api.run import Run

__all__ = [
    "NAMED",
    "PredictionPrinter",
    "Result",
    "answer",
    "answered",
    "json_rows",
    "pieces",
    "predict_with_bisection",
    "remarks_of",
    "text_rows",
]

T = TypeVar("T")
ON_ERROR = ("stop", "skip", "blank")
LINES = 512  # a process's share of what is read, answered and printed first
LEAST = 128  # lines that are worth a process of their own
FEW = 4  # inputs up to which the threads are chosen for the model
SHARES = 4  # of such shares for an engine that cuts batches itself: the more lines, the more are of like length
MOST = 2048  # its share later on: like lengths are found among many, and memory is bounded however long the input is


def answer(folder: Path, inputs: Sequence[str], settings: Sequence[str], *, verb: Verb, how: PredictOptions) -> None:
    """Print the answers to the inputs, or to the lines of standard input; many of them by several processes.

    Where an export of the run is known to answer what is asked, torch is not imported.
    """
    if how.workers < 0:
        raise ConfigError(f"--workers {how.workers}: give a number of processes, or 0 for one on each core")
    if how.on_error not in (None, *ON_ERROR):
        raise ConfigError(f"--on-error {how.on_error}: it is one of {', '.join(ON_ERROR)}")
    checksums.require(folder)  # before torch is imported, which takes seconds
    quick = None
    if not (how.out or how.ray):
        quick = predict_torch_free.find_torch_free(folder, settings, verb=verb, how=how, few=0 < len(inputs) <= FEW)
    if quick is not None:
        coming = given(inputs) if inputs else standard_input()
        predict_torch_free.print_answers(
            quick, coming, pieces(coming.lines, 1, times=SHARES), RowFormatter(verb, how, to_words(settings))
        )
        return
    _by_run(folder, inputs, settings, verb=verb, how=how)


def to_words(settings: Sequence[str]) -> dict[str, str]:
    """key=value words as a table; of what was asked, printing wants to know only whether several answers are wanted."""
    return dict(setting.split("=", 1) for setting in settings)


def _by_run(folder: Path, inputs: Sequence[str], settings: Sequence[str], *, verb: Verb, how: PredictOptions) -> None:
    """The same by the run itself, with torch."""
    from regard.api.run import load
    from regard.training.device import keep_freed_memory

    keep_freed_memory()
    run = load(folder, engine=how.engine, precision=how.precision, trust=how.trust)
    if verb.name not in (None, *run.verbs):
        other = run.verb if run.verb in predict_command.VERBS else predict_command.ANY_TASK
        task = run.recipe.task.name
        raise ConfigError(f"{folder} was trained for {task}, whose verb is {run.verb}; regard {other} {folder} …")
    options = to_options(settings, run.options)
    run.answer([], **options)  # what can be wrong with run, engine and options is, before anything is read
    run.remember(settings, **options)
    print_remarks([run.engine_note] if run.engine_note else [])
    coming = _select_inputs(inputs, from_nothing="" in run.task.examples)
    if how.out:
        if how.ray:
            raise ConfigError("--ray prints answers; --out is for answers of this machine: leave one of them out")
        write(run.answer([_readable(line, coming.name) for line in coming.lines if line], **options), how.out)
        return
    rows = RowFormatter(verb, how, options)
    quick = None if how.ray else run.quick(**options)
    if quick is not None:
        predict_torch_free.print_answers(quick, coming, pieces(coming.lines, 1, times=SHARES), rows)
        return
    told = rows.told(coming.name)
    for results in _spread(ChunkPredictor(run, rows), coming.lines, how):
        told.print(results)
    told.close()


def _select_inputs(inputs: Sequence[str], *, from_nothing: bool) -> InputStream:
    """What is to be answered: the words of the command, the lines of standard input, or nothing where something can be
    made of it and nobody gave anything."""
    if inputs:
        return given(inputs)
    return (piped_input() or given([""])) if from_nothing else standard_input()


@dataclass(frozen=True)
class ChunkPredictor:
    """What is done with a piece of the input. It can be sent to another machine: its run goes as a folder's name."""

    run: Run
    rows: RowFormatter

    def __call__(self, piece: list[Line]) -> list[Result]:
        """Lines -> the rows that answer each, or what is wrong with it."""
        texts = [line.text for line in piece if not line.wrong]
        return self.rows.results(
            piece, iter(predict_with_bisection(lambda some: self.run.answer(some, **self.rows.options), texts))
        )


def _spread(work: ChunkPredictor, lines: Iterable[Line | None], how: PredictOptions) -> Iterator[list[Result]]:
    """The results of all lines in order: by this process, by several of this machine, or by a cluster."""
    if how.ray:
        from regard.cli import predict_with_ray

        return predict_with_ray.answered(work, lines, address=how.ray, workers=how.workers)
    processes = (
        1 if work.run.uses_external_engine else min(how.workers or available(), available())
    )  # CTranslate2 has its own
    return answered(work, pieces(lines, processes), model=work.run.model, processes=processes)


def _readable(line: Line, name: str) -> str:
    if line.wrong:
        raise DataError(f"{name}:{line.number}: {line.wrong}")
    return line.text


def answered(
    work: Callable[[list[Line]], list[Result]],
    pieces: Iterator[list[Line] | None],
    *,
    model: nn.Module,
    processes: int,
) -> Iterator[list[Result]]:
    """What each piece gives, in order; a piece behind which more must be waited for is answered first."""
    first = list(islice(pieces, 2))
    some = [piece for piece in first if piece is not None]
    if sum(map(len, some)) <= FEW:
        import torch

        torch.set_num_threads(threads(model))
    if processes == 1 or len(some) < 2:  # too little to share, or lines that come one by one
        yield from (work(piece) for piece in chain(some, pieces) if piece is not None)
    else:
        yield from in_order(work, chain(first, pieces), processes=processes, begin=_begin)


def _begin() -> None:
    """Every process has one thread: they do not wait for each other."""
    import torch

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)


def pieces(lines: Iterable[T | None], processes: int, *, times: int = 1) -> Iterator[list[T] | None]:
    """Blocks of lines, each twice as long as the last, cut alike for all processes: they are done at the same time.

    None among the lines says that more must be waited for: the block ends, and None follows it. A process that has
    threads of its own gets so many `times` the share of others.
    """
    iterator, size = iter(lines), times * LINES
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
        size = min(2 * size, times * MOST)
