"""Inputs in pieces: all in their order, alike for all processes, and read as they are needed; answers in rows."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.cli import output, predict_loop
from regard.cli.inputs import InputLine
from regard.cli.output import Result
from regard.cli.predict_command import Verb
from regard.core.errors import ConfigError, DataError
from regard.core.task import Prediction


def sizes(count, processes):
    lines = [str(number) for number in range(count)]
    pieces = list(predict_loop.split_chunks(lines, processes))
    assert [line for piece in pieces for line in piece] == lines
    return [len(piece) for piece in pieces]


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 255, 256, 511, 513, 1024, 5000, 60_001])
def test_no_line_is_lost_and_shares_are_alike(count, processes):
    shares = sizes(count, processes)
    assert all(0 < size <= predict_loop.MAX_LINES_PER_PROCESS for size in shares)
    last = (
        [size for size in shares if size < predict_loop.LINES_PER_PROCESS_PER_PROCESS]
        if count > predict_loop.LINES_PER_PROCESS_PER_PROCESS * processes
        else shares
    )
    assert not last or max(last) - min(last) < processes


def test_pieces_grow():
    assert sizes(16_384, 1) == [512, 1024, *[2048] * 7, 512]
    assert sizes(10_000, 2) == [512, 512, 1024, 1024, 2048, 2048, 1416, 1416]


def test_a_process_with_threads_of_its_own_gets_several_shares():
    found = predict_loop.split_chunks([str(number) for number in range(20_000)], 1, times=4)
    assert [len(piece) for piece in found] == [2048, 4096, 8192, 5664]


def test_few_lines_are_not_shared():
    assert sizes(255, 8) == [255]
    assert sizes(256, 8) == [128, 128]
    assert sizes(1000, 2) == [500, 500]


def test_lines_are_read_as_they_are_needed():
    read = []
    pieces = predict_loop.split_chunks((read.append(number) or str(number) for number in range(10**9)), 2)
    next(pieces), next(pieces)
    assert len(read) == 2 * predict_loop.LINES_PER_PROCESS_PER_PROCESS


@pytest.mark.parametrize(
    ("count", "chosen"), [(1, [1]), (predict_loop.SMALL_INPUT_COUNT, [1]), (predict_loop.SMALL_INPUT_COUNT + 1, [])]
)
def test_threads_are_chosen_for_a_few_inputs_only(monkeypatch, count, chosen):
    used = []
    monkeypatch.setattr(torch, "set_num_threads", used.append)
    lines = [str(number) for number in range(count)]
    rows = predict_loop.predict_chunks(
        lambda piece: [2 * line for line in piece], iter([lines]), model=nn.Linear(2, 2), processes=1
    )
    assert [row for part in rows for row in part] == [2 * line for line in lines]
    assert used == chosen


BEST = [Prediction("a b", score=-1.5, rank=-0.5), Prediction("b a", score=-2.0, rank=-1.0)]


@pytest.mark.parametrize(
    ("predictions", "verb", "options", "rows"),
    [
        (BEST[:1], Verb(), {}, ["a b"]),
        (BEST, Verb(), {}, ["-0.5000\ta b", "-1.0000\tb a"]),
        (BEST[:1], Verb(), {"n": 2}, ["-0.5000\ta b"]),  # fewer than were asked for
        ([Prediction("x"), Prediction("y")], Verb(), {}, ["x", "y"]),
        (BEST, Verb(numbered=True), {}, ["1: a b", "2: b a"]),
        ([], Verb(), {}, []),
    ],
)
def test_rows_of_text(answers, verb, options, rows):
    assert output.text_rows("given", answers, verb=verb, options=options) == rows


def test_rows_of_json():
    (row,) = output.json_rows("주어", BEST[:1], verb=Verb(), options={})
    assert json.loads(row) == {"input": "주어", "predictions": [{"text": "a b", "score": -1.5, "rank": -0.5}]}
    assert "주어" in row


def picture(text):
    return Prediction(text, files={".txt": text.encode, ".bin": lambda: b"\0"})


def test_answers_are_written_as_files_and_numbered_where_there_are_several(tmp_path, capsys):
    predict_loop.write_predictions([[picture("one")]], [tmp_path / "x.txt", tmp_path / "x.BIN"])
    assert (tmp_path / "x.txt").read_text() == "one" and (tmp_path / "x.BIN").read_bytes() == b"\0"
    predict_loop.write_predictions([[picture("a"), picture("b")], [picture("c")]], [tmp_path / "y.txt"])
    assert [(tmp_path / f"y-{number}.txt").read_text() for number in (1, 2, 3)] == ["a", "b", "c"]
    assert f"3: c\nwrote {tmp_path / 'y-1.txt'}" in capsys.readouterr().out


def test_where_one_kind_cannot_be_made_nothing_is_written(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be written as \.ogg; kinds: \.txt, \.bin"):
        predict_loop.write_predictions([[picture("one")]], [tmp_path / "x.txt", tmp_path / "x.ogg"])
    assert list(tmp_path.iterdir()) == []


def ask(texts):
    """Refuses a list in which a text is bad, as a task does."""
    bad = [text for text in texts if text.startswith("bad")]
    if bad:
        raise DataError(f"{bad[0]!r} is no good; mend it")
    return [[Prediction(text.upper())] for text in texts]


def test_only_what_is_wrong_is_not_answered():
    found = output.predict_with_bisection(ask, ["a", "bad 1", "b", "c", "bad 2"])
    assert [each if isinstance(each, str) else each[0].text for each in found] == [
        *("A", "'bad 1' is no good; mend it", "B", "C", "'bad 2' is no good; mend it")
    ]
    assert output.predict_with_bisection(ask, []) == []


RESULTS = [
    Result(InputLine(1, "a"), ["A"]),
    Result(InputLine(2, "bad"), [], "it is no good"),
    Result(InputLine(3, "b"), ["B"]),
]


@pytest.mark.parametrize(
    ("on_error", "as_json", "out", "end"),
    [
        ("blank", False, "A\n\nB\n", "have an empty line"),
        ("skip", False, "A\nB\n", "were skipped"),
        ("blank", True, 'A\n{"input": "bad", "predictions": [], "error": "it is no good"}\nB\n', "have an empty line"),
    ],
)
def test_failures_are_named_counted_and_handled_as_asked(capsys, on_error, as_json, out, end):
    told = output.PredictionPrinter("in.txt", on_error, Verb(), as_json=as_json)
    told.print(RESULTS)
    told.close()
    said = capsys.readouterr()
    assert said.out == out
    assert said.err == f"regard: in.txt:2: it is no good\nregard: 1 of 3 inputs failed and {end}\n"


def test_stopping_keeps_what_was_answered(capsys):
    told = output.PredictionPrinter("in.txt", "stop", Verb(), as_json=False)
    with pytest.raises(DataError, match=r"^in\.txt:2: it is no good$"):
        told.print(RESULTS)
    assert capsys.readouterr().out == "A\n"


def test_of_many_failures_the_first_are_named(capsys):
    told = output.PredictionPrinter("in.txt", "skip", Verb(), as_json=False)
    told.print([RESULTS[1]] * (output.MAX_REPORTED_INPUTS + 1))
    told.close()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == output.MAX_REPORTED_INPUTS + 1 and said[-1].endswith(
        f"; the first {output.MAX_REPORTED_INPUTS} are named above"
    )


MENDED = Prediction("A", remarks=("too long: cut",))


def test_what_had_to_be_mended_is_said_once_beside_the_answers(capsys, tmp_path):
    assert output.remarks_of([MENDED, MENDED, Prediction("B", remarks=("dark",))]) == ("too long: cut", "dark")
    for as_json, said in ((False, "regard: in.txt:1: too long: cut\n"), (True, "")):  # JSON has it in its rows
        told = output.PredictionPrinter("in.txt", "stop", Verb(), as_json=as_json)
        told.print([Result(InputLine(1, "a"), ["A"], remarks=MENDED.remarks), *RESULTS[:1]])
        told.close()
        assert capsys.readouterr() == ("A\nA\n", said)
    predict_loop.write_predictions([[replace(picture("one"), remarks=MENDED.remarks)]], [tmp_path / "x.txt"])
    assert capsys.readouterr() == (f"1: one\nwrote {tmp_path / 'x.txt'}\n", "regard: too long: cut\n")


def test_of_many_that_had_to_be_mended_the_first_are_named(capsys):
    told = output.PredictionPrinter("", "stop", Verb(), as_json=False)
    told.print([Result(InputLine(1, "a"), [], remarks=MENDED.remarks)] * (output.MAX_REPORTED_INPUTS + 1))
    told.close()
    *named, last = capsys.readouterr().err.splitlines()
    assert named == ["regard: too long: cut"] * output.MAX_REPORTED_INPUTS
    assert (
        last
        == f"regard: 21 of 21 inputs were adjusted; the first {output.MAX_REPORTED_INPUTS} are named above"
    )


def test_a_block_ends_where_more_must_be_waited_for():
    assert list(predict_loop.split_chunks(["a", "b", None, "c", None, None, "d"], 2)) == [
        *(["a", "b"], None, ["c"], None, None, ["d"])
    ]
