"""Predict for all inputs of a command, chunk by chunk and with several processes if there are many, in input order."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from regard.cli import predict_command, predict_torch_free
from regard.cli.inputs import (
    InputLine,
    InputStream,
    file_input,
    from_arguments,
    piped_input,
    require_texts,
    standard_input,
)
from regard.cli.output import Result, RowFormatter, predict_with_bisection, print_remarks, write_predictions
from regard.cli.output_files import check_targets
from regard.cli.predict_command import PredictOptions, Verb
from regard.cli.settings import to_options
from regard.core import checksums
from regard.core.cpu import available_cores, recommended_threads
from regard.core.errors import ConfigError

if TYPE_CHECKING:
    from torch import nn

    from regard.api.run import Run
    from regard.core.prediction import Prediction

T = TypeVar("T")
ON_ERROR = ("stop", "skip", "blank")
LINES_PER_PROCESS = 512  # size of the first chunk of a process
MIN_LINES_PER_PROCESS = 128  # fewer are not worth another process
SMALL_INPUT_COUNT = 4  # up to this many inputs the number of threads suits the model
EXTERNAL_ENGINE_FACTOR = 4  # larger chunks for an engine that batches itself: more lines of similar length
MAX_LINES_PER_PROCESS = 2048  # chunks grow up to this: similar lengths are batched, and memory stays bounded


def run_predict(
    folder: Path, inputs: Sequence[str], settings: Sequence[str], *, verb: Verb, predict_options: PredictOptions
) -> None:
    """Print the predictions for the inputs, or for the lines of standard input.

    If an export of the run is known to give equal results for the request, torch is not imported.
    """
    if predict_options.workers < 0:
        raise ConfigError(f"--workers {predict_options.workers}: give a number of processes, or 0 for one per core")
    if predict_options.on_error not in (None, *ON_ERROR):
        raise ConfigError(f"--on-error {predict_options.on_error}: must be one of {', '.join(ON_ERROR)}")
    checksums.require_run_folder(folder)  # before torch is imported, which takes seconds
    check_targets(predict_options.out, force=predict_options.force)
    if predict_options.file is not None and inputs:
        raise ConfigError(f"--file {predict_options.file}: inputs are also given as arguments; leave one of them out")
    predictor = None
    if not (predict_options.out or predict_options.ray):
        predictor = predict_torch_free.find_torch_free(
            folder,
            settings,
            verb=verb,
            predict_options=predict_options,
            few_inputs=0 < len(inputs) <= SMALL_INPUT_COUNT,
        )
    if predictor is not None:
        stream = _select_inputs(inputs, predict_options.file, opens_files=False, allow_empty=False)
        predict_torch_free.print_predictions(
            predictor,
            stream,
            split_chunks(stream.lines, 1, times=EXTERNAL_ENGINE_FACTOR),
            RowFormatter(verb, predict_options, settings_to_dict(settings)),
        )
        return
    _predict_with_run(folder, inputs, settings, verb=verb, predict_options=predict_options)


def settings_to_dict(settings: Sequence[str]) -> dict[str, str]:
    """`key=value` strings -> a dictionary; printing only needs to know how many predictions are requested."""
    return dict(setting.split("=", 1) for setting in settings)


def _predict_with_run(
    folder: Path, inputs: Sequence[str], settings: Sequence[str], *, verb: Verb, predict_options: PredictOptions
) -> None:
    """Load the run with torch and print its predictions."""
    from regard.api.run import load
    from regard.training.device import keep_freed_memory

    keep_freed_memory()
    run = load(folder, engine=predict_options.engine, precision=predict_options.precision, trust=predict_options.trust)
    if verb.name not in (None, *run.verbs):
        command = run.verb if run.verb in predict_command.VERBS else predict_command.ANY_TASK
        task_name = run.recipe.task.name
        setting = run.task.verb_settings.get(verb.name or "", "")
        hint = f"; for {verb.name}, train with {setting}" if setting else ""
        raise ConfigError(
            f"{folder} was trained for {task_name}, whose verb is {run.verb}; regard {command} {folder} …{hint}"
        )
    options = {**run.verb_options(verb.name or run.verb), **to_options(settings, run.options)}
    run.predict([], **options)  # validate run, engine and options before reading any input
    run.cache_command(settings, **options)
    gc.freeze()  # the objects of the run stay until the end, so the garbage collector need not visit them again
    print_remarks([run.engine_note] if run.engine_note else [])
    task = run.task
    stream = _select_inputs(inputs, predict_options.file, opens_files=task.opens_files, allow_empty="" in task.examples)
    formatter = RowFormatter(verb, predict_options, options)
    if predict_options.out:
        if predict_options.ray:
            raise ConfigError("--ray and --out cannot be combined: --ray prints predictions; leave one of them out")
        lines = [line for line in stream.lines if line]
        write_predictions(lines, ChunkPredictor(run, formatter).predict(lines), stream.name, formatter)
        return
    predictor = None if predict_options.ray else run.torch_free_predictor(**options)
    if predictor is not None:
        chunks = split_chunks(stream.lines, 1, times=EXTERNAL_ENGINE_FACTOR)
        predict_torch_free.print_predictions(predictor, stream, chunks, formatter)
        return
    printer = formatter.printer(stream.name)
    for results in _distribute(ChunkPredictor(run, formatter), stream.lines, predict_options):
        printer.print(results)
    printer.close()


def _select_inputs(inputs: Sequence[str], file: Path | None, *, opens_files: bool, allow_empty: bool) -> InputStream:
    """Return the arguments, the lines of a file or of standard input, or one empty input if the task accepts it."""
    if file is not None:
        return file_input(file)
    if inputs:
        if not opens_files:
            require_texts(inputs)
        return from_arguments(inputs)
    return (piped_input() or from_arguments([""])) if allow_empty else standard_input()


@dataclass(frozen=True)
class ChunkPredictor:
    """Predict for one chunk of lines. It can be sent to another machine: the run is sent as its folder name."""

    run: Run
    formatter: RowFormatter

    def __call__(self, chunk: list[InputLine]) -> list[Result]:
        """Lines -> the output rows of each, or its error."""
        return self.formatter.results(chunk, iter(self.predict([line for line in chunk if not line.error])))

    def predict(self, lines: Sequence[InputLine]) -> list[list[Prediction] | str]:
        """Lines -> the predictions of each, or its error."""
        readable = iter(predict_with_bisection(self._predict, [line for line in lines if not line.error]))
        return [line.error or next(readable) for line in lines]

    def _predict(self, lines: list[InputLine]) -> list[list[Prediction]]:
        """Predict some lines of a chunk; samples depend on the line number, not on the chunk."""
        options = dict(self.formatter.options)
        _, decoding = self.run.parse_request(options)
        if decoding is not None and decoding.has_setting("seed"):
            indices = tuple(line.line_number - 1 for line in lines)
            options["decoding"] = replace(decoding, request_indices=indices)
        return self.run.predict([line.text for line in lines], **options)


def _distribute(
    work: ChunkPredictor, lines: Iterable[InputLine | None], predict_options: PredictOptions
) -> Iterator[list[Result]]:
    """Yield the results of all lines in order, computed by this process, several processes, or a cluster."""
    if predict_options.ray:
        from regard.cli import predict_with_ray

        return predict_with_ray.predict_chunks(
            work, lines, address=predict_options.ray, workers=predict_options.workers
        )
    cores = available_cores()
    is_external = work.run.uses_external_engine  # CTranslate2 has its own threads
    processes = 1 if is_external else min(predict_options.workers or cores, cores)
    return predict_chunks(work, split_chunks(lines, processes), model=work.run.model, processes=processes)


def predict_chunks(
    work: Callable[[list[InputLine]], list[Result]],
    chunks: Iterator[list[InputLine] | None],
    *,
    model: nn.Module,
    processes: int,
) -> Iterator[list[Result]]:
    """Yield the results of each chunk, in order; a chunk followed by None is processed first."""
    first = list(islice(chunks, 2))
    available = [chunk for chunk in first if chunk is not None]
    if sum(map(len, available)) <= SMALL_INPUT_COUNT:
        import torch

        torch.set_num_threads(recommended_threads(model))
    if processes == 1 or len(available) < 2:  # too few lines, or lines that arrive one by one
        yield from (work(chunk) for chunk in chain(available, chunks) if chunk is not None)
    else:
        from regard.api.parallel import map_in_order

        yield from map_in_order(work, chain(first, chunks), processes=processes, initializer=_use_one_thread)


def _use_one_thread() -> None:
    """Use one thread per process, so that processes do not wait for each other."""
    import torch

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)


def split_chunks(lines: Iterable[T | None], processes: int, *, times: int = 1) -> Iterator[list[T] | None]:
    """Yield chunks of lines of equal size for all processes; the size doubles up to a limit.

    None among the lines means that no more is available yet: the chunk ends, and None follows it. `times` enlarges
    the chunks for an engine with threads of its own.
    """
    iterator, size = iter(lines), times * LINES_PER_PROCESS
    while True:
        block: list[T] = []
        is_waiting = False
        for line in iterator:
            if line is None:
                is_waiting = True
                break
            block.append(line)
            if len(block) == size * processes:
                break
        if not block and not is_waiting:
            return
        shares = min(processes, max(1, len(block) // MIN_LINES_PER_PROCESS))
        share = -(-len(block) // shares)
        yield from (block[low : low + share] for low in range(0, len(block), share or 1))
        if is_waiting:
            yield None
        size = min(2 * size, times * MAX_LINES_PER_PROCESS)
