"""The JSON of a request: bytes -> a text and changes, or one clear line."""

from __future__ import annotations

import json
import math
from typing import Any

from regard.core.errors import RegardError
from regard.inspection.whatif import Changes

MOST = 1000  # heads switched off, or items forbidden, in one request
ESCAPE = "\\u"  # what half a character must be written with: bytes that are UTF-8 have none


def read_json(content: bytes) -> Any:
    """Bytes -> plain values. Half a character (a surrogate by itself) is no text, and NaN no number."""
    try:
        text = content.decode()
        body = _DECODER.decode(text)
        if ESCAPE in text:
            json.dumps(body, ensure_ascii=False).encode()
    except RecursionError:
        raise RegardError("a request is JSON; this one is nested too deeply") from None
    except UnicodeEncodeError:
        raise RegardError("a request is JSON; this one has half of a character in it (a lone surrogate)") from None
    except ValueError as wrong:
        raise RegardError(f"a request is JSON in UTF-8; this one is not ({str(wrong)[:200]})") from None
    return body


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("Out of range float values are not JSON")
    return number


_DECODER = json.JSONDecoder(parse_constant=_constant, parse_float=_finite)  # made once, not for each request


def read_request(body: Any) -> tuple[str, Changes]:
    """The JSON of a request -> its text and changes; anything else is one clear line."""
    if not isinstance(body, dict) or not isinstance(body.get("text"), str):
        raise RegardError(
            'a request is an object with a text: {"text": "…", "off": [], "forbid": [], "temperature": 1}'
        )
    off, forbid = _pairs(body, "off", "[attention module, head]"), _pairs(body, "forbid", "[axis, item]")
    temperature = body.get("temperature", 1)
    if isinstance(temperature, bool) or not isinstance(temperature, int | float):
        raise RegardError(f"temperature={_short(temperature)} must be a number")
    try:
        return body["text"], Changes(off, forbid, float(temperature))
    except OverflowError:
        raise RegardError(f"temperature={_short(temperature)} must lie between 0.01 and 100") from None


def _pairs(body: dict[str, Any], name: str, kind: str) -> tuple[tuple[str, int], ...]:
    """A list of [name, number] in a request."""
    pairs = body.get(name, [])
    if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
        raise RegardError(f"{name}={_short(pairs)} must be a list of {kind}")
    if len(pairs) > MOST:
        raise RegardError(f"{name} has {len(pairs)} entries; at most {MOST} fit into a request")
    return tuple((first, number) for first, number in pairs)


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and type(pair[1]) is int


def _short(value: Any) -> str:
    """A value as it was given, cut where it is long."""
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:80]}…"
