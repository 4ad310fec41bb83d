"""The JSON of a request to a verb: which run, which inputs, what is asked of them; each mistake is one clear line.

{"inputs": ["a text", {"file": "…base64…", "name": "a.png"}], "options": {…}, "decoding": {…},
 "run": "name", "files": [".png"], "stream": false}

The JSON of a request: bytes -> a text and changes, or one clear line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from regard.core.errors import ConfigError, DataError, RegardError, did_you_mean
from regard.core.input_limits import limit_pixels
from regard.decoding.strategy import DecodingStrategy
from regard.inspection.interventions import Interventions
from regard.serve import option_schema
from regard.serve.model_runtime import ServedRun
from regard.serve.uploads import Uploads

MAX_INPUTS = 64  # of a request
MAX_HYPOTHESES = 512  # hypotheses side by side: inputs times the width of the search
MAX_PIXELS = 20_000_000  # of an image
MAX_INLINE_CHARACTERS = 2_000  # letters that are read without a thread
KEYS = ("run", "inputs", "options", "decoding", "files", "stream")


class PredictRequest(NamedTuple):
    """A request as it came, of the right shape."""

    hosted: ServedRun
    verb: str
    inputs: Sequence[Any]
    options: Mapping[str, Any]
    decoding: Any
    files: tuple[str, ...]  # what the answers are to be sent as, beside their text
    stream: bool

    @property
    def is_small(self) -> bool:
        """Whether it is read at once: a few short texts, and nothing to unpack."""
        texts = all(isinstance(given, str) for given in self.inputs)
        return (
            texts
            and sum(map(len, self.inputs)) <= MAX_INLINE_CHARACTERS
            and not any(map(_is_file, self.options.values()))
        )


def _is_file(value: Any) -> bool:
    return isinstance(value, dict)


class ParsedRequest(NamedTuple):
    """What the task gets."""

    inputs: list[Any]
    options: Any
    decoding: DecodingStrategy | None


class NotFound(RegardError):
    """A run or a verb that there is not: 404."""


def parse_predict_request(body: Any, verb: str, hosted: Sequence[ServedRun]) -> PredictRequest:
    """JSON -> a request of the right shape to one of the runs."""
    if not isinstance(body, dict):
        raise ConfigError('a request is an object: {"inputs": ["…"]}')
    for key in body:
        if key not in KEYS:
            raise ConfigError(f"a request has no {key[:80]!r}; {did_you_mean(key[:80], KEYS)}")
    run = select_run(body.get("run"), verb, hosted)
    inputs = body.get("inputs", [""] if run.generates_without_input else None)
    if not isinstance(inputs, list) or not inputs:
        raise ConfigError('inputs is a list of texts or files with something in it: {"inputs": ["…"]}')
    if len(inputs) > MAX_INPUTS:
        raise ConfigError(f"{len(inputs):,} inputs; a request has at most {MAX_INPUTS}: send several")
    options, files, stream = body.get("options", {}), body.get("files", []), body.get("stream", False)
    if not isinstance(options, dict):
        raise ConfigError("options is an object: names of settings and their values")
    if not isinstance(files, list) or not all(isinstance(suffix, str) and len(suffix) < 10 for suffix in files):
        raise ConfigError('files is a list of suffixes: [".png"]')
    if not isinstance(stream, bool):
        raise ConfigError("stream is true or false")
    if stream and len(inputs) > 1:
        raise ConfigError(f"stream is for one input; this request has {len(inputs)}")
    return PredictRequest(run, verb, inputs, options, body.get("decoding"), tuple(files[:4]), stream)


def select_run(name: Any, verb: str | None, hosted: Sequence[ServedRun]) -> ServedRun:
    """The run of this name, or the only one that has the verb."""
    able = [each for each in hosted if verb is None or verb in each.verbs]
    if not able:
        raise NotFound(
            f"no run here can {str(verb)[:40]}; {did_you_mean(str(verb), {v for h in hosted for v in h.verbs})}"
        )
    if name is None and len(able) == 1:
        return able[0]
    known = [each.name for each in able]
    if name not in known:
        able_to = "" if verb is None else f" that can {verb}"
        said = (
            "several runs can; say which: run is one of"
            if name is None
            else f"no run {str(name)[:80]!r} here{able_to}; known:"
        )
        raise NotFound(f"{said} {', '.join(known)}")
    return able[known.index(name)]


def read_inputs(request: PredictRequest, uploads: Uploads) -> ParsedRequest:
    """Everything a request sent, read by its task. Runs in a thread: images are unpacked."""
    hosted = request.hosted
    try:
        options = hosted.default_options
        if request.options:
            options = option_schema.parse_options(hosted.options_schema, _with_files(request, uploads), "options")
        decoding = hosted.parse_decoding(request.decoding)
        width = 1 if decoding is None else decoding.width
        if width * len(request.inputs) > MAX_HYPOTHESES:
            most = max(1, MAX_HYPOTHESES // width)
            raise ConfigError(f"{len(request.inputs)} inputs with a search {width} wide; send {most} at most at a time")
        with limit_pixels(max_pixels=MAX_PIXELS):
            inputs = [_input(hosted, given, uploads, f"input {n}") for n, given in enumerate(request.inputs, start=1)]
    except RegardError as wrong:
        raise type(wrong)(uploads.with_client_names(str(wrong))) from None
    return ParsedRequest(inputs, options, decoding)


def _input(hosted: ServedRun, given: Any, uploads: Uploads, where: str) -> Any:
    task = hosted.run.task
    if isinstance(given, str):
        if len(given) > option_schema.MAX_TEXT_CHARACTERS:
            raise DataError(
                f"{where} has {len(given):,} letters; at most {option_schema.MAX_TEXT_CHARACTERS:,} fit into a request"
            )
        return task.parse_untrusted_text(given)
    if not isinstance(given, dict):
        raise DataError(f'{where} is {json.dumps(given)[:40]}, neither a text nor a file; write a text as "…"')
    if not hosted.input_suffixes:
        raise DataError(f"{where} is a text for this run")
    return task.parse_input(str(uploads.save(given, hosted.input_suffixes, where)))


def _with_files(asked: PredictRequest, uploads: Uploads) -> dict[str, Any]:
    """The options, with what is a file written to where the task can read it."""
    kind = asked.hosted.options_schema
    hints = kind.hints
    table = dict(asked.options)
    for key, name in kind.names.items():
        if key in table and table[key] is not None and option_schema.is_path(hints[name]):
            table[key] = uploads.save(table[key], kind.input_suffixes, f"options.{key}")
    return table


MAX_INTERVENTIONS = 1000  # heads switched off, or items forbidden, in one request
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


def parse_inspection_request(body: Any) -> tuple[str, Interventions]:
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
        return body["text"], Interventions(off, forbid, float(temperature))
    except OverflowError:
        raise RegardError(f"temperature={_short(temperature)} must lie between 0.01 and 100") from None


def _pairs(body: dict[str, Any], name: str, kind: str) -> tuple[tuple[str, int], ...]:
    """A list of [name, number] in a request."""
    pairs = body.get(name, [])
    if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
        raise RegardError(f"{name}={_short(pairs)} must be a list of {kind}")
    if len(pairs) > MAX_INTERVENTIONS:
        raise RegardError(f"{name} has {len(pairs)} entries; at most {MAX_INTERVENTIONS} fit into a request")
    return tuple((first, number) for first, number in pairs)


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and type(pair[1]) is int


def _short(value: Any) -> str:
    """A value as it was given, cut where it is long."""
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:80]}…"
