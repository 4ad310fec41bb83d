"""Print predictions as text or JSON lines in input order, and report errors on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from regard.cli.inputs import InputLine
from regard.cli.predict_command import PredictOptions, Verb
from regard.core.errors import DataError, RegardError, printable
from regard.core.files import write_bytes
from regard.core.prediction import Prediction
from regard.core.strict_json import to_strict_json

T = TypeVar("T")
MAX_REPORTED_INPUTS = 20  # inputs that failed or were adjusted are named up to this many; all are counted


class Result(NamedTuple):
    """An input line with its output rows, or with its error."""

    line: InputLine
    rows: list[str]
    error: str = ""
    remarks: tuple[str, ...] = ()  # adjustments made to the input


class RowFormatter(NamedTuple):
    """Convert predictions to output rows."""

    verb: Verb
    predict_options: PredictOptions
    options: dict[str, Any]  # options of the request

    @property
    def prints_scores(self) -> bool:
        """True if scores are printed."""
        return self.predict_options.as_json or int(self.options.get("n", 1)) > 1

    def results(self, lines: Sequence[InputLine], predictions: Iterator[Any]) -> list[Result]:
        """Lines, and the predictions (or the error) of each readable line -> their results."""
        return [self._result(line, line.error or next(predictions)) for line in lines]

    def printer(self, name: str) -> PredictionPrinter:
        """Return a printer for the results of inputs with this name."""
        on_error = self.predict_options.on_error or ("blank" if name else "stop")
        return PredictionPrinter(name, on_error, self.verb, as_json=self.predict_options.as_json)

    def _result(self, line: InputLine, predictions: Sequence[Prediction] | str) -> Result:
        if isinstance(predictions, str):
            return Result(line, [], predictions)
        to_rows = json_rows if self.predict_options.as_json else text_rows
        rows = to_rows(line.text, predictions, verb=self.verb, options=self.options)
        return Result(line, rows, remarks=remarks_of(predictions))


def remarks_of(predictions: Sequence[Prediction]) -> tuple[str, ...]:
    """Return the distinct remarks on adjustments of one input."""
    return tuple(dict.fromkeys(remark for prediction in predictions for remark in prediction.remarks))


def predict_with_bisection(
    predict: Callable[[list[T]], list[list[Prediction]]], inputs: list[T]
) -> list[list[Prediction] | str]:
    """Inputs -> the predictions for each, or its error: a batch that fails is split in halves."""
    if not inputs:
        return []
    try:
        return [*predict(inputs)]
    except RegardError as error:
        if len(inputs) == 1:
            return [str(error)]
    half = len(inputs) // 2
    return predict_with_bisection(predict, inputs[:half]) + predict_with_bisection(predict, inputs[half:])


class PredictionPrinter:
    """Print predictions in order; failed inputs are named, counted and handled as `on_error` says."""

    def __init__(self, name: str, on_error: str, verb: Verb, *, as_json: bool) -> None:
        self.name, self.on_error, self.verb, self.as_json = name, on_error, verb, as_json
        self.lines = self.failed = self.adjusted = 0

    def print(self, results: Sequence[Result]) -> None:
        """Print the rows of results, and adjustments of inputs on standard error; JSON rows contain them."""
        for result in results:
            self.lines += 1
            if result.remarks and not self.as_json:
                self._remark(result)
            if result.error:
                self._fail(result)
            elif result.rows:
                print("\n".join(result.rows))
        sys.stdout.flush()

    def _prefix(self, result: Result) -> str:
        return f"{self.name}:{result.line.line_number}: " if self.name else ""

    def _remark(self, result: Result) -> None:
        self.adjusted += 1
        if self.adjusted <= MAX_REPORTED_INPUTS:
            print_remarks(result.remarks, prefix=self._prefix(result))

    def _fail(self, result: Result) -> None:
        prefix = self._prefix(result)
        if self.on_error == "stop":
            sys.stdout.flush()
            raise DataError(f"{prefix}{result.error}")
        self.failed += 1
        if self.failed <= MAX_REPORTED_INPUTS:
            print(f"regard: {prefix}{printable(' '.join(result.error.split()))}", file=sys.stderr)
        if self.on_error == "blank":
            empty = {self.verb.input_key: result.line.text, self.verb.predictions_key: [], "error": result.error}
            print(to_strict_json(empty) if self.as_json else "")

    def close(self) -> None:
        """Report how many inputs failed or were adjusted, if any."""
        if self.adjusted > MAX_REPORTED_INPUTS:
            first = f"the first {MAX_REPORTED_INPUTS} are named above"
            print(f"regard: {self.adjusted:,} of {self.lines:,} inputs were adjusted; {first}", file=sys.stderr)
        if self.failed:
            action = "were skipped" if self.on_error == "skip" else "have an empty line"
            first = f"; the first {MAX_REPORTED_INPUTS} are named above" if self.failed > MAX_REPORTED_INPUTS else ""
            print(
                f"regard: {self.failed:,} of {self.lines:,} inputs failed and {action}{first}",
                file=sys.stderr,
            )


def print_remarks(remarks: Sequence[str], *, prefix: str = "") -> None:
    """Print the adjustments of an input on standard error, one per line."""
    for remark in remarks:
        print(f"regard: {prefix}{printable(remark)}", file=sys.stderr)


def json_rows(input_text: str, predictions: Sequence[Prediction], *, verb: Verb, options: dict[str, Any]) -> list[str]:
    """Return one JSON object: the input (or the option of the same name) and its predictions."""
    table = {
        verb.input_key: input_text or options.get(verb.input_key, ""),
        verb.predictions_key: [prediction.to_json() for prediction in predictions],
    }
    return [to_strict_json(table)]


def text_rows(input_text: str, predictions: Sequence[Prediction], *, verb: Verb, options: dict[str, Any]) -> list[str]:
    """Return one line per prediction; several are numbered or have the score by which they are ranked."""
    if verb.numbered:
        return [f"{index}: {prediction.text}" for index, prediction in enumerate(predictions, start=1)]
    if len(predictions) == 1 and int(options.get("n", 1)) == 1:
        return [predictions[0].text]
    ranks = [item.score if item.rank is None else item.rank for item in predictions]
    return [
        item.text if rank is None else f"{rank:.4f}\t{item.text}" for item, rank in zip(predictions, ranks, strict=True)
    ]


def write_predictions(predictions: Sequence[Sequence[Prediction]], out: Sequence[Path]) -> None:
    """Write every prediction in every requested format; the files of several predictions are numbered."""
    flat = [prediction for row in predictions for prediction in row]
    contents: dict[Path, bytes] = {}
    for index, prediction in enumerate(flat, start=1):
        for path in out:
            target = path if len(flat) == 1 else path.with_stem(f"{path.stem}-{index}")
            contents[target] = prediction.render(path.suffix)  # all are rendered before any is written
    for row in predictions:
        print_remarks(remarks_of(row))
    for index, prediction in enumerate(flat, start=1):
        print(f"{index}: {prediction.text}")
    for target, content in contents.items():
        write_bytes(target, content)
        print(f"wrote {target}")
