"""Answers as they are printed: rows of text or JSON in the order of the inputs, and words about what went wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.cli.inputs import InputLine
from regard.cli.predict_command import PredictOptions, Verb
from regard.core.errors import DataError, RegardError, printable
from regard.core.files import write_bytes
from regard.core.prediction import Prediction

MAX_REPORTED_INPUTS = (
    20  # inputs that cannot be answered, or had to be mended, are named, up to so many; all are counted
)


class Result(NamedTuple):
    """A line and the rows that answer it, or what is wrong with it."""

    line: InputLine
    rows: list[str]
    error: str = ""
    remarks: tuple[str, ...] = ()  # what had to be mended in the input


class RowFormatter(NamedTuple):
    """How answers become rows."""

    verb: Verb
    predict_options: PredictOptions
    options: dict[str, Any]  # what was asked

    @property
    def prints_scores(self) -> bool:
        """Whether scores are printed."""
        return self.predict_options.as_json or int(self.options.get("n", 1)) > 1

    def results(self, lines: Sequence[InputLine], predictions: Iterator[Any]) -> list[Result]:
        """Lines, and the answers to each that could be read (or what is wrong with it) -> their results."""
        return [self._result(line, line.error or next(predictions)) for line in lines]

    def printer(self, name: str) -> PredictionPrinter:
        """What prints the results of inputs with this name."""
        on_error = self.predict_options.on_error or ("blank" if name else "stop")
        return PredictionPrinter(name, on_error, self.verb, as_json=self.predict_options.as_json)

    def _result(self, line: InputLine, found: Sequence[Prediction] | str) -> Result:
        if isinstance(found, str):
            return Result(line, [], found)
        rows = json_rows if self.predict_options.as_json else text_rows
        made = rows(line.text, found, verb=self.verb, options=self.options)
        return Result(line, made, remarks=remarks_of(found))


def remarks_of(answers: Sequence[Prediction]) -> tuple[str, ...]:
    """What the answers to one input say was mended in it, each thing once."""
    return tuple(dict.fromkeys(remark for answer in answers for remark in answer.remarks))


def predict_with_bisection(
    predict: Callable[[list[str]], list[list[Prediction]]], texts: list[str]
) -> list[list[Prediction] | str]:
    """Texts -> the answers to each, or what is wrong with it: a part in which something is wrong is halved."""
    if not texts:
        return []
    try:
        return [*predict(texts)]
    except RegardError as wrong:
        if len(texts) == 1:
            return [str(wrong)]
    half = len(texts) // 2
    return predict_with_bisection(predict, texts[:half]) + predict_with_bisection(predict, texts[half:])


class PredictionPrinter:
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
            if result.error:
                self._fail(result)
            elif result.rows:
                print("\n".join(result.rows))
        sys.stdout.flush()

    def _place(self, result: Result) -> str:
        return f"{self.name}:{result.line.line_number}: " if self.name else ""

    def _remark(self, result: Result) -> None:
        self.mended += 1
        if self.mended <= MAX_REPORTED_INPUTS:
            print_remarks(result.remarks, prefix=self._place(result))

    def _fail(self, result: Result) -> None:
        place = self._place(result)
        if self.on_error == "stop":
            sys.stdout.flush()
            raise DataError(f"{place}{result.error}")
        self.failed += 1
        if self.failed <= MAX_REPORTED_INPUTS:
            print(f"regard: {place}{printable(' '.join(result.error.split()))}", file=sys.stderr)
        if self.on_error == "blank":
            empty = {self.verb.input_key: result.line.text, self.verb.predictions_key: [], "error": result.error}
            print(json.dumps(empty, ensure_ascii=False) if self.as_json else "")

    def close(self) -> None:
        """Say how many there were that could not be answered or had to be mended, if any."""
        if self.mended > MAX_REPORTED_INPUTS:
            told = f"{self.mended:,} of {self.lines:,} inputs had to be mended; the first {MAX_REPORTED_INPUTS} are named above"
            print(f"regard: {told}", file=sys.stderr)
        if self.failed:
            what = "are left out" if self.on_error == "skip" else "have an empty line"
            some = f"; the first {MAX_REPORTED_INPUTS} are named above" if self.failed > MAX_REPORTED_INPUTS else ""
            print(
                f"regard: {self.failed:,} of {self.lines:,} inputs could not be answered and {what}{some}",
                file=sys.stderr,
            )


def print_remarks(remarks: Sequence[str], *, prefix: str = "") -> None:
    """What had to be mended in an input, on standard error, a line each."""
    for remark in remarks:
        print(f"regard: {prefix}{printable(remark)}", file=sys.stderr)


def json_rows(input_text: str, answers: Sequence[Prediction], *, verb: Verb, options: dict[str, Any]) -> list[str]:
    """One JSON object: the input, which an option of its name may say as well, and its answers."""
    table = {
        verb.input_key: input_text or options.get(verb.input_key, ""),
        verb.predictions_key: [answer.to_json() for answer in answers],
    }
    return [json.dumps(table, ensure_ascii=False)]


def text_rows(input_text: str, answers: Sequence[Prediction], *, verb: Verb, options: dict[str, Any]) -> list[str]:
    """A line an answer; where several are asked for, with its number or the score that they are ranked by."""
    if verb.numbered:
        return [f"{number}: {answer.text}" for number, answer in enumerate(answers, start=1)]
    if len(answers) == 1 and int(options.get("n", 1)) == 1:
        return [answers[0].text]
    ranks = [answer.score if answer.rank is None else answer.rank for answer in answers]
    return [a.text if rank is None else f"{rank:.4f}\t{a.text}" for a, rank in zip(answers, ranks, strict=True)]


def write_predictions(answers: Sequence[Sequence[Prediction]], out: Sequence[Path]) -> None:
    """Every answer as every kind of file that is asked for; where there are several, their files are numbered."""
    flat = [answer for each in answers for answer in each]
    contents: dict[Path, bytes] = {}
    for number, answer in enumerate(flat, start=1):
        for path in out:
            target = path if len(flat) == 1 else path.with_stem(f"{path.stem}-{number}")
            contents[target] = answer.render(path.suffix)  # all are made before any is written
    for each in answers:
        print_remarks(remarks_of(each))
    for number, answer in enumerate(flat, start=1):
        print(f"{number}: {answer.text}")
    for target, content in contents.items():
        write_bytes(target, content)
        print(f"wrote {target}")
