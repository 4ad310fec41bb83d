"""Lines of wide encodings across blocks; most of reading is tested with the encodings."""

import io

from regard.data.files import encodings, text_files
from regard.data.files.encodings import TextFormat


def test_wide_lines_are_cut_at_whole_characters_across_blocks(monkeypatch):
    monkeypatch.setattr(encodings, "BLOCK", 8)
    text = "\u0a0a a\n\u010a\u0a01 b\n\nlast"
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-le"):
        raw = text.encode(encoding)
        parts = [part.decode(encoding) for part in text_files.split_lines(io.BytesIO(raw), TextFormat(encoding))]
        assert parts == text.splitlines(keepends=True)


def test_archives_are_not_said_to_be_texts(tmp_path):
    (tmp_path / "x.zip").write_bytes(b"PK\x03\x04\xff")
    assert text_files.encoding_remarks([tmp_path / "x.zip"]) == []
