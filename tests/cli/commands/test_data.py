"""`regard data`: check data, and print where a download is."""

import hashlib

import pytest
from PIL import Image
from run_cli import call

from regard.cli.commands import data
from regard.core.errors import ConfigError
from regard.data.files import download

UNTAGGED = "".join(f"Tom{index} O\nsleeps O\n\n" for index in range(30))


def test_findings_are_printed_with_file_and_line(tmp_path, capsys):
    (tmp_path / "train.tsv").write_text("a\tb\nalone\n", encoding="utf-8")
    with pytest.raises(SystemExit):
        call("data", "check", tmp_path)
    out, err = capsys.readouterr()
    assert "train.tsv:2: error: 1 column, but column 2 is required" in out and "1 error, 0 warnings" in out
    assert err == f"regard: {tmp_path}: 1 error; correct the errors above before training\n"


def test_many_findings_of_one_kind_are_counted(tmp_path, capsys):
    text = "".join(f"{i:0>3}" + "x" * (500 + i) + "\ty\n" for i in range(30)) + "a\tb\n" * 60
    (tmp_path / "train.tsv").write_text(text, encoding="utf-8")
    call("data", "check", tmp_path, "--layout", "pairs")
    out = capsys.readouterr().out
    assert f"{tmp_path}/train.tsv: … and 10 more findings of the kind 'long'" in out


def test_the_same_finding_is_printed_once_with_its_lines(tmp_path, capsys):
    (tmp_path / "train.tsv").write_text("\t\n" * 30 + "a\tb\nc\td\ne\tf\n", encoding="utf-8")
    call("data", "check", tmp_path, "--layout", "pairs")
    out = capsys.readouterr().out
    assert f"{tmp_path}/train.tsv:1: warning: empty line (30 times; lines 1, 2, 3, 4, 5, …)" in out


def test_many_findings_on_images_are_counted(tmp_path, capsys):
    """Each image is a file of its own; 30 sizes are not 30 lines."""
    for index in range(70):
        size = (8 + index, 8) if index < 30 else (8, 8)
        Image.new("RGB", size, (index, 0, 0)).save(tmp_path / f"{index}.png")
    call("data", "check", tmp_path)
    out = capsys.readouterr().out
    assert out.count("most images have 8x8") == 20 and f"{tmp_path}: … and 9 more findings of the kind 'size" in out


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("x.conll", UNTAGGED, "no unit is tagged as part of an entity; there is nothing to learn"),
        ("x.txt", "hi", "the training text has 1 token, fewer than data.context=128"),
    ],
)
def test_data_that_training_would_refuse_is_an_error(tmp_path, capsys, name, content, problem):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(SystemExit):
        call("data", "check", tmp_path / name)
    out = capsys.readouterr().out
    assert f"{tmp_path / name}: error: {problem}" in out and "train on it" not in out


def test_large_data_is_not_encoded(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("regard.training.trial.MAX_BYTES", 5)
    (tmp_path / "x.conll").write_text(UNTAGGED, encoding="utf-8")
    call("data", "check", tmp_path / "x.conll")
    assert "0 errors" in capsys.readouterr().out


def test_good_data_passes(tmp_path, capsys):
    (tmp_path / "train.tsv").write_text("a\tb\nc\td\ne\tf\n", encoding="utf-8")
    call("data", "check", tmp_path)
    assert "0 errors, 0 warnings" in capsys.readouterr().out


def test_an_unknown_download_is_an_error():
    with pytest.raises(
        ConfigError, match="no data set 'x' to download; known: jsb_chorales, multi30k, tinyshakespeare"
    ):
        data.get("x")


def test_the_folder_and_terms_of_a_download_are_printed(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    (tmp_path / "tinyshakespeare").mkdir()
    (tmp_path / "tinyshakespeare" / "input.txt").write_text("To be", encoding="utf-8")
    checksum = hashlib.sha256(b"To be").hexdigest()
    dataset = download.SETS["tinyshakespeare"]._replace(files={"input.txt": checksum})
    monkeypatch.setitem(download.SETS, "tinyshakespeare", dataset)
    data.get("tinyshakespeare")
    assert capsys.readouterr().out == f"{tmp_path / 'tinyshakespeare'}\nterms: text in the public domain\n"
