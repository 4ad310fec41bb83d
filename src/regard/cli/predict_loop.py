"""Inputs through a run, answers printed in order: in pieces, by several processes where there are many."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from regard.api.parallel import map_in_order
from regard.cli import predict_command, predict_torch_free
from regard.cli.inputs import InputLine, InputStream, from_arguments, piped_input, standard_input
from regard.cli.output import (
    MAX_REPORTED_INPUTS,
    PredictionPrinter,
    Result,
    RowFormatter,
    json_rows,
    predict_with_bisection,
    print_remarks,
    remarks_of,
    text_rows,
    write_predictions,
)
from regard.cli.predict_command import PredictOptions, Verb
from regard.cli.settings import to_options
from regard.core import checksums
from regard.core.cpu import available_cores, recommended_threads
from regard.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from torch import nn

    from regard.api.run import Run

__all__ = [
    "MAX_REPORTED_INPUTS",
    "PredictionPrinter",
    "Result",
    "json_rows",
    "predict_chunks",
    "predict_with_bisection",
    "remarks_of",
    "run_predict",
    "split_chunks",
    "text_rows",
]

T = TypeVar("T")
ON_ERROR = ("stop", "skip", "blank")
LINES_PER_PROCESS = 512  # a process's share of what is read, answered and printed first
MIN_LINES_PER_PROCESS = 128  # lines that are worth a process of their own
SMALL_INPUT_COUNT = 4  # inputs up to which the threads are chosen for the model
EXTERNAL_ENGINE_FACTOR = (
    4  # of such shares for an engine that cuts batches itself: the more lines, the more are of like length
)
MAX_LINES_PER_PROCESS = (
    2048  # its share later on: like lengths are found among many, and memory is bounded however long the input is
)


def run_predict(
    folder: Path, inputs: Sequence[str], settings: Sequence[str], *, verb: Verb, predict_options: PredictOptions
) -> None:
    """Print the answers to the inputs, or to the lines of standard input; many of them by several processes.

    Where an export of the run is known to answer what is asked, torch is not imported.
    """
    if predict_options.workers < 0:
        raise ConfigError(f"--workers {predict_options.workers}: give a number of processes, or 0 for one on each core")
    if predict_options.on_error not in (None, *ON_ERROR):
        raise ConfigError(f"--on-error {predict_options.on_error}: it is one of {', '.join(ON_ERROR)}")
    checksums.require_run_folder(folder)  # before torch is imported, which takes seconds
    quick = None
    if not (predict_options.out or predict_options.ray):
        quick = predict_torch_free.find_torch_free(
            folder,
            settings,
            verb=verb,
            predict_options=predict_options,
            few_inputs=0 < len(inputs) <= SMALL_INPUT_COUNT,
        )
    if quick is not None:
        coming = from_arguments(inputs) if inputs else standard_input()
        predict_torch_free.print_predictions(
            quick,
            coming,
            split_chunks(coming.lines, 1, times=EXTERNAL_ENGINE_FACTOR),
            RowFormatter(verb, predict_options, settings_to_dict(settings)),
        )
        return
    _by_run(folder, inputs, settings, verb=verb, how=predict_options)


def settings_to_dict(settings: Sequence[str]) -> dict[str, str]:
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
    run.predict([], **options)  # what can be wrong with run, engine and options is, before anything is read
    run.cache_command(settings, **options)
    print_remarks([run.engine_note] if run.engine_note else [])
    coming = _select_inputs(inputs, from_nothing="" in run.task.examples)
    if how.out:
        if how.ray:
            raise ConfigError("--ray prints answers; --out is for answers of this machine: leave one of them out")
        write_predictions(
            run.predict([_readable(line, coming.name) for line in coming.lines if line], **options), how.out
        )
        return
    rows = RowFormatter(verb, how, options)
    quick = None if how.ray else run.torch_free_predictor(**options)
    if quick is not None:
        predict_torch_free.print_predictions(
            quick, coming, split_chunks(coming.lines, 1, times=EXTERNAL_ENGINE_FACTOR), rows
        )
        return
    told = rows.printer(coming.name)
    for results in _spread(ChunkPredictor(run, rows), coming.lines, how):
        told.print(results)
    told.close()


def _select_inputs(inputs: Sequence[str], *, from_nothing: bool) -> InputStream:
    """What is to be answered: the words of the command, the lines of standard input, or nothing where something can be
    made of it and nobody gave anything."""
    if inputs:
        return from_arguments(inputs)
    return (piped_input() or from_arguments([""])) if from_nothing else standard_input()


@dataclass(frozen=True)
class ChunkPredictor:
    """What is done with a piece of the input. It can be sent to another machine: its run goes as a folder's name."""

    run: Run
    formatter: RowFormatter

    def __call__(self, piece: list[InputLine]) -> list[Result]:
        """Lines -> the rows that answer each, or what is wrong with it."""
        texts = [line.text for line in piece if not line.error]
        return self.formatter.results(
            piece, iter(predict_with_bisection(lambda some: self.run.predict(some, **self.formatter.options), texts))
        )


def _spread(work: ChunkPredictor, lines: Iterable[InputLine | None], how: PredictOptions) -> Iterator[list[Result]]:
    """The results of all lines in order: by this process, by several of this machine, or by a cluster."""
    if how.ray:
        from regard.cli import predict_with_ray

        return predict_with_ray.predict_chunks(work, lines, address=how.ray, workers=how.workers)
    processes = (
        1 if work.run.uses_external_engine else min(how.workers or available_cores(), available_cores())
    )  # CTranslate2 has its own
    return predict_chunks(work, split_chunks(lines, processes), model=work.run.model, processes=processes)


def _readable(line: InputLine, name: str) -> str:
    if line.error:
        raise DataError(f"{name}:{line.line_number}: {line.error}")
    return line.text


def predict_chunks(
    work: Callable[[list[InputLine]], list[Result]],
    pieces: Iterator[list[InputLine] | None],
    *,
    model: nn.Module,
    processes: int,
) -> Iterator[list[Result]]:
    """What each piece gives, in order; a piece behind which more must be waited for is answered first."""
    first = list(islice(pieces, 2))
    some = [piece for piece in first if piece is not None]
    if sum(map(len, some)) <= SMALL_INPUT_COUNT:
        import torch

        torch.set_num_threads(recommended_threads(model))
    if processes == 1 or len(some) < 2:  # too little to share, or lines that come one by one
        yield from (work(piece) for piece in chain(some, pieces) if piece is not None)
    else:
        yield from map_in_order(work, chain(first, pieces), processes=processes, initializer=_begin)


def _begin() -> None:
    """Every process has one thread: they do not wait for each other."""
    import torch

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)


def split_chunks(lines: Iterable[T | None], processes: int, *, times: int = 1) -> Iterator[list[T] | None]:
    """Blocks of lines, each twice as long as the last, cut alike for all processes: they are done at the same time.

    None among the lines says that more must be waited for: the block ends, and None follows it. A process that has
    threads of its own gets so many `times` the share of others.
    """
    iterator, size = iter(lines), times * LINES_PER_PROCESS
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
        shares = min(processes, max(1, len(block) // MIN_LINES_PER_PROCESS))
        share = -(-len(block) // shares)
        yield from (block[low : low + share] for low in range(0, len(block), share or 1))
        if waiting:
            yield None
        size = min(2 * size, times * MAX_LINES_PER_PROCESS)
