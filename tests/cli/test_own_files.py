"""The steps of a new user with a Korean CSV file from Excel: check, train, translate, inspect, evaluate."""

import csv
import io
import json

import pytest
from run_cli import call

from regard.data.builtin import english_korean

SMALL = [
    "model.layers=1",
    "model.dim=16",
    "model.ffn_dim=16",
    "model.heads=2",
    "data.vocab_size=400",
    "decoding=greedy",
]
SHORT = ["training.steps=2", "training.evaluation.every=2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """pairs.csv as Korean Excel writes it: CP949, CRLF, a Korean header, quotes, commas and line breaks in cells."""
    folder = tmp_path_factory.mktemp("excel")
    pairs = [(example.source, example.target) for example in english_korean.generate("train", 80, seed=3)]
    pairs[3] = ('He said "hello, world"\nand left.', '그는 "안녕, 세상"이라고 말하고\n떠났다.')
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows([("영어", "한국어"), *pairs])
    (folder / "pairs.csv").write_bytes(text.getvalue().encode("cp949"))
    return folder


def test_from_a_csv_file_to_an_inspection(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    call("data", "check", "pairs.csv")
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["pairs.csv: sentence pairs", "pairs.csv: read as CP949"]
    assert printed[-2:] == [
        "pairs.csv: 0 errors, 0 warnings",
        "train on it: regard train translation data.path=pairs.csv",
    ]
    call(*printed[-1].split()[4:], *SMALL, *SHORT, "--out", "run")
    monkeypatch.chdir("/")
    call("translate", folder / "run", "Yes, of course.", "--json")
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["predictions"]
    call("look", folder / "run", "Yes, of course.", "--html", folder / "page.html")
    assert (folder / "page.html").stat().st_size > 10_000
    call("evaluate", folder / "run", "--json")
    assert "bleu" in json.loads(capsys.readouterr().out.splitlines()[-1])["scores"]
    assert list((folder / "run").glob("evaluation-test-greedy-*.json"))
    call("evaluate", folder / "run", f"data.path={folder / 'pairs.csv'}", "--bleu", "char", "--json")
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["data"] == "bleu=char"
