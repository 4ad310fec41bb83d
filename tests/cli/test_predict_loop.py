"""Chunks of inputs: in order, of equal size for all processes, read as they are needed; predictions as rows."""

import json
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.cli import output, predict_loop
from regard.cli.inputs import InputLine
from regard.cli.output import Result
from regard.cli.predict_command import PredictOptions, Verb
from regard.core.errors import ConfigError, DataError, FileError
from regard.core.task import Prediction
from regard.decoding import strategy as decoders


def sizes(count, processes):
    lines = [str(index) for index in range(count)]
    chunks = list(predict_loop.split_chunks(lines, processes))
    assert [line for chunk in chunks for line in chunk] == lines
    return [len(chunk) for chunk in chunks]


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 255, 256, 511, 513, 1024, 5000, 60_001])
def test_no_line_is_lost_and_chunks_have_equal_sizes(count, processes):
    chunks = sizes(count, processes)
    assert all(0 < size <= predict_loop.MAX_LINES_PER_PROCESS for size in chunks)
    is_one_block = count <= predict_loop.LINES_PER_PROCESS * processes
    last = chunks if is_one_block else [size for size in chunks if size < predict_loop.LINES_PER_PROCESS]
    assert not last or max(last) - min(last) < processes


def test_chunks_grow():
    assert sizes(16_384, 1) == [512, 1024, *[2048] * 7, 512]
    assert sizes(10_000, 2) == [512, 512, 1024, 1024, 2048, 2048, 1416, 1416]


def test_an_engine_with_threads_of_its_own_gets_larger_chunks():
    chunks = predict_loop.split_chunks([str(index) for index in range(20_000)], 1, times=4)
    assert [len(chunk) for chunk in chunks] == [2048, 4096, 8192, 5664]


def test_few_lines_are_not_split():
    assert sizes(255, 8) == [255]
    assert sizes(256, 8) == [128, 128]
    assert sizes(1000, 2) == [500, 500]


def test_lines_are_read_as_they_are_needed():
    read = []
    chunks = predict_loop.split_chunks((read.append(index) or str(index) for index in range(10**9)), 2)
    next(chunks), next(chunks)
    assert len(read) == 2 * predict_loop.LINES_PER_PROCESS


@pytest.mark.parametrize(
    ("count", "chosen"), [(1, [1]), (predict_loop.SMALL_INPUT_COUNT, [1]), (predict_loop.SMALL_INPUT_COUNT + 1, [])]
)
def test_threads_are_chosen_for_a_few_inputs_only(monkeypatch, count, chosen):
    used = []
    monkeypatch.setattr(torch, "set_num_threads", used.append)
    lines = [str(index) for index in range(count)]
    results = predict_loop.predict_chunks(
        lambda chunk: [2 * line for line in chunk], iter([lines]), model=nn.Linear(2, 2), processes=1
    )
    assert [row for rows in results for row in rows] == [2 * line for line in lines]
    assert used == chosen


BEST = [Prediction("a b", score=-1.5, ranking_score=-0.5), Prediction("b a", score=-2.0, ranking_score=-1.0)]


LABELS = [Prediction(text, math.log(share), math.log(share)) for text, share in (("pos", 0.76), ("neg", 0.24))]
UNLIKELY = [Prediction("a long text", -40.0, -40.0), Prediction("a longer text", -50.0, -50.0)]


@pytest.mark.parametrize(
    ("predictions", "verb", "options", "rows"),
    [
        (BEST[:1], Verb(), {}, ["a b"]),
        (BEST, Verb(), {}, ["-0.5000\ta b", "-1.0000\tb a"]),
        (BEST[:1], Verb(), {"n": 2}, ["-0.5000\ta b"]),  # fewer than requested
        (LABELS, Verb(), {"n": 2}, ["76.0 %\tpos", "24.0 %\tneg"]),  # sorted by probability
        (UNLIKELY, Verb(), {"n": 2}, ["-40.0000\ta long text", "-50.0000\ta longer text"]),  # 4e-18 is not readable
        ([Prediction("x"), Prediction("y")], Verb(), {}, ["x", "y"]),
        (BEST, Verb(numbered=True), {}, ["1: a b", "2: b a"]),
        ([], Verb(), {}, []),
    ],
)
def test_rows_of_text(predictions, verb, options, rows):
    assert output.text_rows(predictions, verb=verb, options=options) == rows


def test_rows_of_json():
    (row,) = output.json_rows("입력", BEST[:1])
    assert json.loads(row) == {
        "input": "입력",
        "predictions": [
            {"text": "a b", "probability": math.exp(-1.5), "score": -1.5, "ranking_score": -0.5},
        ],
    }
    assert "입력" in row


def prediction_with_files(text):
    return Prediction(text, files={".txt": text.encode, ".bin": lambda: b"\0"})


