"""`regard translate` from a stranger's side: a small run is trained by the command line, then used."""

import io
import json
import shutil
import subprocess
import sys

import pytest
from run_cli import call

TEXTS = ["The cook is reading a book.", "", "   ", "Please buy two apples."]


def lines(capsys):
    return capsys.readouterr().out.splitlines()


def test_a_run_folder_has_all_it_needs(small):
    names = {path.name for path in small.iterdir()}
    assert {"config.json", "model.safetensors", "log.jsonl", "README.md", "state"} <= names


def test_order_and_empty_lines_are_kept(small, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{text}\n" for text in TEXTS)))
    call("translate", small)
    from_stdin = lines(capsys)
    assert len(from_stdin) == 4
    assert from_stdin[1] == from_stdin[2] == ""
    call("translate", small, TEXTS[0], TEXTS[3])
    assert lines(capsys) == [from_stdin[0], from_stdin[3]]


@pytest.mark.parametrize("words", [["n=3"], ["--n", "3"], ["--n=3"], ["n=3", "decoding=beam"]])
def test_n_best_with_scores_as_json(small, capsys, words):
    call("translate", *words, small, "Please buy two apples.", "--json")
    (row,) = [json.loads(line) for line in lines(capsys)]
    scores = [answer["score"] for answer in row["translations"]]
    assert row["source"] == "Please buy two apples."
    assert len(scores) == 3
    assert len({answer["text"] for answer in row["translations"]}) == 3


def test_n_best_as_text(small, capsys):
    call("translate", small, "Please buy.", "", "n=2")
    rows = [line.split("\t") for line in lines(capsys)]
    assert [len(row) for row in rows] == [2, 2, 2] and rows[2] == ["0.0000", ""]


def test_an_input_that_looks_like_a_setting_stands_after_two_dashes(small, capsys):
    call("translate", small, "--", "x=1", "--n")
    assert len(lines(capsys)) == 2


def test_eight_bits(small, capsys):
    call("translate", small, "Please buy two apples.", "--engine", "int8")
    assert len(lines(capsys)) == 1


def test_long_inputs_are_shared_among_processes_and_keep_their_order(small, capsys, monkeypatch):
    texts = [f"The cook buys {number} apples." for number in range(2, 40)]
    monkeypatch.setattr("regard.cli.predict_loop.LINES_PER_PROCESS", 4)
    monkeypatch.setattr("regard.cli.predict_loop.available_cores", lambda: 2)
    outputs = []
    for workers in (1, 2):
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{text}\n" for text in texts)))
        call("translate", small, "--workers", workers)
        outputs.append(lines(capsys))
    assert outputs[0] == outputs[1] and len(outputs[0]) == len(texts)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--engine", "int9"], "no engine 'int9'; did you mean 'int8'?"),
        (["--workers", "-1"], "--workers -1: give a number of processes, or 0 for one per core"),
        (["--n", "0"], "translate: n=0 must be at least 1"),
        (["n=few"], "translate.n: expected a whole number, got 'few'"),
        (["nbset=2"], "translate: no setting 'nbset'; known: n"),
        (["decoding.no_repet=2"], "decoding: no setting 'no_repet'; did you mean 'no_repeat_ngram_size'?"),
        (["the cook " * 300], "the model was trained for at most 40"),
        (["--out", "x.mid"], "this prediction cannot be written as .mid; available: "),
    ],
)
def test_what_cannot_be_is_one_line(small, capsys, words, message):
    with pytest.raises(SystemExit) as end:
        call("translate", small, "x", *words)
    error = capsys.readouterr().err
    assert end.value.code == 1
    assert error.startswith("regard: ") and message in error and error.count("\n") == 1


def test_a_run_that_is_gone_or_damaged_is_named(small, capsys, tmp_path):
    broken = shutil.copytree(small, tmp_path / "broken")
    content = bytearray((broken / "model.safetensors").read_bytes())
    content[-5] ^= 1
    (broken / "model.safetensors").write_bytes(content)
    for folder, said in ((tmp_path / "nowhere", "nowhere: no such run folder"), (broken, "model.safetensors")):
        with pytest.raises(SystemExit):
            call("translate", folder, "x")
        assert said in capsys.readouterr().err


def test_a_run_of_another_task_says_its_verb(root, tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(root / "tests" / "training")
    call("train", "toys.summing", "training.steps=1", "--out", tmp_path / "run")
    capsys.readouterr()
    with pytest.raises(SystemExit):
        call("translate", tmp_path / "run", "x")
    run = tmp_path / "run"
    said = f"regard: {run} was trained for toys.summing, whose verb is add; regard answer {run} …\n"
    assert capsys.readouterr().err == said


def test_a_usage_error_is_exit_code_2():
    done = subprocess.run([sys.executable, "-m", "regard", "translate"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_help_lists_the_options_of_the_task_and_the_search_of_the_run(small, capsys):
    call("translate", "--help")
    assert "number of translations of each text" in capsys.readouterr().out
    call("translate", small, "--help")
    said = capsys.readouterr().out
    assert "number of translations of each text" in said and "decoding.no_repeat_ngram_size" in said
