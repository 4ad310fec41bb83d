import gzip
import json
import lzma
import zipfile

import pytest

from regard.core.errors import ConfigError, DataError
from regard.data.text import document_files
from regard.data.text.document_files import Layout


def write(path, text, opener=open):
    path.parent.mkdir(parents=True, exist_ok=True)
    with opener(path, "wt", encoding="utf-8", newline="") as file:
        file.write(text)
    return path


def pairs(rows):
    return [(document.text, document.labels) for document in rows]


EXPECTED = [("a good film", ("pos",)), ("a bad film", ("neg",))]


@pytest.mark.parametrize(("suffix", "opener"), [("", open), (".gz", gzip.open), (".xz", lzma.open)])
def test_plain_and_compressed_tables_are_read_by_column_name(tmp_path, suffix, opener):
    tsv = write(tmp_path / f"a.tsv{suffix}", "id\ttext\tlabel\n1\ta good film\tpos\n2\ta bad film\tneg\n", opener)
    csv = write(tmp_path / f"a.csv{suffix}", 'text,label\n"a good film",pos\na bad film,neg\n', opener)
    lines = "".join(json.dumps({"text": text, "label": label}) + "\n" for text, (label,) in EXPECTED)
    jsonl = write(tmp_path / f"a.jsonl{suffix}", lines, opener)
    for path in (tsv, csv, jsonl):
        assert pairs(document_files.read(path, Layout())["train"]) == EXPECTED


def test_columns_by_number_with_and_without_a_header(tmp_path):
    path = write(tmp_path / "a.tsv", "pos\tx\ta good film\nneg\ty\ta bad film\n")
    assert pairs(document_files.read_table(path, Layout("1", "3"))) == EXPECTED
    headed = write(tmp_path / "b.tsv", "l\tx\tt\npos\tx\ta good film\nneg\ty\ta bad film\n")
    assert pairs(document_files.read_table(headed, Layout("1", "3", header=True))) == EXPECTED


def test_only_csv_has_quotes(tmp_path):
    csv = write(tmp_path / "a.csv", 'label,text\r\npos,"one,\ntwo ""three"""\r\n')
    (document,) = document_files.read_table(csv, Layout())
    assert document.text == 'one,\ntwo "three"' and document.origin.endswith("a.csv:2")
    tsv = write(tmp_path / "a.tsv", 'label\ttext\npos\t"never closed\n')
    assert pairs(document_files.read_table(tsv, Layout())) == [('"never closed', ("pos",))]


def test_locations_are_files_and_lines(tmp_path):
    path = write(tmp_path / "a.tsv", "label\ttext\npos\tone\nneg\ttwo\n")
    assert [document.origin for document in document_files.read_table(path, Layout())] == [f"{path}:2", f"{path}:3"]


def test_several_labels_in_a_cell(tmp_path):
    path = write(tmp_path / "a.tsv", "label\ttext\njoy| fear\tone\n\ttwo\n")
    assert pairs(document_files.read_table(path, Layout(separator="|"))) == [("one", ("joy", "fear")), ("two", ())]
    record = {"text": "one", "label": ["joy", "fear"]}
    assert document_files.from_record(record, Layout(separator="|"), "x").labels == ("joy", "fear")
    assert document_files.from_record({"text": "one", "label": 1}, Layout(), "x").labels == ("1",)


def test_a_folder_of_tables_by_split(tmp_path):
    for name in ("train.tsv", "dev.tsv", "test.first_half.tsv"):
        write(tmp_path / name, f"label\ttext\npos\t{name}\n")
    splits = document_files.read(tmp_path, Layout())
    assert {split: pairs(rows)[0][0] for split, rows in splits.items()} == {
        "train": "train.tsv",
        "valid": "dev.tsv",
        "test": "test.first_half.tsv",
    }


def test_a_folder_with_one_table_of_another_name(tmp_path):
    write(tmp_path / "reviews.csv", "label,text\npos,a good film\nneg,a bad film\n")
    assert pairs(document_files.read(tmp_path, Layout())["train"]) == EXPECTED


def test_folders_by_class_with_splits(tmp_path):
    for split in ("train", "test"):
        write(tmp_path / split / "pos" / "1.txt", f"good {split}")
        write(tmp_path / split / "neg" / "2.txt", f"bad {split}")
    splits = document_files.read(tmp_path, Layout())
    assert pairs(splits["train"]) == [("bad train", ("neg",)), ("good train", ("pos",))]
    assert pairs(splits["test"]) == [("bad test", ("neg",)), ("good test", ("pos",))]


