"""Excel workbooks in every reader of tables."""

import zipfile
from datetime import datetime

import pytest

from regard.core.errors import DataError
from regard.data.captions import files as caption_files
from regard.data.checks import report
from regard.data.files import spreadsheets, tables
from regard.data.ratings import tables as rating_tables
from regard.data.text import document_files, pair_files, plain_text
from regard.data.text.document_files import Layout
from regard.data.text.pair_files import DEFAULT_LANGUAGES

openpyxl = pytest.importorskip("openpyxl")


def write(path, *sheets):
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    for number, rows in enumerate(sheets):
        sheet = workbook.create_sheet(f"Sheet{number + 1}")
        for row in rows:
            sheet.append(row)
    workbook.save(path)
    return path


def test_cells_are_text_and_blank_rows_are_skipped(tmp_path):
    rows = [["id", "text", "when"], [1, "하나", datetime(2018, 5, 1, 9)], [None, None, None], [2.5, True, None]]
    records = list(tables.read_records(write(tmp_path / "x.xlsx", rows, [])))
    assert [(record.line, record.cells) for record in records] == [
        (1, ["id", "text", "when"]),
        (2, ["1", "하나", "2018-05-01 09:00:00"]),
        (4, ["2.5", "true", ""]),
    ]


def test_every_reader_of_tables_reads_workbooks(tmp_path):
    pairs = write(tmp_path / "pairs.xlsx", [["en", "ko"], ["Yes.", "네."], ["No.", "아니요."], ["Hi.", "안녕."]])
    assert next(iter(pair_files.read(pairs, DEFAULT_LANGUAGES)["train"])) == ("Yes.", "네.")
    assert report.examine(pairs).command == f"regard train translation data.path={pairs}"
    reviews = write(tmp_path / "reviews.xlsx", [["label", "text"], [1, "good"], [0, "bad"]])
    assert [document.labels for document in document_files.read(reviews, Layout())["train"]] == [("1",), ("0",)]
    assert list(plain_text._from_path(f"{reviews}#text")["train"]) == ["good", "bad"]
    captions = write(tmp_path / "captions.xlsx", [["image", "caption"], ["a.jpg", "a dog"]])
    assert caption_files.read(captions)[0].text == "a dog"
    ratings = write(tmp_path / "ratings.xlsx", [["user", "item", "rating"], ["u1", 7, 5]])
    assert rating_tables.read(ratings).columns == {"user": ["u1"], "item": ["7"], "rating": ["5"]}


def test_two_sheets_damaged_files_and_bombs_are_errors(tmp_path, monkeypatch):
    two = write(tmp_path / "two.xlsx", [["a"]], [["b"]])
    with pytest.raises(DataError, match=r"two\.xlsx: 2 sheets have data \(Sheet1, Sheet2\); keep one sheet, or save"):
        list(tables.read_records(two))
    with pytest.raises(DataError, match=r"empty\.xlsx: the workbook is empty$"):
        list(tables.read_records(write(tmp_path / "empty.xlsx", [])))
    (tmp_path / "x.xlsx").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"x\.xlsx: not a workbook that can be read \(.*\); save it as CSV UTF-8$"):
        list(tables.read_records(tmp_path / "x.xlsx"))
    with zipfile.ZipFile(tmp_path / "y.xlsx", "w") as archive:
        archive.writestr("a.txt", "x")
    with pytest.raises(DataError, match=r"y\.xlsx: not a workbook that can be read"):
        list(tables.read_records(tmp_path / "y.xlsx"))
    monkeypatch.setattr(spreadsheets, "MAX_BYTES", 10)
    with pytest.raises(DataError, match=r"two\.xlsx: [\d,]+ bytes when unpacked; the limit is 10; save it as CSV"):
        list(tables.read_records(two))
