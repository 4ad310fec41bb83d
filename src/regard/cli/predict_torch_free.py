"""Print predictions of a run with an existing export, without importing torch."""

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
MAX_PENDING_CHUNKS = 3  # chunks submitted before the first of them must be printed
PendingChunks = deque[tuple[list[InputLine], Callable[[], list[Any]]]]


def find_torch_free(
    folder: Path, settings: Sequence[str], *, verb: Verb, predict_options: PredictOptions, few_inputs: bool
) -> TorchFreePredictor | None:
    """Return a torch-free predictor for the request; None if the run must be loaded."""
    if predict_options.engine not in ENGINES:
        return None

    def predict_natively(texts: list[str]) -> list[list[Prediction]]:
        from regard.api.run import load

        run = load(folder, engine="native", trust=predict_options.trust)
        return run.predict(texts, **to_options(settings, run.options))

    predictor = torch_free.from_command_line(
        folder,
        settings,
        precision=predict_options.precision,
        few_inputs=few_inputs,
        fallback=predict_natively,
        trust=predict_options.trust,
    )
    return predictor if predictor is not None and verb.name in (None, *predictor.verbs) else None


def print_predictions(
    predictor: TorchFreePredictor,
    inputs: InputStream,
    chunks: Iterator[list[InputLine] | None],
    formatter: RowFormatter,
) -> None:
    """Predict chunk by chunk and print in order; the next chunks are computed meanwhile."""
    printer, pending, return_scores = formatter.printer(inputs.name), PendingChunks(), formatter.prints_scores

    def print_first() -> None:
        chunk, wait = pending.popleft()
        printer.print(formatter.results(chunk, iter(wait())))

    for chunk in chunks:
        if chunk is not None:
            texts = [line.text for line in chunk if not line.error]
            pending.append((chunk, _submit(predictor, texts, return_scores=return_scores)))
        while pending and (chunk is None or len(pending) > MAX_PENDING_CHUNKS):
            print_first()
    while pending:
        print_first()
    printer.close()


def _submit(predictor: TorchFreePredictor, texts: list[str], *, return_scores: bool) -> Callable[[], list[Any]]:
    """Submit texts -> a function that waits for their predictions. An unreadable text does not affect the others."""
    try:
        return predictor.submit(texts, return_scores=return_scores)
    except RegardError:
        return lambda: predict_with_bisection(predictor.predict, texts)
