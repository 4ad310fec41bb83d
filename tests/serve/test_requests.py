"""The JSON of a request: whatever is in it, a value or one line."""

from __future__ import annotations

import pytest

from regard.core.errors import RegardError
from regard.inspection.interventions import Interventions
from regard.serve.requests import parse_inspection_request, read_json


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "a request is JSON in UTF-8; this one is not ("),
        (b"", "a request is JSON in UTF-8; this one is not ("),
        (b'{"text": "\xff"}', "a request is JSON in UTF-8; this one is not ("),
        (b'{"text": NaN}', "NaN is no number"),
        (b"[" * 100_000, "a request is JSON; this one is nested too deeply"),
        (b'{"text": "\\ud800"}', "this one has half of a character in it (a lone surrogate)"),
        (b'{"\\udfff": 1}', "this one has half of a character in it (a lone surrogate)"),
        (b'{"temperature": ' + b"9" * 5000 + b"}", "a request is JSON in UTF-8; this one is not ("),
    ],
)
def test_what_is_no_json_is_one_line(content, said):
    with pytest.raises(RegardError) as wrong:
        read_json(content)
    assert said in str(wrong.value) and "\n" not in str(wrong.value) and len(str(wrong.value)) < 300


def test_half_a_character_is_none_and_a_whole_one_is():
    for content in (b'{"a": "\\ud800"}', b'{"\\udc00": 1}', b'["\\ud83d\\ud83d"]'):
        with pytest.raises(RegardError, match="half of a character"):
            read_json(content)
    assert read_json(b'{"a": "\\ud83d\\ude00 \\u00e9"}') == {"a": "\U0001f600 \u00e9"}


def test_numbers_that_no_machine_holds():
    body = read_json(b'{"text": "a", "temperature": 1' + b"0" * 400 + b"}")
    with pytest.raises(RegardError, match=r"temperature=1000+… must lie between 0.01 and 100"):
        parse_inspection_request(body)
    with pytest.raises(RegardError, match=r"this one is not \(Out of range float values"):
        parse_inspection_request(read_json(b'{"text": "a", "temperature": 1e400}'))


def test_long_lists_are_refused_and_long_values_cut():
    with pytest.raises(RegardError, match="off has 1001 entries; at most 1000 fit into a request"):
        parse_inspection_request({"text": "a", "off": [["x", 1]] * 1001})
    with pytest.raises(RegardError, match=r"forbid='xxx+… must be a list of \[axis, item\]"):
        parse_inspection_request({"text": "a", "forbid": "x" * 10_000})


def test_a_request():
    asked = read_json('{"text": "안녕", "off": [["m", 0]], "temperature": 2}'.encode())
    assert parse_inspection_request(asked) == ("안녕", Interventions((("m", 0),), (), 2.0))
    with pytest.raises(RegardError, match="a request is an object with a text"):
        parse_inspection_request(None)
