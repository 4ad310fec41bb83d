"""Files in a request: kept under a harmless name for as long as it is answered, and nothing else is taken for one."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from regard.core.errors import DataError
from regard.serve.uploads import Uploads, safe_name

OPENS = (".png", ".mid")
SENT = base64.b64encode(b"content").decode()


@pytest.fixture
def uploads():
    uploads = Uploads()
    yield uploads
    uploads.close()


def test_a_file_is_there_until_the_request_is_answered(uploads):
    first, second = (uploads.keep({"file": SENT, "name": "a.png"}, OPENS, "input 1") for _ in range(2))
    assert first.read_bytes() == b"content" and first != second and first.name == second.name == "a.png"
    assert uploads.plain(f"{first}: damaged") == "a.png: damaged" and uploads.plain("as it is") == "as it is"
    assert uploads.keep({"file": SENT}, OPENS, "input 1").name == "upload.png"
    uploads.close()
    assert not first.exists() and not first.parent.parent.exists()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("/etc/passwd", r"input 1 is a file \(.png, .mid\), never where one lies on the server; send it as"),
        ({"path": "/etc/passwd"}, "input 1 is a file"),
        ({"file": SENT, "path": "x"}, "input 1 is a file"),
        ({"file": 5}, "input 1 is a file"),
        ({"file": SENT, "name": 5}, "input 1: the name of a file is a text"),
        ({"file": SENT, "name": "a.exe"}, "input 1: 'a.exe' ends in none of .png, .mid"),
        ({"file": "%%%", "name": "a.png"}, "input 1: a.png is not base64"),
    ],
)
def test_anything_else_is_one_line(uploads, value, said):
    with pytest.raises(DataError, match=said):
        uploads.keep(value, OPENS, "input 1")


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
def test_a_name_leads_nowhere(name, safe):
    assert safe_name(name) == safe and len(Path(safe).parts) == 1
