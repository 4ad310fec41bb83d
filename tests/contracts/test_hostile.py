"""Malicious requests: every task answers them or refuses them in one line; nothing hangs, and no file is left."""

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
from served_cases import first_input, send
from task_cases import TASKS

BODIES = {
    "nothing": b"",
    "not JSON": b"{",
    "NUL": b"\0" * 100,
    "not UTF-8": b'{"inputs": ["\xff\xfe"]}',
    "half a character": b'{"inputs": ["\\ud800"]}',
    "deep": b"[" * 100_000,
    "deep and closed": b'{"inputs": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "NaN": b'{"inputs": ["a"], "options": {"seed": NaN}}',
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
JSON_HEADERS = {"Content-Type": "application/json"}
FALSE_SIZE = (2**31 - 1).to_bytes(4, "big") * 2  # width and height in the header of a PNG


@pytest.mark.parametrize("content", BODIES.values(), ids=BODIES.keys())
def test_invalid_bodies_are_refused(content: bytes, client: Any, served_runs: Any) -> None:
    for path in [*(f"/v1/{served.verbs[0]}" for served in served_runs.values()), "/v1/look", "/api/look"]:
        response = client.post(path, content=content, headers=JSON_HEADERS)
        assert response.status_code in (400, 404, 422), (path, response.text)
        assert "\n" not in response.json()["error"] and len(response.json()["error"]) < 500


def test_a_too_large_body_is_refused(client: Any, served_runs: Any) -> None:
    response = client.post("/v1/translate", content=b"x" * 12_000_001, headers=JSON_HEADERS)
    assert response.status_code == 413 and "at most 12,000,000 bytes" in response.json()["error"]


@pytest.mark.parametrize("name", TASKS)
def test_unusual_texts(name: str, served_runs: Any, client: Any) -> None:
    for text in TEXTS:
        response = send(client, served_runs[name], inputs=[text])
        assert response.status_code in (200, 422), (text, response.text)
        assert response.status_code == 200 or "\n" not in response.json()["error"]


def damaged(content: bytes) -> dict[str, bytes]:
    """Damage a file in several ways -> the files by kind of damage."""
    return {
        "empty": b"",
        "cut": content[: len(content) // 2],
        "header only": content[:20],
        "false size": content[:16] + FALSE_SIZE + content[24:],
        "inverted": content[:40] + bytes(255 - byte for byte in content[40:80]) + content[80:],
        "another format": b"GIF89a\xff\xff\xff\xff\0\0\0;",
        "MIDI": b"MThd\0\0\0\6\0\1\xff\xff\1\xe0MTrk\xff\xff\xff\xff" + b"\x90\x40" * 50,
        "empty MIDI": b"MThd\0\0\0\6\0\1\0\1\1\xe0MTrk\0\0\0\4\0\xff\x2f\0",
        "bytes": bytes(range(256)) * 4,
    }


@pytest.mark.parametrize("name", TASKS)
def test_damaged_files_are_refused_and_deleted(
    name: str,
    served_runs: Any,
    client: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = served_runs[name]
    if not served.input_suffixes:
        pytest.skip(f"{name} has no file inputs")
    raw_input = first_input(served)
    intact = base64.b64decode(raw_input["file"]) if isinstance(raw_input, dict) else b"MThd" + bytes(100)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    threads = threading.active_count()
    for damage, content in damaged(intact).items():
        for suffix in (served.input_suffixes[0], served.input_suffixes[-1]):
            upload = {"file": base64.b64encode(content).decode(), "name": f"../../a{suffix}"}
            response = send(client, served, inputs=[upload])
            assert response.status_code in (200, 422), (damage, response.text)
            assert response.status_code == 200 or "\n" not in response.json()["error"]
            assert str(tmp_path) not in response.text and "Traceback" not in response.text
    assert not any(tmp_path.iterdir()) and threading.active_count() <= threads + 40
    scheduler = client.app.state.service.schedulers[name]
    assert scheduler.queued_inputs == 0 and not scheduler._active_inputs
    assert send(client, served).status_code == 200  # the server still works
    if isinstance(raw_input, dict):  # an inspection does not expose the path of a file either
        assert str(tmp_path) not in client.post("/v1/look", json={"run": name, "input": raw_input}).text