def write(predictions, *out, force=False, name="", on_error=""):
    options = PredictOptions(out=out, force=force, on_error=on_error)
    lines = [InputLine(index, f"input {index}") for index in range(1, len(predictions) + 1)]
    output.write_predictions(lines, predictions, name, output.RowFormatter(Verb(), options, {}))


def test_predictions_are_written_as_files_and_several_are_numbered(tmp_path, capsys):
    write([[prediction_with_files("one")]], tmp_path / "x.txt", tmp_path / "x.BIN")
    assert (tmp_path / "x.txt").read_text() == "one" and (tmp_path / "x.BIN").read_bytes() == b"\0"
    write([[prediction_with_files("a"), prediction_with_files("b")], [prediction_with_files("c")]], tmp_path / "y.txt")
    assert [(tmp_path / f"y-{index}.txt").read_text() for index in (1, 2, 3)] == ["a", "b", "c"]
    assert f"3: c\nwrote {tmp_path / 'y-1.txt'}" in capsys.readouterr().out


def test_nothing_is_written_if_one_format_is_not_available(tmp_path):
    with pytest.raises(
        ConfigError, match=r"x\.ogg: these predictions cannot be written as \.ogg; available: \.txt, \.jsonl, \.bin$"
    ):
        write([[prediction_with_files("one")]], tmp_path / "x.txt", tmp_path / "x.ogg")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_all_predictions_share_is_written_once(tmp_path, capsys):
    files = {".vec": lambda: b"the vectors of all words"}
    write([[Prediction("king", files=files), Prediction("queen", files=files)]] * 2, tmp_path / "words.vec")
    assert [path.name for path in tmp_path.iterdir()] == ["words.vec"]


def test_texts_are_written_as_rows_of_one_file(tmp_path, capsys):
    write([BEST[:1], [Prediction("c", -1.0)]], tmp_path / "x.txt", tmp_path / "x.jsonl")
    assert (tmp_path / "x.txt").read_text() == "a b\nc\n"
    rows = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert [(row["input"], row["predictions"][0]["text"]) for row in rows] == [("input 1", "a b"), ("input 2", "c")]
    assert capsys.readouterr().out == f"wrote {tmp_path / 'x.txt'}\nwrote {tmp_path / 'x.jsonl'}\n"


@pytest.mark.parametrize(
    ("on_error", "texts", "action"),
    [("skip", ["a b", "c"], "were skipped"), ("blank", ["a b", "", "c"], "have an empty line")],
)
def test_failed_inputs_do_not_lose_the_others_in_a_file(tmp_path, capsys, on_error, texts, action):
    results = [BEST[:1], "the text is empty", [Prediction("c", -1.0)]]
    files = tmp_path / "x.txt", tmp_path / "x.jsonl"
    with pytest.raises(output.FailedInputs, match=f"^1 of 3 inputs failed and {action}$"):
        write(results, *files, name="in.txt", on_error=on_error)
    assert files[0].read_text() == "".join(f"{text}\n" for text in texts)
    rows = [json.loads(line) for line in files[1].read_text().splitlines()]
    assert [row["predictions"][0]["text"] if row["predictions"] else "" for row in rows] == texts
    assert on_error == "skip" or rows[1] == {"input": "input 2", "predictions": [], "error": "the text is empty"}
    assert capsys.readouterr().err == "regard: in.txt:2: the text is empty\n"


def test_with_stop_nothing_is_written(tmp_path):
    with pytest.raises(DataError, match=r"^in\.txt:1: the text is empty$"):
        write(["the text is empty", BEST[:1]], tmp_path / "x.txt", name="in.txt", on_error="stop")
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_replaced_only_by_force(tmp_path, capsys):
    (tmp_path / "y-2.bin").write_bytes(b"mine")
    two = [[prediction_with_files("a")], [prediction_with_files("b")]]
    for prediction in two[1]:
        prediction.files[".bin"] = lambda: b"\1"
    with pytest.raises(
        FileError, match=r"y-2\.bin: already exists; choose another name, or replace the file with --force"
    ):
        write(two, tmp_path / "y.bin")
    assert [path.name for path in tmp_path.iterdir()] == ["y-2.bin"]
    write(two, tmp_path / "y.bin", force=True)
    assert (tmp_path / "y-2.bin").read_bytes() == b"\1"


def predict(texts):
    """Raise an error if any text is bad, as a task does."""
    bad = [text for text in texts if text.startswith("bad")]
    if bad:
        raise DataError(f"{bad[0]!r} is invalid; correct it")
    return [[Prediction(text.upper())] for text in texts]


def test_only_invalid_inputs_fail():
    results = output.predict_with_bisection(predict, ["a", "bad 1", "b", "c", "bad 2"])
    assert [result if isinstance(result, str) else result[0].text for result in results] == [
        *("A", "'bad 1' is invalid; correct it", "B", "C", "'bad 2' is invalid; correct it")
    ]
    assert output.predict_with_bisection(predict, []) == []


