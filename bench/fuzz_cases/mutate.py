"""Random corruption of bytes, JSON and texts, with a fixed seed."""

from __future__ import annotations

import json
import random
from typing import Any

from fuzz_cases import CANARY

NUMBERS: list[Any] = [
    *(0, -1, 1, 2, 255, 65536, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**18, 10**400),
    *(0.0, -0.0, 0.5, 1e-320, 1e38, 1e39, 1e308, -1e308, float("nan"), float("inf"), float("-inf")),
]
TEXTS = [
    *("", " ", "\0", "a\0b", "\n", "\r", "\ufeff", "\ud800", "\udfff", "\u202e", "\u2028", "e\u0301" * 40, "가", "각"),
    *("../outside/file", "../../outside", "/etc/passwd", "..", ".", "~", "C:\\x", "a/b", "con", "x" * 300, "/dev/zero"),
    *("\x1b[31mred", "[bold]x[/]", "[/]", "{0}", "%s", "<script>alert(1)</script>", "${HOME}", "`id`", "'; --"),
    *(CANARY, f"{CANARY}.part", "os.path", "hf:x/y", "http://127.0.0.1:9/x", "true", "null", "NaN", "1e400", "٣", "²"),
    *(
        "x" * 5000,
        "word " * 2000,
        "\U0001f600" * 500,
        "ａ",
        "İ",
        "ß",
        "ﬁ",
        "\u0000\u0001\u0002",
        "-",
        "--help",
        "=",
        "#",
    ),
]
BYTES = [b"\0", b"\xff", b"\xfe\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\n\n", b"\t", b'"', b",", b"\x80"]
SIZES = [b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x80\0\0\0", b"\0\0\1\0"]


def value(rng: random.Random, depth: int = 0) -> Any:
    """Return a problematic JSON value."""
    choice = rng.random()
    if choice < 0.4:
        return rng.choice(NUMBERS)
    if choice < 0.75 or depth > 2:
        return rng.choice(TEXTS)
    if choice < 0.85:
        return rng.choice([None, True, False])
    items = [value(rng, depth + 1) for _ in range(rng.choice([0, 1, 3, 40]))]
    return items if choice < 0.93 else {rng.choice(TEXTS)[:50]: item for item in items}


def deep(rng: random.Random) -> str:
    """Return deeply nested JSON."""
    count = rng.choice([50, 1000, 100_000])
    return rng.choice(["[" * count, "[" * count + "]" * count, '{"a":' * count])


def tree(rng: random.Random, table: Any) -> str:
    """Change one node of a JSON tree; return a description."""
    path, node = "", table
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return f"{path} (nothing to change)"
        key = rng.choice(keys)
        inner = node[key]
        path += f".{str(key)[:30]}"
        if isinstance(inner, dict | list) and inner and rng.random() < 0.8:
            node = inner
            continue
        action = rng.random()
        if action < 0.12:
            del node[key]
            return f"{path} deleted"
        if action < 0.2 and isinstance(node, dict):
            node[rng.choice(TEXTS)] = node.pop(key)
            return f"{path} renamed"
        node[key] = _like(rng, inner) if action < 0.6 else value(rng)
        return f"{path} = {str(node[key])[:40]!r}"


def _like(rng: random.Random, old: Any) -> Any:
    """Return a value of the same type, which a type check accepts."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return rng.choice([value_ for value_ in NUMBERS if isinstance(value_, int)])
    if isinstance(old, float):
        return rng.choice([value_ for value_ in NUMBERS if isinstance(value_, float)])
    return rng.choice(TEXTS) if isinstance(old, str) else value(rng)


def as_json(rng: random.Random, table: Any) -> bytes:
    """Encode a table as JSON, sometimes in an unusual form."""
    text = json.dumps(table, ensure_ascii=rng.random() < 0.7)
    if rng.random() < 0.03:
        text = deep(rng)
    encoding = rng.choices(["utf-8", "utf-16", "utf-8-sig", "latin-1"], [90, 3, 4, 3])[0]
    return text.encode(encoding, errors="replace" if encoding == "latin-1" else "surrogatepass")


def data(rng: random.Random, content: bytes) -> bytes:
    """Change, delete, repeat or insert a few bytes."""
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 8, 40])):
        at, size = rng.randrange(len(changed) + 1), rng.choice([1, 1, 2, 4, 16, 200])
        kind = rng.randrange(8)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del changed[at : at + size]
        elif kind == 2:
            changed[at:at] = rng.choice(BYTES)
        elif kind == 3:
            changed[at : at + 4] = rng.choice(SIZES)
        elif kind == 4:
            changed[at:at] = changed[at : at + size] * rng.choice([1, 2, 50])
        elif kind == 5:
            changed[at : at + size] = rng.randbytes(size)
        elif kind == 6:
            changed[at:at] = rng.choice(TEXTS).encode("utf-8", errors="surrogatepass")
        elif rng.random() < 0.2:
            del changed[at:]
    return bytes(changed)


def text(rng: random.Random, sentence: str) -> str:
    """Return a sentence with unusual parts."""
    parts = [sentence] if rng.random() < 0.7 else []
    for _ in range(rng.choice([1, 1, 2, 5])):
        strange = rng.choice(TEXTS)
        if rng.random() < 0.2:
            strange = "".join(chr(rng.randrange(0x110000)) for _ in range(rng.choice([1, 5, 60])))
        parts.insert(rng.randrange(len(parts) + 1), strange)
    joined = rng.choice(["", " ", "\t", "\n"]).join(parts)
    return joined * rng.choice([1, 1, 1, 1, 30, 300]) if len(joined) < 100 else joined
