"""`regard translate` with a small run that was trained by the command line."""

import io
import json
import shutil
import sys

import pytest
from run_cli import call

TEXTS = ["The cook is reading a book.", "", "   ", "Please buy two apples."]


def lines(capsys):
    return capsys.readouterr().out.splitlines()


def test_a_run_folder_is_complete(small):
    names = {path.name for path in small.iterdir()}
    assert {"config.json", "model.safetensors", "log.jsonl", "README.md", "state"} <= names


def test_order_and_empty_lines_are_preserved(small, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{text}\n" for text in TEXTS)))
    call("translate", small)
    from_stdin = lines(capsys)
    assert len(from_stdin) == 4
    assert from_stdin[1] == from_stdin[2] == ""
    call("translate", small, TEXTS[0], TEXTS[3])
    assert lines(capsys) == [from_stdin[0], from_stdin[3]]


@pytest.mark.parametrize("args", [["n=3"], ["--n", "3"], ["--n=3"], ["n=3", "decoding=beam"]])
def test_n_best_with_scores_as_json(small, capsys, args):
    call("translate", *args, small, "Please buy two apples.", "--json")
    (row,) = [json.loads(line) for line in lines(capsys)]
    scores = [translation["score"] for translation in row["predictions"]]
    assert row["input"] == "Please buy two apples."
    assert len(scores) == 3
    assert len({translation["text"] for translation in row["predictions"]}) == 3


def test_n_best_as_text(small, capsys):
    call("translate", small, "Please buy.", "", "n=2")
    rows = [line.split("\t") for line in lines(capsys)]
    assert [len(row) for row in rows] == [2, 2, 2] and rows[2] == ["100.0 %", ""]


def test_inputs_after_two_dashes_are_not_settings(small, capsys):
    call("translate", small, "--", "x=1", "--n")
    assert len(lines(capsys)) == 2


def test_engine_int8(small, capsys):
    call("translate", small, "Please buy two apples.", "--engine", "int8")
    assert len(lines(capsys)) == 1


def test_many_inputs_are_split_among_processes_and_keep_their_order(small, capsys, monkeypatch):
    texts = [f"The cook buys {count} apples." for count in range(2, 40)]
    monkeypatch.setattr("regard.cli.predict_loop.LINES_PER_PROCESS", 4)
    monkeypatch.setattr("regard.cli.predict_loop.available_cores", lambda: 2)
    outputs = []
    for workers in (1, 2):
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{text}\n" for text in texts)))
        call("translate", small, "--workers", workers)
        outputs.append(lines(capsys))
    assert outputs[0] == outputs[1] and len(outputs[0]) == len(texts)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--engine", "int9"], "no engine 'int9'; did you mean 'int8'?"),
        (["--workers", "-1"], "--workers -1: give a number of processes, or 0 for one per core"),
        (["--n", "0"], "translate: n=0 must be at least 1"),
        (["n=few"], "translate.n: expected a whole number, got 'few'"),
        (["nn=2"], "translate: no setting 'nn'; did you mean 'n'?"),
        (["decoding.no_repet=2"], "decoding: no setting 'no_repet'; did you mean 'no_repeat_ngram_size'?"),
        (["the cook " * 300], "the model was trained for at most 40"),
        (["--out", "x.mid"], "x.mid: these predictions cannot be written as .mid; available: .txt, .jsonl\n"),
    ],
)
def test_a_mistake_is_a_one_line_error(small, capsys, args, message):
    with pytest.raises(SystemExit) as stop:
        call("translate", small, "x", *args)
    error = capsys.readouterr().err
    assert stop.value.code == 1
    assert error.startswith("regard: ") and message in error and error.count("\n") == 1


def test_a_missing_or_damaged_run_is_named(small, capsys, tmp_path):
    broken = shutil.copytree(small, tmp_path / "broken")
    content = bytearray((broken / "model.safetensors").read_bytes())
    content[-5] ^= 1
    (broken / "model.safetensors").write_bytes(content)
    for folder, message in ((tmp_path / "nowhere", "nowhere: no such run folder"), (broken, "model.safetensors")):
        with pytest.raises(SystemExit):
            call("translate", folder, "x")
        assert message in capsys.readouterr().err


def test_the_error_names_the_verb_of_another_task(root, tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(root / "tests" / "training")
    call("train", "toys.summing", "training.steps=1", "--out", tmp_path / "run")
    capsys.readouterr()
    with pytest.raises(SystemExit):
        call("translate", tmp_path / "run", "x")
    run = tmp_path / "run"
    message = f"regard: {run} was trained for toys.summing, whose verb is add; regard predict {run} …\n"
    assert capsys.readouterr().err == message


def test_help_lists_the_options_of_the_task_and_the_decoding_of_the_run(small, capsys):
    call("translate", "--help")
    assert "number of translations of each text" in capsys.readouterr().out
    call("translate", small, "--help")
    printed = capsys.readouterr().out
    assert "number of translations of each text" in printed and "decoding.no_repeat_ngram_size" in printed
