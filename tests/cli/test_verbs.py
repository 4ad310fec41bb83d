"""The verbs from a stranger's side: a small run is trained by the command line, then used; a mistake is one line."""

import io
import json
import subprocess
import sys

import pytest
from calling import call

SMALL = ["model.layers=1", "model.dim=16", "model.hidden=16", "model.heads=2", "data.pairs=300", "data.vocabulary=300"]
SHORT = ["training.steps=3", "training.evaluation.every=3"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "small"
    call("train", "translation", "model=transformer", *SMALL, *SHORT, "decoding=greedy", "--out", folder)
    return folder


def lines(capsys):
    return capsys.readouterr().out.splitlines()


def test_a_run_folder_has_all_it_needs(run):
    names = {path.name for path in run.iterdir()}
    assert {"config.json", "model.safetensors", "log.jsonl", "README.md", "state"} <= names


def test_translate_keeps_order_and_empty_lines(run, capsys, monkeypatch):
    texts = ["The cook is reading a book.", "", "   ", "Please buy two apples."]
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{text}\n" for text in texts)))
    call("translate", run)
    from_stdin = lines(capsys)
    assert len(from_stdin) == 4
    assert from_stdin[1] == from_stdin[2] == ""
    call("translate", run, texts[0], texts[3])
    assert lines(capsys) == [from_stdin[0], from_stdin[3]]


def test_translate_gives_n_best_with_scores_as_json(run, capsys):
    call("translate", run, "Please buy two apples.", "--nbest", "3", "--json")
    (row,) = [json.loads(line) for line in lines(capsys)]
    scores = [one["score"] for one in row["translations"]]
    assert row["source"] == "Please buy two apples."
    assert len(scores) == 3
    assert len({one["text"] for one in row["translations"]}) == 3


def test_translate_with_a_shortlist(run, capsys):
    call("translate", run, "Please buy two apples.", "--shortlist", "8", "--engine", "int8")
    assert len(lines(capsys)) == 1
    assert len(list(run.glob("shortlist-*.safetensors"))) == 1


def test_evaluate_prints_signatures_and_keeps_the_report(run, capsys):
    call("evaluate", run, "decoding=beam", "decoding.width=2", "--json")
    report = json.loads(lines(capsys)[-1])
    assert {"bleu", "bleu_lc", "chrf", "loss", "perplexity", "aer"} <= set(report["scores"])
    assert "tok:13a" in report["signatures"]["bleu"]
    assert report.items() <= json.loads((run / "evaluation-test-beam.json").read_text()).items()


def test_info_and_check(run, capsys):
    call("info", run, "--json")
    facts = json.loads(lines(capsys)[-1])
    assert facts["model"]["name"] == "transformer"
    assert facts["parameters"] > 0
    call("check", run)
    assert all(line.startswith("kept") for line in lines(capsys))


def test_resume_goes_on(run, capsys):
    call("train", "--resume", run, "training.steps=5")
    steps = [json.loads(line)["step"] for line in (run / "log.jsonl").read_text().splitlines()]
    assert steps[-1] == 5
    assert steps == sorted(steps)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["translate", "nowhere", "x"], "nowhere: no such run folder"),
        (["train", "translation", "model=transformr"], "unknown model 'transformr'; did you mean 'transformer'?"),
        (
            ["train", "translation", "model=transformer", "model.dims=8"],
            "model: no setting 'dims'; did you mean 'dim'?",
        ),
        (["train", "translation", "model=transformer", "data.path=none.here"], "none.here"),
        (["train", "poetry"], "unknown task 'poetry'"),
        (["train", "translation", "training.steps"], "'training.steps' is not of the form key=value"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_1(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        call(*words)
    message = capsys.readouterr().err.strip()
    assert end.value.code == 1
    assert said in message
    assert message.startswith("regard: ")
    assert "\n" not in message
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"]


def test_a_source_that_is_too_long_is_named(run, capsys):
    with pytest.raises(SystemExit):
        call("translate", run, "the cook " * 300)
    assert "the model was trained for at most 256" in capsys.readouterr().err


def test_a_damaged_run_is_named(run, capsys, tmp_path):
    import shutil

    broken = shutil.copytree(run, tmp_path / "broken")
    content = bytearray((broken / "model.safetensors").read_bytes())
    content[-5] ^= 1
    (broken / "model.safetensors").write_bytes(content)
    with pytest.raises(SystemExit):
        call("translate", broken, "x")
    assert "model.safetensors" in capsys.readouterr().err


def test_a_usage_error_is_exit_code_2():
    done = subprocess.run([sys.executable, "-m", "regard", "translate"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_long_inputs_are_shared_among_processes_and_keep_their_order(run, capsys, monkeypatch):
    texts = [f"The cook buys {number} apples." for number in range(2, 40)]
    monkeypatch.setattr("regard.cli.translate.LINES", 4)
    monkeypatch.setattr("regard.cli.translate.available", lambda: 2)
    found = []
    for workers in (1, 2):
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{text}\n" for text in texts)))
        call("translate", run, "--workers", workers)
        found.append(lines(capsys))
    assert found[0] == found[1] and len(found[0]) == len(texts)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--engine", "int9", "no engine 'int9'; did you mean 'int8'?"),
        ("--workers", "-1", "--workers -1: give a number of processes, or 0 for one on each core"),
        ("--shortlist", "-3", "shortlist=-3: give 1 to 64 target tokens for a source token, or 0 for all"),
        ("--nbest", "0", "--nbest 0: ask for at least one translation"),
    ],
)
def test_options_that_cannot_be_are_one_line(run, capsys, option, value, message):
    with pytest.raises(SystemExit):
        call("translate", run, "x", option, value)
    assert message in capsys.readouterr().err
