"""Uploaded files: stored under a safe name until the request is answered."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from regard.core.errors import DataError
from regard.serve.uploads import Uploads, safe_name

SUFFIXES = (".png", ".mid")
CONTENT = base64.b64encode(b"content").decode()


@pytest.fixture
def uploads():
    uploads = Uploads()
    yield uploads
    uploads.close()


def test_a_file_exists_until_close(uploads):
    first, second = (uploads.save({"file": CONTENT, "name": "a.png"}, SUFFIXES, "input 1") for _ in range(2))
    assert first.read_bytes() == b"content" and first != second and first.name == second.name == "a.png"
    assert (
        uploads.with_client_names(f"{first}: damaged") == "a.png: damaged"
        and uploads.with_client_names("unchanged") == "unchanged"
    )
    assert uploads.save({"file": CONTENT}, SUFFIXES, "input 1").name == "upload.png"
    uploads.close()
    assert not first.exists() and not first.parent.parent.exists()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("/etc/passwd", r"input 1: must be a file \(.png, .mid\), not a path on the server; send it as"),
        ({"path": "/etc/passwd"}, "input 1: must be a file"),
        ({"file": CONTENT, "path": "x"}, "input 1: must be a file"),
        ({"file": 5}, "input 1: must be a file"),
        ({"file": CONTENT, "name": 5}, "input 1: the name of a file must be a text"),
        ({"file": CONTENT, "name": "a.exe"}, "input 1: 'a.exe' does not end in .png, .mid"),
        ({"file": "%%%", "name": "a.png"}, "input 1: a.png is not base64"),
    ],
)
def test_other_values_are_a_one_line_error(uploads, value, message):
    with pytest.raises(DataError, match=message):
        uploads.save(value, SUFFIXES, "input 1")


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/a.png", "a.png"),
        ("C:\\windows\\a.png", "a.png"),
        ("a\0b\n.png", "a_b_.png"),
        ("...png", "png"),
        ("한국.png", "한국.png"),
        ("x" * 500 + ".png", "x" * 80 + ".png"),
        (".hidden.png", "hidden.png"),
    ],
)
def test_a_safe_name_has_no_folder(name, safe):
    assert safe_name(name) == safe and len(Path(safe).parts) == 1