def test_an_archive_by_class_with_a_fixed_fold(tmp_path):
    path = tmp_path / "in" / "films.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as file:
        for name in ("cv000", "cv800", "cv900"):
            file.writestr(f"films/pos/{name}.txt", f"good {name}")
    for source in (path, path.parent):
        splits = document_files.read(source, Layout(valid="cv8*", test="cv9*"))
        assert {split: pairs(rows) for split, rows in splits.items()} == {
            "train": [("good cv000", ("pos",))],
            "valid": [("good cv800", ("pos",))],
            "test": [("good cv900", ("pos",))],
        }


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "label\ttext\npos\n", r"a\.tsv:2: 1 column, but column 2 is required"),
        ("a.tsv", "label\ttext\n \ttwo\n", r"a\.tsv:2: there is no label in column 'label'"),
        (
            "a.csv",
            'label,text\npos,"open\n',
            r"a\.csv:2: not CSV: a quotation mark in the record that starts here is never closed",
        ),
        ("a.jsonl", '{"text": 1', r"a\.jsonl:1: not JSON: Expecting"),
        ("a.jsonl", "[]", r"a\.jsonl:1: expected an object with a text and a label, got \[\]"),
        ("a.jsonl", '{"text": "x", "labl": 1}', r"a\.jsonl:1: no 'label'; did you mean 'labl'"),
        ("a.jsonl", '{"text": 3, "label": 1}', r"a\.jsonl:1: 'text' is 3, which is not a text"),
        ("a.jsonl", '{"text": "x", "label": 1.5}', r"a\.jsonl:1: 'label' is 1\.5, which is not a label$"),
        (
            "a.jsonl",
            '{"text": "x", "label": ["a"]}',
            r"which is not a label; set data\.separator if documents have several",
        ),
        (
            "a.csv",
            "text,Text,label\na,b,x\n",
            r"a\.csv: 2 columns are named 'text'; rename all but one, or delete them$",
        ),
        ("a.xml", "x", r"a\.xml: unknown file type; expected \.tsv, \.csv, \.xlsx or \.jsonl"),
        (
            "a.json",
            "[]",
            r"a\.json: a JSON file; write one object per line \(\.jsonl\), for a list: jq -c '\.\[\]' .*\.json > .*l$",
        ),
        (
            "a.csv",
            "My reviews\n\ntext,label\na,x\n",
            r"a\.csv: its first line is 'My reviews', and record 2 is the first with several cells; delete the lines "
            "above the column names$",
        ),
        ("a.csv", "text label\na x\n", r"a\.csv: one column; separate the columns by tabs, commas, semicolons or \|$"),
    ],
)
def test_errors_name_file_and_line(tmp_path, name, text, message):
    with pytest.raises(DataError, match=message):
        list(document_files.read_table(write(tmp_path / name, text), Layout()))


def test_unknown_columns_and_paths(tmp_path):
    path = write(tmp_path / "a.tsv", "lebals\ttext\npos\tone\n")
    with pytest.raises(
        ConfigError, match=r"no column 'label' in its first line 'lebals', 'text'; .*; did you mean 'lebals'"
    ):
        list(document_files.read_table(path, Layout()))
    with pytest.raises(DataError, match="no such file or folder"):
        document_files.read(tmp_path / "none", Layout())
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: no table .* and no text files in folders named after their class"):
        document_files.read(tmp_path / "empty", Layout())
    write(tmp_path / "bare" / "1.txt", "x")
    with pytest.raises(DataError, match=r"bare: 1\.txt is not in a class folder; expected class/1\.txt"):
        document_files.read(tmp_path / "bare", Layout())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label": "0"}, "label='0': columns are counted from 1"),
        ({"label": "text"}, "label and text are both column 'text'; name two columns"),
        ({"header": False}, "header=false: columns must be given by number"),
    ],
)
def test_invalid_layouts(settings, message):
    with pytest.raises(ConfigError, match=message):
        Layout(**settings)


def test_the_shared_data_is_read(shared_data):
    nsmc = document_files.read(shared_data / "nsmc", Layout("label", "document"))
    assert set(nsmc) == {"train", "valid", "test"}
    first = next(iter(nsmc["test"]))
    assert first.labels in (("0",), ("1",)) and first.text.strip()
    folds = document_files.read(shared_data / "movie_reviews", Layout(valid="cv8*", test="cv9*"))
    assert {split: sum(1 for _ in rows) for split, rows in folds.items()} == {"train": 1600, "valid": 200, "test": 200}
