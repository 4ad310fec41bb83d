"""Print predictions as text or JSON lines in input order, and report errors on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from regard.cli.inputs import InputLine
from regard.cli.output_files import check_targets
from regard.cli.predict_command import PredictOptions, Verb
from regard.cli.standard_output import ClosedPipe, OutputError
from regard.core.errors import ConfigError, DataError, RegardError, printable
from regard.core.files import write_bytes
from regard.core.prediction import Prediction
from regard.core.strict_json import to_strict_json

T = TypeVar("T")
ROW_SUFFIXES = (".txt", ".jsonl")  # files with one row per prediction or per input
MIN_READABLE_PROBABILITY = 0.001  # text output shows probabilities if the best has at least this
MAX_REPORTED_INPUTS = 20  # inputs that failed or were adjusted are named up to this many; all are counted


class FailedInputs(RegardError):
    """Some inputs could not be predicted; the predictions for all others were printed."""

    code = 3


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
        return self.predict_options.as_json or int(self.options.get("n") or 1) > 1

    def results(self, lines: Sequence[InputLine], predictions: Iterator[Any]) -> list[Result]:
        """Lines, and the predictions (or the error) of each readable line -> their results."""
        return [self._result(line, line.error or next(predictions)) for line in lines]

    def on_error(self, name: str) -> str:
        """Return the action for an input that fails: by default the lines of a file have an empty line."""
        return self.predict_options.on_error or ("blank" if name else "stop")

    def printer(self, name: str) -> PredictionPrinter:
        """Return a printer for the results of inputs with this name."""
        return PredictionPrinter(name, self.on_error(name), as_json=self.predict_options.as_json)

    def _result(self, line: InputLine, predictions: Sequence[Prediction] | str) -> Result:
        if isinstance(predictions, str):
            return Result(line, [], predictions)
        rows = self.rows(line, predictions, as_json=self.predict_options.as_json)
        return Result(line, rows, remarks=remarks_of(predictions))

    def rows(self, line: InputLine, predictions: Sequence[Prediction], *, as_json: bool) -> list[str]:
        """An input and its predictions -> rows of text, or one of JSON."""
        if as_json:
            return json_rows(
                line.text or str(self.options.get("user") or self.options.get("prompt") or ""), predictions
            )
        return text_rows(predictions, verb=self.verb, options=self.options)


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


class InputReport:
    """Reports on standard error which inputs were adjusted or failed; `on_error` is the action for the latter."""

    def __init__(self, name: str, on_error: str) -> None:
        self.name, self.on_error = name, on_error
        self.failed = self.adjusted = 0

    def prefix(self, line: InputLine) -> str:
        """Return the location of an input for messages."""
        return f"{self.name}:{line.line_number}: " if self.name else ""

    def add_remarks(self, line: InputLine, remarks: Sequence[str]) -> None:
        """Print the adjustments of an input, if there are any."""
        self.adjusted += bool(remarks)
        if self.adjusted <= MAX_REPORTED_INPUTS:
            print_remarks(remarks, prefix=self.prefix(line))

    def add_error(self, line: InputLine, error: str) -> None:
        """Name a failed input; with `on_error` stop its error is raised."""
        if self.on_error == "stop":
            sys.stdout.flush()
            raise DataError(f"{self.prefix(line)}{error}")
        self.failed += 1
        if self.failed <= MAX_REPORTED_INPUTS:
            print(f"regard: {self.prefix(line)}{printable(' '.join(error.split()))}", file=sys.stderr)

    def rows(self, line: InputLine, error: str, *, as_json: bool) -> list[str]:
        """Return the output rows of a failed input: an empty one with `on_error` blank, none otherwise."""
        if self.on_error != "blank":
            return []
        return [to_strict_json({"input": line.text, "predictions": [], "error": error}) if as_json else ""]

    def close(self, total: int) -> None:
        """Report how many inputs were adjusted; raise an error with exit code 3 if some failed."""
        first = f"; the first {MAX_REPORTED_INPUTS} are named above"
        if self.adjusted > MAX_REPORTED_INPUTS:
            print(f"regard: {self.adjusted:,} of {total:,} inputs were adjusted{first}", file=sys.stderr)
        if self.failed:
            action = "were skipped" if self.on_error == "skip" else "have an empty line"
            named = first if self.failed > MAX_REPORTED_INPUTS else ""
            raise FailedInputs(f"{self.failed:,} of {total:,} inputs failed and {action}{named}")


class PredictionPrinter:
    """Print predictions in order; failed inputs are named, counted and handled as `on_error` says."""

    def __init__(self, name: str, on_error: str, *, as_json: bool) -> None:
        self.as_json, self.report = as_json, InputReport(name, on_error)
        self.lines = 0

    def print(self, results: Sequence[Result]) -> None:
        """Print the rows of results, and adjustments of inputs on standard error; JSON rows contain them.

        Each result is flushed, so that the number of complete results is known if writing fails.
        """
        for result in results:
            try:
                self._print_one(result)
                sys.stdout.flush()
            except ClosedPipe:
                raise
            except OutputError as error:
                last = f"the last complete result is number {self.lines:,}" if self.lines else "no result is complete"
                raise OutputError(f"{error}; {last}") from None
            self.lines += 1

    def _print_one(self, result: Result) -> None:
        if not self.as_json:
            self.report.add_remarks(result.line, result.remarks)
        rows = result.rows
        if result.error:
            self.report.add_error(result.line, result.error)
            rows = self.report.rows(result.line, result.error, as_json=self.as_json)
        if rows:
            print("\n".join(rows))

    def close(self) -> None:
        """Report how many inputs were adjusted; raise an error with exit code 3 if some failed."""
        self.report.close(self.lines)


def print_remarks(remarks: Sequence[str], *, prefix: str = "") -> None:
    """Print the adjustments of an input on standard error, one per line."""
    for remark in remarks:
        print(f"regard: {prefix}{printable(remark)}", file=sys.stderr)


def json_rows(input_text: str, predictions: Sequence[Prediction]) -> list[str]:
    """Return one JSON object: the input and its predictions, with the same keys for every verb."""
    table = {"input": input_text, "predictions": [prediction.to_json() for prediction in predictions]}
    return [to_strict_json(table)]


def text_rows(predictions: Sequence[Prediction], *, verb: Verb, options: dict[str, Any]) -> list[str]:
    """Return one line per prediction. Several predictions are numbered, or have the number they are sorted by."""
    if verb.numbered:
        return [f"{index}: {prediction.text}" for index, prediction in enumerate(predictions, start=1)]
    if len(predictions) == 1 and int(options.get("n") or 1) == 1:
        return [predictions[0].text]
    return [
        f"{number}\t{item.text}" if number else item.text
        for item, number in zip(predictions, sort_numbers(predictions), strict=True)
    ]


def sort_numbers(predictions: Sequence[Prediction]) -> list[str]:
    """Return probabilities in percent if predictions are sorted by them and they are readable, else ranking scores.

    Hypotheses of a beam are sorted by a length-normalized score. The probability of a long text is close to 0.
    """
    ranking_scores = [item.score if item.ranking_score is None else item.ranking_score for item in predictions]
    probabilities = [item.probability for item in predictions]
    is_sorted_by_them = all(item.ranking_score in (None, item.score) for item in predictions)
    best = max((probability or 0.0 for probability in probabilities), default=0.0)
    if is_sorted_by_them and best >= MIN_READABLE_PROBABILITY:
        return [f"{probability or 0.0:.1%}".replace("%", " %") for probability in probabilities]
    return ["" if score is None else f"{score:.4f}" for score in ranking_scores]


def write_predictions(
    lines: Sequence[InputLine], results: Sequence[Sequence[Prediction] | str], name: str, formatter: RowFormatter
) -> None:
    """Write the predictions for the lines of an input in every requested format, and print them.

    A result is the predictions of a line, or its error.
    """
    report = InputReport(name, formatter.on_error(name))
    for line, result in zip(lines, results, strict=True):
        if isinstance(result, str):
            report.add_error(line, result)
        else:
            report.add_remarks(line, remarks_of(result))
    flat = [prediction for row in results if not isinstance(row, str) for prediction in row]
    contents: dict[Path, bytes] = {}
    for path in formatter.predict_options.out:  # all are rendered before any is written
        if row_suffix := _row_suffix(path, flat):
            contents[path] = _row_content(lines, results, report, formatter, as_json=row_suffix == ".jsonl")
        else:
            contents |= _file_contents(path, flat)
    check_targets(contents, force=formatter.predict_options.force)
    is_text_only = all(_row_suffix(path, flat) for path in formatter.predict_options.out)
    for index, prediction in enumerate(() if is_text_only else flat, start=1):
        print(f"{index}: {prediction.text}")
    for target, content in contents.items():
        write_bytes(target, content)
        print(f"wrote {target}")
    report.close(len(lines))


def _row_content(
    lines: Sequence[InputLine],
    results: Sequence[Sequence[Prediction] | str],
    report: InputReport,
    formatter: RowFormatter,
    *,
    as_json: bool,
) -> bytes:
    """Return a file with the rows of all results."""
    rows: list[str] = []
    for line, result in zip(lines, results, strict=True):
        if isinstance(result, str):
            rows += report.rows(line, result, as_json=as_json)
        else:
            rows += formatter.rows(line, result, as_json=as_json)
    return "".join(f"{row}\n" for row in rows).encode()


def _row_suffix(path: Path, predictions: Sequence[Prediction]) -> str:
    """Return .txt or .jsonl if the file holds the rows of all predictions, "" if the task writes its own files."""
    suffix = path.suffix.lower()
    is_own = any(suffix in prediction.files for prediction in predictions)
    return suffix if suffix in ROW_SUFFIXES and not is_own else ""


def _check_suffix(path: Path, predictions: Sequence[Prediction]) -> None:
    """Raise an error for a suffix that a prediction cannot be written with; it lists those of all predictions."""
    if all(path.suffix.lower() in prediction.files for prediction in predictions):
        return
    own = [suffix for suffix in predictions[0].files if suffix not in ROW_SUFFIXES]
    file_kind = path.suffix or "a file without a suffix"
    raise ConfigError(
        f"{path}: these predictions cannot be written as {file_kind}; available: {', '.join([*ROW_SUFFIXES, *own])}"
    )


def _file_contents(path: Path, predictions: Sequence[Prediction]) -> dict[Path, bytes]:
    """Return file -> content for one --out: a file per prediction, or one file if all predictions share it."""
    _check_suffix(path, predictions)
    renderers = {id(prediction.files.get(path.suffix.lower())): prediction for prediction in predictions}
    if len(renderers) == 1:  # for example the vectors of all words, which belong to the run
        return {path: predictions[0].render(path.suffix)}
    return {
        path.with_stem(f"{path.stem}-{index}"): prediction.render(path.suffix)
        for index, prediction in enumerate(predictions, start=1)
    }
