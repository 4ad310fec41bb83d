"""Lines of UTF-16 and UTF-32 across blocks; other tests of reading are in test_encodings.py."""

import gzip
import io

import pytest

from regard.core.errors import DataError
from regard.data.files import encodings, text_files
from regard.data.files.encodings import TextFormat


def test_utf16_lines_are_split_at_entire_characters_across_blocks(monkeypatch):
    monkeypatch.setattr(encodings, "BLOCK_BYTES", 8)
    text = "\u0a0a a\n\u010a\u0a01 b\n\nlast"
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-le"):
        raw = text.encode(encoding)
        parts = [part.decode(encoding) for part in text_files.split_lines(io.BytesIO(raw), TextFormat(encoding))]
        assert parts == text.splitlines(keepends=True)


def test_archives_have_no_encoding_remark(tmp_path):
    (tmp_path / "x.zip").write_bytes(b"PK\x03\x04\xff")
    assert text_files.encoding_remarks([tmp_path / "x.zip"]) == []


def test_a_small_file_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(text_files, "MAX_TEXT_BYTES", 5000)
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"a" * 10_000))
    with pytest.raises(DataError, match=r"a line has more than 1,000 bytes after unpacking; split it"):
        list(text_files.read_lines(path))
    with pytest.raises(DataError, match=r"the text has more than 5,000 bytes after unpacking; split it"):
        text_files.read_text(path)
    path.write_bytes(gzip.compress(b"a\n" * 400))
    assert len(list(text_files.read_lines(path))) == 400
