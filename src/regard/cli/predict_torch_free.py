"""Answers of a run whose export is there, printed without importing torch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.cli.inputs import InputLine, InputStream
from regard.cli.output import RowFormatter, predict_with_bisection
from regard.cli.predict_command import PredictOptions, Verb
from regard.cli.settings import to_options
from regard.core.errors import RegardError
from regard.core.prediction import Prediction
from regard.engines import torch_free
from regard.engines.torch_free import TorchFreePredictor

ENGINES = ("auto", "ctranslate2")
MAX_PENDING_CHUNKS = 3  # pieces that are handed over before the first of them must be printed
PendingChunks = deque[tuple[list[InputLine], Callable[[], list[Any]]]]


def find_torch_free(
    folder: Path, settings: Sequence[str], *, verb: Verb, predict_options: PredictOptions, few_inputs: bool
) -> TorchFreePredictor | None:
    """The quick answers to a request of this verb; None where the run must be loaded."""
    if predict_options.engine not in ENGINES:
        return None

    def slow(texts: list[str]) -> list[list[Prediction]]:
        from regard.api.run import load

        run = load(folder, engine="native", trust=predict_options.trust)
        return run.predict(texts, **to_options(settings, run.options))

    found = torch_free.from_command_line(
        folder, settings, precision=predict_options.precision, few_inputs=few_inputs, fallback=slow
    )
    return found if found is not None and verb.name in (None, *found.verbs) else None


def print_predictions(
    predictor: TorchFreePredictor,
    inputs: InputStream,
    pieces: Iterator[list[InputLine] | None],
    formatter: RowFormatter,
) -> None:
    """Answer pieces of lines and print them in order, while the next ones are already searched for."""
    told, waiting, scored = formatter.printer(inputs.name), PendingChunks(), formatter.prints_scores

    def print_first() -> None:
        piece, wait = waiting.popleft()
        told.print(formatter.results(piece, iter(wait())))

    for piece in pieces:
        if piece is not None:
            waiting.append((piece, _begin(predictor, [line.text for line in piece if not line.error], scored=scored)))
        while waiting and (piece is None or len(waiting) > MAX_PENDING_CHUNKS):
            print_first()
    while waiting:
        print_first()
    told.close()


def _begin(found: TorchFreePredictor, texts: list[str], *, scored: bool) -> Callable[[], list[Any]]:
    """Hand texts over; where one of them cannot be read the others are answered nevertheless."""
    try:
        return found.submit(texts, return_scores=scored)
    except RegardError:
        return lambda: predict_with_bisection(found.predict, texts)