class SamplingRun:
    """Predicts the sampling index of every input; texts that start with `bad` are refused."""

    def parse_request(self, options):
        return None, options.get("decoding", decoders.build("sample"))

    def predict(self, texts, *, decoding):
        predict(texts)
        return [[Prediction(str(index))] for index in decoding.sample_indices(len(texts))]


def test_samples_depend_on_the_line_number_and_not_on_the_chunk():
    lines = [InputLine(index, "bad" if index == 5 else "a") for index in range(1, 9)]
    options = predict_loop.PredictOptions()
    work = predict_loop.ChunkPredictor(SamplingRun(), output.RowFormatter(Verb("generate"), options, {}))
    for size in (8, 3, 1):
        chunks = [lines[low : low + size] for low in range(0, 8, size)]
        rows = [result.rows for chunk in chunks for result in work(chunk)]
        assert rows == [["0"], ["1"], ["2"], ["3"], [], ["5"], ["6"], ["7"]]


RESULTS = [
    Result(InputLine(1, "a"), ["A"]),
    Result(InputLine(2, "bad"), [], "it is invalid"),
    Result(InputLine(3, "b"), ["B"]),
]


@pytest.mark.parametrize(
    ("on_error", "as_json", "out", "action"),
    [
        ("blank", False, "A\n\nB\n", "have an empty line"),
        ("skip", False, "A\nB\n", "were skipped"),
        ("blank", True, 'A\n{"input": "bad", "predictions": [], "error": "it is invalid"}\nB\n', "have an empty line"),
    ],
)
def test_failures_are_named_counted_and_handled_as_requested(capsys, on_error, as_json, out, action):
    printer = output.PredictionPrinter("in.txt", on_error, as_json=as_json)
    printer.print(RESULTS)
    with pytest.raises(output.FailedInputs, match=f"^1 of 3 inputs failed and {action}$") as failed:
        printer.close()
    assert failed.value.code == 3  # a pipeline notices it
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == (out, "regard: in.txt:2: it is invalid\n")


def test_stopping_prints_the_predictions_so_far(capsys):
    printer = output.PredictionPrinter("in.txt", "stop", as_json=False)
    with pytest.raises(DataError, match=r"^in\.txt:2: it is invalid$"):
        printer.print(RESULTS)
    assert capsys.readouterr().out == "A\n"


def test_the_first_of_many_failures_are_named(capsys):
    printer = output.PredictionPrinter("in.txt", "skip", as_json=False)
    printer.print([RESULTS[1]] * (output.MAX_REPORTED_INPUTS + 1))
    with pytest.raises(output.FailedInputs, match=f"; the first {output.MAX_REPORTED_INPUTS} are named above$"):
        printer.close()
    assert len(capsys.readouterr().err.splitlines()) == output.MAX_REPORTED_INPUTS


ADJUSTED = Prediction("A", remarks=("too long: cut",))


def test_adjustments_are_reported_once_on_standard_error(capsys, tmp_path):
    assert output.remarks_of([ADJUSTED, ADJUSTED, Prediction("B", remarks=("dark",))]) == ("too long: cut", "dark")
    for as_json, error in ((False, "regard: in.txt:1: too long: cut\n"), (True, "")):  # JSON rows contain it
        printer = output.PredictionPrinter("in.txt", "stop", as_json=as_json)
        printer.print([Result(InputLine(1, "a"), ["A"], remarks=ADJUSTED.remarks), *RESULTS[:1]])
        printer.close()
        assert capsys.readouterr() == ("A\nA\n", error)
    write([[replace(prediction_with_files("one"), remarks=ADJUSTED.remarks)]], tmp_path / "x.txt")
    assert capsys.readouterr() == (f"1: one\nwrote {tmp_path / 'x.txt'}\n", "regard: too long: cut\n")


def test_the_first_of_many_adjusted_inputs_are_named(capsys):
    printer = output.PredictionPrinter("", "stop", as_json=False)
    printer.print([Result(InputLine(1, "a"), [], remarks=ADJUSTED.remarks)] * (output.MAX_REPORTED_INPUTS + 1))
    printer.close()
    *named, last = capsys.readouterr().err.splitlines()
    assert named == ["regard: too long: cut"] * output.MAX_REPORTED_INPUTS
    assert last == f"regard: 21 of 21 inputs were adjusted; the first {output.MAX_REPORTED_INPUTS} are named above"


def test_a_chunk_ends_if_no_more_is_available_yet():
    assert list(predict_loop.split_chunks(["a", "b", None, "c", None, None, "d"], 2)) == [
        *(["a", "b"], None, ["c"], None, None, ["d"])
    ]
