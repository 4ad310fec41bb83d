"""Tables with quotes, newlines in cells, several delimiters, blank lines, and likely headers."""

import csv

import pytest

from regard.core.errors import DataError
from regard.data.files import tables


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def cells(path):
    return [(record.line, record.cells) for record in tables.read_records(path)]


EXCEL = 'en,ko\r\n"He said ""hi, you""\nand left.","그는 ""안녕""\n했다."\r\nb,"c,d"\r\n\r\n'
EXCEL_RECORDS = [(1, ["en", "ko"]), (2, ['He said "hi, you"\nand left.', '그는 "안녕"\n했다.']), (5, ["b", "c,d"])]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp949", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_from_excel(tmp_path, encoding, delimiter):
    text = (
        EXCEL.replace("en,ko", f"en{delimiter}ko").replace('","', f'"{delimiter}"').replace('b,"c', f'b{delimiter}"c')
    )
    assert cells(write(tmp_path / "x.csv", text, encoding)) == EXCEL_RECORDS


def test_unicode_text_from_excel_has_quotes(tmp_path):
    assert cells(write(tmp_path / "x.txt", 'a\tb\r\n"c\td"\te\r\n', "utf-16")) == [(1, ["a", "b"]), (2, ["c\td", "e"])]


def test_a_sep_line_names_the_delimiter(tmp_path):
    assert cells(write(tmp_path / "x.csv", "sep=;\na;b\nc,d;e\n")) == [(2, ["a", "b"]), (3, ["c,d", "e"])]


def test_tsv_has_no_quotes_and_blank_lines_are_skipped(tmp_path):
    path = write(tmp_path / "x.tsv", '"a\tb"\n\n \nc\td\n\t\n\n')
    assert cells(path) == [(1, ['"a', 'b"']), (4, ["c", "d"]), (5, ["", ""])]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a,b\nc,"d\ne,f\n', r"x\.csv:2: not CSV: a quotation mark in the record that starts here is never closed$"),
        ('a,b\nc,"d"e\n', r'x\.csv:2: not CSV: a quotation mark inside a quoted cell must be doubled \(""\)$'),
    ],
)
def test_invalid_csv_names_the_first_line_of_the_record(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        cells(write(tmp_path / "x.csv", text))


def test_an_unclosed_quote_does_not_read_a_large_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_CELL_CHARS", 100)
    with pytest.raises(DataError, match=r"x\.csv:1: not CSV: a quotation mark in the record that starts here is never"):
        cells(write(tmp_path / "x.csv", '"a,b\n' + "c,d\n" * 100))


def test_objects_have_their_locations(tmp_path):
    path = write(tmp_path / "x.jsonl", '{"a": 1}\n\n[2]\n')
    assert list(tables.read_jsonl(path)) == [(f"{path}:1", {"a": 1}), (f"{path}:3", [2])]
    with pytest.raises(DataError, match=r"x\.jsonl:1: not JSON: "):
        list(tables.read_jsonl(write(path, "{\n")))


PAIRS = [["Good morning.", "좋은 아침입니다."], ["Thank you.", "고마워요."], ["See you!", "또 봐요!"]]


@pytest.mark.parametrize(
    ("top", "records", "header"),
    [
        (["문장A", "문장B"], PAIRS, True),  # Hangul above Latin
        (["first", "second"], PAIRS, True),  # Latin above Hangul
        (["no", "x"], [["1", "a"], ["2", "b"]], True),  # a word above numbers
        (["source", "target"], [["a b", "c d"]], True),  # common column names
        (["Hello", "안녕하세요"], PAIRS, False),  # a pair
        (["Chapter 1", "1장"], PAIRS, False),
        (["Good night.", "안녕히 주무세요."], PAIRS, False),
        (["ein Hund", "a dog"], [["eine Katze", "a cat"], ["ein Haus", "a house"]], False),
        (["a", "a"], PAIRS, False),  # column names are distinct
        (["x", ""], PAIRS, False),
    ],
)
def test_likely_headers(top, records, header):
    assert tables.is_likely_header(top, records) == header


@pytest.mark.parametrize("options", [{}, {"quoting": csv.QUOTE_ALL}])
def test_tsv_of_pandas_is_read_with_its_quotes(tmp_path, options):
    rows = [["en", "ko"], ['He said "hello" to me.', "그가 말했다."], ["two\nlines", "둘"], ["plain, text", "글"]]
    with (tmp_path / "x.tsv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t", lineterminator="\n", **options).writerows(rows)
    assert [record.cells for record in tables.read_records(tmp_path / "x.tsv")] == rows


@pytest.mark.parametrize(
    "text",
    [
        '"He said ""hello""."\t네\n"Yes," she said.\t네\n',  # the second line is not written by a CSV writer
        '"Yes."\t네\n',  # a quotation, not a quoted cell
        '"never closed ""\t네\n',
    ],
)
def test_inconsistent_quotes_of_tsv_are_text(tmp_path, text):
    path = write(tmp_path / "x.tsv", text)
    assert [record.cells for record in tables.read_records(path)] == [line.split("\t") for line in text.splitlines()]
