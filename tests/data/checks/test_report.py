"""The report of `regard data check`: what is read, each message once, and a command that works."""

import json

import pytest

from regard.core.errors import RegardError
from regard.data.checks import report
from regard.data.checks.detect_layout import LAYOUTS


def test_a_folder_of_several_tables_says_so(tmp_path):
    for part in (1, 2):
        rows = "".join(f"Sentence {part} {i}.,문장 {part} {i}입니다.\n" for i in range(10))
        (tmp_path / f"part{part}.csv").write_text(f"en,ko\n{rows}", encoding="utf-8")
    assert report.examine(tmp_path).lines == [
        f"{tmp_path}: sentence pairs",
        "2 files, 20 pairs",
        "columns: en -> ko",
        "first pair: Sentence 1 0. / 문장 1 0입니다.",
    ]


def test_keys_that_do_not_name_the_languages_are_one_finding(tmp_path):
    path = tmp_path / "chat.jsonl"
    rows = [
        json.dumps({"id": i, "질문": f"질문 {i}번", "답변": f"대답 {i}번"}, ensure_ascii=False) for i in range(3000)
    ]
    path.write_text("\n".join(rows), encoding="utf-8")
    (finding,) = report.examine(path).findings
    assert finding.text.startswith(
        "the keys id, 질문, 답변 do not name en and ko; set data.source=질문 data.target=답변"
    )
    assert "3,000 times" in finding.text
    options = {"source": "질문", "target": "답변"}
    assert report.examine(path, options=options).findings == []


def test_a_constant_column_is_not_the_label(tmp_path):
    path = tmp_path / "stars.csv"
    rows = "".join(f"2024-05-01,This film was number {i} for me,{i % 5 + 1}\n" for i in range(100))
    path.write_text(f"date,text,stars\n{rows}", encoding="utf-8")
    result = report.examine(path)
    assert result.findings == []
    assert result.command == f"regard train classification data.path={path} data.label=stars data.text=text"
    assert "columns: text text, label stars" in result.lines


def test_music_and_plain_text_have_a_command(tmp_path):
    (tmp_path / "midi").mkdir()
    for i in range(3):
        (tmp_path / "midi" / f"{i}.mid").write_bytes(b"MThd")
    result = report.examine(tmp_path / "midi")
    assert result.lines == [f"{tmp_path / 'midi'}: music", "music: 3 MIDI files"]
    assert result.command == f"regard train music data.path={tmp_path / 'midi'}" and result.findings == []
    book = tmp_path / "book.txt"
    book.write_text("Once upon a time there was a line.\n" * 30, encoding="utf-8")
    result = report.examine(book)
    assert result.findings == [] and result.command == f"regard train language data.paths={book}"
    assert result.lines == [
        f"{book}: plain text",
        "1 file, 1,050 characters",
        "first line: Once upon a time there was a line.",
    ]


def test_cells_that_look_quoted_are_a_warning(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text('en\tko\n"He said ""hello""."\t네\n"Yes," she said.\t네\nNo.\t아니요\n', encoding="utf-8")
    assert [str(finding) for finding in report.examine(path).findings] == [
        f"{path}:2: warning: a cell looks quoted, but quotation marks are read as text; other cells are not quoted"
    ]


ODD_FILES = {
    "empty": "",
    "blank lines": "\n \r\n\n",
    "byte order mark": "\ufeff",
    "header of pairs": "en,ko\n",
    "header of documents": "text,label\r\n",
    "header of ratings": "user;item;rating;time\n",
    "one row": "text,label\nGood,pos\n",
    "one cell": "x",
    "equal names": "text,text,label\n" + "a film,b film,x\nc film,d film,y\n" * 20,
    "ragged rows": "en,ko\na\nb,c,d\n\n,,,\n",
    "JSON of another kind": "[1, 2]\nnull\n3\n",
    "JSON without texts": '{"a": 1}\n{}\n{"en": null, "ko": []}\n',
    "JSON with another translation": '{"translation": 3}\n{"translation": {"en": "a"}}\n',
    "no words": '"\n\t\t\n;;;\n',
}


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "txt"])
@pytest.mark.parametrize("content", ODD_FILES.values(), ids=ODD_FILES)
def test_every_odd_file_has_a_report_or_an_error_of_one_line(tmp_path, content, suffix):
    path = tmp_path / f"odd file.{suffix}"
    path.write_bytes(content.encode())
    for layout in ("auto", *LAYOUTS):
        try:
            messages = [str(finding) for finding in report.examine(path, layout).findings]
        except RegardError as error:
            messages = [str(error)]
        assert all("\n" not in message for message in messages), layout
