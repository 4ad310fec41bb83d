"""Requests that nobody means well: every task answers, or refuses them in one line; nothing hangs, nothing is left."""

from __future__ import annotations

import base64
import json
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
from test_served import BRIEF, TASKS, ask, client, first, hosted  # noqa: F401  # two of them are fixtures

BODIES = {
    "nothing": b"",
    "no JSON": b"{",
    "NUL": b"\0" * 100,
    "not UTF-8": b'{"inputs": ["\xff\xfe"]}',
    "half a character": b'{"inputs": ["\\ud800"]}',
    "deep": b"[" * 100_000,
    "deep and closed": b'{"inputs": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "no number": b'{"inputs": ["a"], "options": {"seed": NaN}}',
    "too large a number": b'{"inputs": ["a"], "options": {"seed": 1e999}}',
    "a list": b"[]",
    "null": b"null",
    "twice": b'{"inputs": ["a"], "inputs": 5}',
    "UTF-16": json.dumps({"inputs": ["a"]}).encode("utf-16"),
}
TEXTS = [
    "",
    " ",
    "\0",
    "a\0b",
    "\x1b[31m",
    "\u202e",
    "\u2028\u2029",
    "e\u0301" * 500,
    "\U0001f600" * 200,
    "\ufeff",
    "a" * 5000,
]
LYING = (2**31 - 1).to_bytes(4, "big") * 2  # the width and the height that the head of a PNG says


@pytest.mark.parametrize("content", BODIES.values(), ids=BODIES.keys())
def test_no_request_at_all(content: bytes, client: Any, hosted: Any) -> None:  # noqa: F811
    for path in [*(f"/v1/{each.verbs[0]}" for each in hosted.values()), "/v1/look", "/api/look"]:
        answer = client.post(path, content=content)
        assert answer.status_code in (400, 404), (path, answer.text)
        assert "\n" not in answer.json()["error"] and len(answer.json()["error"]) < 500


def test_too_large_a_body_is_not_read(client: Any, hosted: Any) -> None:  # noqa: F811
    answer = client.post("/v1/translate", content=b"x" * 12_000_001)
    assert answer.status_code == 413 and "at most 12,000,000 bytes" in answer.json()["error"]


@pytest.mark.parametrize("name", TASKS)
def test_strange_texts(name: str, hosted: Any, client: Any) -> None:  # noqa: F811
    for text in TEXTS:
        answer = ask(client, hosted[name], inputs=[text])
        assert answer.status_code in (200, 400), (text, answer.text)
        assert answer.status_code == 200 or "\n" not in answer.json()["error"]


def spoilt(content: bytes) -> dict[str, bytes]:
    """A file, broken in several ways."""
    return {
        "empty": b"",
        "cut": content[: len(content) // 2],
        "head alone": content[:20],
        "lying": content[:16] + LYING + content[24:],
        "turned": content[:40] + bytes(255 - byte for byte in content[40:80]) + content[80:],
        "another": b"GIF89a\xff\xff\xff\xff\0\0\0;",
        "MIDI": b"MThd\0\0\0\6\0\1\xff\xff\1\xe0MTrk\xff\xff\xff\xff" + b"\x90\x40" * 50,
        "MIDI of nothing": b"MThd\0\0\0\6\0\1\0\1\1\xe0MTrk\0\0\0\4\0\xff\x2f\0",
        "bytes": bytes(range(256)) * 4,
    }


@pytest.mark.parametrize("name", TASKS)
def test_broken_files_are_refused_and_not_kept(
    name: str,
    hosted: Any,  # noqa: F811
    client: Any,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = hosted[name]
    if not one.opens:
        pytest.skip(f"{name} takes no files")
    sent = first(one)
    whole = base64.b64decode(sent["file"]) if isinstance(sent, dict) else b"MThd" + bytes(100)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    threads = threading.active_count()
    for what, content in spoilt(whole).items():
        for suffix in (one.opens[0], one.opens[-1]):
            given = {"file": base64.b64encode(content).decode(), "name": f"../../a{suffix}"}
            answer = ask(client, one, inputs=[given])
            assert answer.status_code in (200, 400), (what, answer.text)
            assert answer.status_code == 200 or "\n" not in answer.json()["error"]
            assert str(tmp_path) not in answer.text and "Traceback" not in answer.text
    assert not any(tmp_path.iterdir()) and threading.active_count() <= threads + 40
    line = client.app.state.service.lines[name]
    assert line.waiting == 0 and not line._under_way
    assert ask(client, one).status_code == 200  # and it still answers
    if isinstance(sent, dict):  # nor does a look say where a file lies
        assert str(tmp_path) not in client.post("/v1/look", json={"run": name, "input": sent}).text
