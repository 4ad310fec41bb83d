"""Encodings are detected by BOM, zeros, validity and common syllables; others are an error with a command."""

import gzip

import pytest

from regard.core.errors import DataError
from regard.data.files import encodings, text_files
from regard.data.files.encodings import UnknownEncoding, detect

KOREAN = "영어,한국어\nGood morning,좋은 아침입니다\n"
UNSUPPORTED = {
    "latin-1": "été\tsummer\nFür\tfor\n",
    "gb18030": "我们今天去学校学习中文\twe go to school\n这是一个非常好的机会，大家都应该参加\tgood\n",
    "shift_jis": "こんにちは世界\thello\n私は学校に行きます\tI go\n",
    "euc-jp": "こんにちは世界\thello\n私は学校に行きます\tI go\n",
    "big5": "你好世界我們今天去學校\thello\n",
}


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        *[("utf-8", "UTF-8"), ("utf-8-sig", "UTF-8"), ("cp949", "CP949"), ("euc-kr", "CP949")],
        *[("utf-16", "UTF-16"), ("utf-16-le", "UTF-16"), ("utf-16-be", "UTF-16"), ("utf-32", "UTF-32-LE")],
    ],
)
def test_korean_is_read_in_every_encoding_with_every_newline(tmp_path, encoding, name, newline):
    path = tmp_path / "x.csv"
    path.write_bytes(KOREAN.replace("\n", newline).encode(encoding))
    assert list(text_files.read_lines(path)) == KOREAN.splitlines() and text_files.detect_format(path).name == name
    assert text_files.encoding_remarks([path]) == ([] if name == "UTF-8" else [f"{path}: read as {name}"])
    compressed = tmp_path / "x.csv.gz"
    compressed.write_bytes(gzip.compress(path.read_bytes()))
    assert list(text_files.read_lines(compressed)) == KOREAN.splitlines()
    assert text_files.read_text(path) == KOREAN == text_files.decode_text(path.read_bytes(), "x")


@pytest.mark.parametrize("encoding", UNSUPPORTED)
def test_an_unknown_encoding_is_an_error_with_a_command(encoding):
    message = (
        r"^my file\.txt: not UTF-8 \(byte 0x.. in line 1\), and the encoding cannot be detected; convert it with "
        r"its encoding in place of LATIN1 \(SHIFT_JIS, GB18030, …\): iconv -f LATIN1 -t UTF-8 'my file.txt' > "
        r"'my file.utf8.txt'$"
    )
    with pytest.raises(UnknownEncoding, match=message):
        detect([UNSUPPORTED[encoding].encode(encoding)], "my file.txt")


def test_few_words_are_sufficient():
    assert detect(["사과\tapple\n바퀴벌레\tcockroach\n".encode("cp949")], "x").encoding == "cp949"


def test_korean_after_much_ascii_is_detected():
    blocks = [b"plain text\n" * 1000, b"more\n" * 1000, "한국어 문장이 있습니다\n".encode("cp949")]
    assert detect(blocks, "x").encoding == "cp949"
    assert detect([*blocks[:2], "한국어 문장이 있습니다\n".encode()], "x").encoding == "utf-8"


def test_a_character_across_two_blocks_is_valid():
    raw = "한국어 문장이 있습니다\n".encode() * 3
    assert detect([raw[:1], raw[1:40], raw[40:]], "x").encoding == "utf-8"


def test_damaged_utf8_is_utf8(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes("좋은 아침입니다\n".encode() * 5 + b"caf\xe9\n" + "나쁜 아침\n".encode("cp949"))
    assert text_files.detect_format(path).encoding == "utf-8"
    lines = text_files.read_lines(path)
    assert [next(lines) for _ in range(5)] == ["좋은 아침입니다"] * 5
    with pytest.raises(DataError, match=r"x\.txt:6: not UTF-8: byte 4 of the line is 0xe9; fix or remove the line$"):
        next(lines)
    raw = path.read_bytes().splitlines()[-1]
    with pytest.raises(DataError, match=r"^x:7: not UTF-8: .*; it looks like CP949: are two encodings mixed\?$"):
        text_files.decode_line(raw, encodings.UTF8, "x:7")


@pytest.mark.parametrize("content", [b"a\tb\nc\0\td\n", b"one line\nanother \0 line\n" * 9])
def test_nul_bytes_are_an_error_and_not_utf16(tmp_path, content):
    path = tmp_path / "x.tsv"
    path.write_bytes(content)
    message = rf"x\.tsv:2: the text contains a NUL byte; remove such bytes: tr -d '\\000' < {path} > clean\.txt$"
    with pytest.raises(DataError, match=message):
        list(text_files.read_lines(path))


def test_a_changed_file_is_detected_again(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes("한국어 문장입니다".encode("cp949"))
    assert list(text_files.read_lines(path)) == ["한국어 문장입니다"]
    path.write_bytes("한국어 문장입니다.".encode())
    assert list(text_files.read_lines(path)) == ["한국어 문장입니다."]


def test_missing_empty_and_damaged_files_are_an_error(tmp_path):
    for read in (lambda path: list(text_files.read_lines(path)), text_files.read_text):
        with pytest.raises(DataError, match=r"none: no such file$"):
            read(tmp_path / "none")
        (tmp_path / "empty").write_bytes(b"")
        with pytest.raises(DataError, match=r"empty: the file is empty$"):
            read(tmp_path / "empty")
        (tmp_path / "x.gz").write_bytes(b"\x1f\x8b\x08\x00")
        with pytest.raises(DataError, match=r"x\.gz: cannot be read: "):
            read(tmp_path / "x.gz")


def test_utf16_characters_may_contain_the_byte_of_a_newline():
    """U+0A0A has two bytes that are \\n, but is not a newline."""
    text = "\u0a0a a\n\u010a\u0a01 b\n"
    for encoding in ("utf-16", "utf-16-be"):
        raw = text.encode(encoding)
        assert text_files.decode_text(raw, "x") == text
