"""Tables as people keep them: quotes, line breaks, delimiters, blank lines, and first lines that look like headers."""

import pytest

from regard.core.errors import DataError
from regard.data.files import tables


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def cells(path):
    return [(record.line, record.cells) for record in tables.read_records(path)]


EXCEL = 'en,ko\r\n"He said ""hi, you""\nand left.","그는 ""안녕""\n했다."\r\nb,"c,d"\r\n\r\n'
READ = [(1, ["en", "ko"]), (2, ['He said "hi, you"\nand left.', '그는 "안녕"\n했다.']), (5, ["b", "c,d"])]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp949", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_as_excel_writes_it(tmp_path, encoding, delimiter):
    text = (
        EXCEL.replace("en,ko", f"en{delimiter}ko").replace('","', f'"{delimiter}"').replace('b,"c', f'b{delimiter}"c')
    )
    assert cells(write(tmp_path / "x.csv", text, encoding)) == READ


def test_unicode_text_of_excel_is_a_table_with_quotes(tmp_path):
    assert cells(write(tmp_path / "x.txt", 'a\tb\r\n"c\td"\te\r\n', "utf-16")) == [(1, ["a", "b"]), (2, ["c\td", "e"])]


def test_a_line_that_tells_excel_the_delimiter(tmp_path):
    assert cells(write(tmp_path / "x.csv", "sep=;\na;b\nc,d;e\n")) == [(2, ["a", "b"]), (3, ["c,d", "e"])]


def test_quotes_of_tsv_are_text_and_blank_lines_are_nothing(tmp_path):
    path = write(tmp_path / "x.tsv", '"a\tb"\n\n \nc\td\n\t\n\n')
    assert cells(path) == [(1, ['"a', 'b"']), (4, ["c", "d"]), (5, ["", ""])]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a,b\nc,"d\ne,f\n', r"x\.csv:2: not CSV: a quotation mark in the record that begins here is never closed$"),
        ('a,b\nc,"d"e\n', r'x\.csv:2: not CSV: a quotation mark inside a quoted cell must be doubled \(""\)$'),
    ],
)
def test_broken_csv_is_named_by_the_line_where_the_record_begins(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        cells(write(tmp_path / "x.csv", text))


def test_a_quote_that_is_never_closed_does_not_swallow_a_large_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "LONGEST_CELL", 100)
    with pytest.raises(DataError, match=r"x\.csv:1: not CSV: a quotation mark in the record that begins here is never"):
        cells(write(tmp_path / "x.csv", '"a,b\n' + "c,d\n" * 100))


def test_objects_have_their_places(tmp_path):
    path = write(tmp_path / "x.jsonl", '{"a": 1}\n\n[2]\n')
    assert list(tables.read_jsonl(path)) == [(f"{path}:1", {"a": 1}), (f"{path}:3", [2])]
    with pytest.raises(DataError, match=r"x\.jsonl:1: not JSON: "):
        list(tables.read_jsonl(write(path, "{\n")))


PAIRS = [["Good morning.", "좋은 아침입니다."], ["Thank you.", "고마워요."], ["See you!", "또 봐요!"]]


@pytest.mark.parametrize(
    ("top", "others", "header"),
    [
        (["문장A", "문장B"], PAIRS, True),  # Hangul above Latin
        (["first", "second"], PAIRS, True),  # Latin above Hangul
        (["no", "x"], [["1", "a"], ["2", "b"]], True),  # a word above numbers
        (["source", "target"], [["a b", "c d"]], True),  # names that columns often have
        (["Hello", "안녕하세요"], PAIRS, False),  # a pair
        (["Chapter 1", "1장"], PAIRS, False),
        (["Good night.", "안녕히 주무세요."], PAIRS, False),
        (["ein Hund", "a dog"], [["eine Katze", "a cat"], ["ein Haus", "a house"]], False),
        (["a", "a"], PAIRS, False),  # columns have different names
        (["x", ""], PAIRS, False),
    ],
)
def test_what_looks_like_a_header(top, others, header):
    assert tables.is_likely_header(top, others) == header
