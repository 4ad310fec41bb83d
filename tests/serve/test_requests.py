"""The parser of request bodies: every body gives a valid request or a one-line error."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard.core.errors import ConfigError, RegardError
from regard.decoding.strategies import greedy
from regard.decoding.strategy import DecodingStrategy
from regard.inspection.interventions import Interventions
from regard.serve import requests
from regard.serve.model_runtime import ServedRun
from regard.serve.requests import OptionSchema, parse_decoding, parse_inspection_request, read_json


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "the request is not JSON in UTF-8 ("),
        (b"", "the request is not JSON in UTF-8 ("),
        (b'{"text": "\xff"}', "the request is not JSON in UTF-8 ("),
        (b'{"text": NaN}', "NaN is not a number"),
        (b"[" * 100_000, "the request is nested too deeply"),
        (b'{"text": "\\ud800"}', "the request contains half of a character (a lone surrogate)"),
        (b'{"\\udfff": 1}', "the request contains half of a character (a lone surrogate)"),
        (b'["\\ud83d\\ud83d"]', "the request contains half of a character (a lone surrogate)"),
        (b'{"temperature": ' + b"9" * 5000 + b"}", "the request is not JSON in UTF-8 ("),
    ],
)
def test_invalid_json_is_a_one_line_error(content, message):
    with pytest.raises(RegardError) as error:
        read_json(content)
    assert message in str(error.value) and "\n" not in str(error.value) and len(str(error.value)) < 300


def test_escaped_characters_are_read():
    assert read_json(b'{"a": "\\ud83d\\ude00 \\u00e9"}') == {"a": "\U0001f600 \u00e9"}


def test_out_of_range_numbers_are_refused():
    body = read_json(b'{"text": "a", "temperature": 1' + b"0" * 400 + b"}")
    with pytest.raises(RegardError, match=r"temperature=1000+…: must be between 0.01 and 100"):
        parse_inspection_request(body)
    with pytest.raises(RegardError, match=r"not JSON in UTF-8 \(Out of range float values"):
        read_json(b'{"text": "a", "temperature": 1e400}')


def test_long_lists_are_refused_and_long_values_cut():
    with pytest.raises(RegardError, match="disabled_heads: has 1001 entries; at most 1000 are allowed"):
        parse_inspection_request({"text": "a", "disabled_heads": [["x", 1]] * 1001})
    with pytest.raises(RegardError, match=r"hidden_items='xxx+…: must be a list of \[axis, item\]"):
        parse_inspection_request({"text": "a", "hidden_items": "x" * 10_000})


def test_an_inspection_request():
    body = read_json('{"text": "안녕", "disabled_heads": [["m", 0]], "temperature": 2}'.encode())
    assert parse_inspection_request(body) == ("안녕", Interventions((("m", 0),), (), 2.0), None, {})
    assert parse_inspection_request({"text": "a", "options": {"n": 2}}).options == {"n": 2}
    with pytest.raises(ConfigError, match=r"^options: must be an object of names and values$"):
        parse_inspection_request({"text": "a", "options": [2]})
    with pytest.raises(RegardError, match="a request is an object with a text"):
        parse_inspection_request(None)


@pytest.mark.parametrize(("old", "new"), [("off", "disabled_heads"), ("forbid", "hidden_items")])
def test_an_old_field_is_refused_with_its_new_name(old, new, served_runs):
    message = f"the field '{old}' was renamed; use '{new}'"
    with pytest.raises(RegardError, match=message):
        parse_inspection_request({"text": "a", old: []})
    with pytest.raises(RegardError, match=message):
        requests.parse_look_request({"input": "a", "run": "en-ko", old: []}, served_runs)


def test_renamed_options_and_decoding_settings_are_refused_with_the_new_name(served_runs):
    served = served_runs[0]  # translation
    with pytest.raises(ConfigError, match=r"^options\.nbest was renamed; write options\.n$"):
        requests.parse_options(requests.options_schema(served), {"nbest": 2}, "options")
    for decoding, message in (
        ({"name": "beam", "width": 5}, r"^decoding\.width was renamed; write decoding\.beam_width$"),
        ("prefix", "^decoding=prefix was renamed; write decoding=forced_prefix$"),
    ):
        with pytest.raises(ConfigError, match=message):
            requests.parse_decoding(served, decoding)


def test_the_input_of_a_look_request_is_a_text_or_a_file(served_runs):
    file = {"file": "AAAA", "name": "a.png"}
    for raw_input, text, upload in (("a", "a", None), (file, "a.png", file), ({"file": "AAAA"}, "file", None)):
        served, request = requests.parse_look_request({"run": "other", "input": raw_input}, served_runs)
        assert served is served_runs[1] and request == (text, Interventions(), upload or request.upload, {})
    assert request.upload == {"file": "AAAA"}


@dataclass(frozen=True)
class Options:
    class_: str = ""
    count: int = 2
    nbest: int = 1
    heat: float | None = None
    seed: int = 1
    how: str = "a"
    like: tuple[str, ...] = ()
    prompt: Path | None = None


SCHEMA = OptionSchema(Options, {"count": "how many"}, {"count": 5}, (".mid",))


def test_values_are_converted_to_the_dataclass():
    values = {"class": "cat", "count": 5, "heat": 1, "like": ["Bach"], "prompt": Path("a.mid"), "seed": 2**40}
    assert requests.parse_options(SCHEMA, values, "options") == Options(
        "cat", 5, 1, 1.0, 2**40, "a", ("Bach",), Path("a.mid")
    )
    assert requests.parse_options(SCHEMA, {"prompt": None}, "options") == Options()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cuont": 1}, "options: no setting 'cuont'; did you mean 'count'?"),
        ({"class_": "x"}, "options: no setting 'class_'; did you mean 'class'?"),
        ({"prompt": "/etc/passwd"}, "options.prompt: must be a file; send its content, not its path"),
        ({"count": 6}, "options.count=6: at most 5 is allowed in a request"),
        ({"nbest": -33}, "options.nbest=-33: at most 32 is allowed in a request"),
        ({"heat": float("inf")}, "options.heat: is not a finite number"),
        ({"class": "x" * 100_001}, "options.class: has 100,001 characters; at most 100,000 are allowed"),
        ({"like": ["x"] * 1001}, "options.like: has 1,001 entries; at most 1,000 are allowed"),
    ],
)
def test_invalid_or_too_large_options_are_a_one_line_error(values, message):
    with pytest.raises(ConfigError) as error:
        requests.parse_options(SCHEMA, values, "options")
    assert str(error.value) == message


def test_a_value_of_the_wrong_type_is_a_one_line_error():
    with pytest.raises(ConfigError, match=r"options\.count: .*'many'"):
        requests.parse_options(SCHEMA, {"count": "many"}, "options")


def test_descriptions_are_the_comments_of_the_fields():
    from regard.decoding.strategies.beam import Config

    assert requests.decoding_schema("beam").descriptions["beam_width"]
    assert requests.schema_of("regard.decoding.strategies", "elsewhere", Config).descriptions == {}


def test_decoding_is_a_strategy_or_settings_of_the_run_s_own(loaded_run):
    served = ServedRun("run", loaded_run)
    assert parse_decoding(served, "beam").name == "beam"
    assert parse_decoding(served, None) is loaded_run.recipe.decoding
    expected = DecodingStrategy("greedy", greedy.Config(no_repeat_ngram_size=2))
    assert parse_decoding(served, {"no_repeat_ngram_size": 2}) == expected
    served.run = SimpleNamespace(recipe=replace(loaded_run.recipe, decoding=None))
    with pytest.raises(ConfigError, match="run has no decoding strategy; leave decoding out"):
        parse_decoding(served, "beam")
