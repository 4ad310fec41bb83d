import gzip
import json
import lzma
import zipfile
from itertools import chain

import pytest

from regard.core.errors import ConfigError, DataError
from regard.data.files import download
from regard.data.text import plain_text
from regard.data.text.plain_text import PlainTextSource, open_text


def texts(*paths, name=""):
    return {
        split: list(documents) for split, documents in open_text(PlainTextSource(tuple(map(str, paths)), name)).items()
    }


@pytest.mark.parametrize(("suffix", "opener"), [("", open), (".gz", gzip.open), (".xz", lzma.open)])
def test_a_file_is_one_document_whose_last_tenth_of_characters_is_held_out(tmp_path, suffix, opener):
    path = tmp_path / f"book.txt{suffix}"
    content = "".join(f"line {i}\r\n" for i in range(50))
    with opener(path, "wb") as file:
        file.write(content.encode())
    text = content.replace("\r", "")
    splits = texts(path)
    assert splits == {"train": [text[: len(text) * 9 // 10]], "valid": [text[len(text) * 9 // 10 :]]}


def test_a_folder_of_few_files_is_split_by_characters(tmp_path):
    for name, text in (("b", "b" * 15), ("a", "a" * 5), ("README", "no text")):
        (tmp_path / name).write_text(text)
    assert texts(tmp_path) == {"train": ["a" * 5, "b" * 13], "valid": ["bb"]}


def test_of_many_documents_every_twentieth_is_held_out(tmp_path):
    (tmp_path / "x.jsonl").write_text("".join(json.dumps({"text": f"t{i}"}) + "\n" for i in range(40)))
    splits = texts(tmp_path / "x.jsonl")
    assert splits["valid"] == ["t19", "t39"] and splits["test"] == ["t9", "t29"]
    assert sorted(chain.from_iterable(splits.values())) == sorted(f"t{i}" for i in range(40))


def test_files_named_after_splits_are_the_splits(tmp_path):
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text(name)
    assert texts(tmp_path) == {"train": ["train"], "valid": ["valid"], "test": ["test"]}


def test_columns_of_tables_are_named_or_numbered(tmp_path):
    (tmp_path / "x.tsv").write_text('1\tpos\ta "good<br /><br />one\n2\tneg\tbad\n')
    assert "".join(chain.from_iterable(texts(f"{tmp_path}/x.tsv#3").values())) == 'a "good\n\nonebad'
    (tmp_path / "y.csv").write_text('label,text\n1,"a, b"\n0,c\n')
    assert "".join(chain.from_iterable(texts(f"{tmp_path}/y.csv#text").values())) == "a, bc"


def test_several_paths_are_joined_split_by_split(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for split in ("train", "valid"):
            (tmp_path / folder / f"{split}.txt").write_text(f"{folder} {split}")
    splits = texts(tmp_path / "a", tmp_path / "b")
    assert splits == {"train": ["a train", "b train"], "valid": ["a valid", "b valid"]}


def test_archives_are_read_without_tags(tmp_path):
    with zipfile.ZipFile(tmp_path / "brown.zip", "w") as archive:
        archive.writestr("brown/", "")
        archive.writestr(
            "brown/ca01", "\n\tThe/at dog/nn ,/, ``/`` he/pps ''/'' ,/, barked/vbd ?/. ?/.\n\n\tSo/rb ./.\n"
        )
        archive.writestr("brown/README", "about")
        archive.writestr("plain", "either/or is a word ")
    text = "".join(chain.from_iterable(texts(tmp_path / "brown.zip").values()))
    assert text == 'The dog, "he", barked?\nSo.either/or is a word '


def test_the_brown_corpus_is_read_as_printed_text(shared_data):
    splits = texts(shared_data / "brown" / "brown.zip")
    assert {split: len(documents) for split, documents in splits.items()} == {"train": 450, "valid": 25, "test": 25}
    start = (
        "The Fulton County Grand Jury said Friday an investigation of Atlanta's recent primary election produced \"no "
    )
    assert splits["train"][0].startswith(start)


def test_the_built_in_text_is_the_documentation_inside_python():
    splits = texts(name="python")
    assert len(splits["train"]) > 60 and "assert" in splits["train"][0]
    assert not set(splits["train"]) & {*splits["valid"], *splits["test"]}


def test_a_download_is_split_like_a_file(tmp_path, monkeypatch):
    (tmp_path / "input.txt").write_text("x" * 90 + "y" * 10)
    monkeypatch.setattr(download, "fetch_dataset", lambda name: tmp_path)
    assert texts(name="tinyshakespeare") == {"train": ["x" * 90], "valid": ["y" * 10]}


def test_the_key_changes_with_the_content(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("a" * 100)
    keys = {documents.key for documents in open_text(PlainTextSource((str(path),), "")).values()}
    path.write_text("b" * 101)
    assert len(keys | {documents.key for documents in open_text(PlainTextSource((str(path),), "")).values()}) == 4


def test_unreadable_sources_are_an_error(tmp_path):
    (tmp_path / "x.tsv").write_text("a\tb\n1\n")
    (tmp_path / "x.jsonl").write_text('{"text": 3}\n')
    (tmp_path / "y.jsonl").write_text("no\n")
    (tmp_path / "x.txt").write_bytes(b"caf\xe9")
    (tmp_path / "x.zip").write_bytes(b"no archive")
    (tmp_path / "empty").mkdir()
    for path, message in [
        ("nowhere", "nowhere: no such file or folder"),
        ("x.tsv", "x.tsv: which column is the text"),
        ("x.tsv#c", "x.tsv: no column 'c'; known: a, b, or give its number"),
        ("x.tsv#2", "x.tsv:2: 1 column, but column 2 is required"),
        ("x.jsonl", r"x.jsonl:1: has no text 'text'; add the right key after a #"),
        ("y.jsonl", "y.jsonl:1: not JSON"),
        ("x.txt", r"x.txt: not UTF-8 \(byte 0xe9 in line 1\), and the encoding cannot be detected; convert it"),
        ("x.zip", "x.zip: cannot be read"),
        ("empty", "empty: no files in this folder"),
    ]:
        with pytest.raises(DataError, match=message):
            texts(f"{tmp_path}/{path}")
    with pytest.raises(ConfigError, match=r"no text 'pithon'; files are given as .*; did you mean 'python'"):
        texts(name="pithon")


def test_a_text_is_tagged_only_if_all_its_words_are():
    assert plain_text.has_pos_tags("The/at dog/nn ./.") and not plain_text.has_pos_tags("and/or the dog")


def test_joined_and_unread_files_are_reported(tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("some text " * 20, encoding="utf-8")
    splits = plain_text.open_text(PlainTextSource((tmp_path,), ""))
    assert splits["train"].remarks == splits["valid"].remarks == (f"{tmp_path}: 2 files are joined: a.txt, b.txt",)
    (tmp_path / "train.txt").write_text("training text " * 20, encoding="utf-8")
    (remark,) = plain_text.open_text(PlainTextSource((tmp_path,), ""))["train"].remarks
    assert remark == f"{tmp_path}: not read: a.txt, b.txt; the files of the splits are read alone"
