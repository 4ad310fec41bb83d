"""Parser of request bodies: JSON -> validated requests; every mistake is a one-line error message.

Prediction (`POST /v1/<verb>`):

    {"inputs": ["a text", {"file": "…base64…", "name": "a.png"}], "options": {…}, "decoding": {…},
     "run": "name", "files": [".png"], "stream": false}

Inspection (`POST /v1/look`; the explorer's page sends "text" and "upload" instead of "run" and "input"):

    {"run": "name", "input": "a text", "disabled_heads": [["module", 0]], "hidden_items": [["axis", 0]],
     "temperature": 1}

openapi.py describes the same bodies as JSON schemas.
"""

from __future__ import annotations

import dataclasses
import json
import keyword
import math
import re
import typing
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from regard.core import config as configs
from regard.core.describe import describe, source_path
from regard.core.errors import ConfigError, DataError, RegardError, did_you_mean
from regard.core.input_limits import limit_pixels
from regard.core.registry import find, registered_names
from regard.decoding.strategy import DecodingStrategy
from regard.inspection.interventions import Interventions
from regard.serve.model_runtime import ServedRun
from regard.serve.uploads import Uploads
from regard.training import migrations

PREDICT_KEYS = ("run", "inputs", "options", "decoding", "files", "stream")
INSPECTION_KEYS = ("run", "input", "disabled_heads", "hidden_items", "temperature")
RENAMED_KEYS = {"off": "disabled_heads", "forbid": "hidden_items"}
MAX_INPUTS = 64  # of one request
MAX_FILES = 4  # suffixes of files to return
MAX_HYPOTHESES = 512  # inputs times beam width: rows of a batch
MAX_PIXELS = 20_000_000  # of one image
MAX_INLINE_CHARACTERS = 2_000  # characters of a request that is parsed in the event loop, without a thread
MAX_INTERVENTIONS = 1000  # disabled heads, or hidden items, of one request
MAX_TEXT_CHARACTERS = 100_000  # of one text
MAX_COUNT = 1_000  # default maximum of integer options (a task's SERVER_LIMITS override it), and of list lengths
BATCH_WIDTH_OPTIONS = ("n", "nbest", "num_samples", "beam_width")  # options that multiply the rows of a batch
MAX_BATCH_WIDTH = 32  # default maximum of these
INDEX_PATTERN = re.compile(r"-?[0-9]{1,15}")
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})
UNBOUNDED_OPTIONS = ("seed",)  # integer options that are not counts


class NotFound(RegardError):
    """An unknown run or verb: status 404."""


class PredictRequest(NamedTuple):
    """A prediction request whose inputs and options have not been parsed."""

    served: ServedRun
    verb: str
    inputs: Sequence[Any]
    options: Mapping[str, Any]
    decoding: Any
    files: tuple[str, ...]  # suffixes of the files to return with each prediction
    stream: bool

    @property
    def is_small(self) -> bool:
        """True if the request is parsed without a thread: a few short texts, and no files."""
        return (
            all(isinstance(raw_input, str) for raw_input in self.inputs)
            and sum(map(len, self.inputs)) <= MAX_INLINE_CHARACTERS
            and not any(isinstance(value, dict) for value in self.options.values())
        )


class ParsedRequest(NamedTuple):
    """The inputs, options and decoding strategy that a task predicts with."""

    inputs: list[Any]
    options: Any
    decoding: DecodingStrategy | None


class InspectionRequest(NamedTuple):
    """An input to inspect, and the interventions on the model."""

    text: str
    interventions: Interventions
    upload: Any = None  # JSON of an uploaded file, whose name is the text
    options: Mapping[str, Any] = NO_OPTIONS  # values of options of the task by JSON name


class OptionSchema(NamedTuple):
    """A dataclass of options, the descriptions of its fields, and the maximums of its integers."""

    options: type[Any]
    descriptions: Mapping[str, str]
    maximums: Mapping[str, int]
    input_suffixes: tuple[str, ...] = ()  # suffixes of the files that may be uploaded for a path field
    renamed: Mapping[str, str] = MappingProxyType({})  # old names -> new names, for the error message

    @property
    def names(self) -> Mapping[str, str]:
        """Map JSON names to field names: a field cannot be called `class`."""
        return _field_names(typing.cast(Hashable, self.options))

    @property
    def hints(self) -> Mapping[str, Any]:
        """Map field names to types."""
        return _field_types(typing.cast(Hashable, self.options))


def read_json(content: bytes) -> Any:
    """Parse JSON bytes; NaN, infinite numbers and lone surrogates are refused."""
    try:
        text = content.decode()
        body = _DECODER.decode(text)
        if "\\u" in text:  # valid UTF-8 contains no surrogates, so a lone one must be escaped
            json.dumps(body, ensure_ascii=False).encode()
    except RecursionError:
        raise RegardError("the request is nested too deeply; send flat JSON") from None
    except UnicodeEncodeError:
        raise RegardError("the request contains half of a character (a lone surrogate); send valid JSON") from None
    except ValueError as error:
        raise RegardError(f"the request is not JSON in UTF-8 ({str(error)[:200]})") from None
    return body


def parse_predict_request(body: Any, verb: str, runs: Sequence[ServedRun]) -> PredictRequest:
    """Validate the JSON of a prediction request, and select its run."""
    if not isinstance(body, dict):
        raise ConfigError('a request is an object: {"inputs": ["…"]}')
    _check_keys(body, PREDICT_KEYS)
    _check_nulls(body)
    served = select_run(body.get("run"), verb, runs)
    inputs = body.get("inputs", [""] if served.generates_without_input else None)
    if not isinstance(inputs, list) or not inputs:
        raise ConfigError('inputs: must be a non-empty list of texts or files: {"inputs": ["…"]}')
    if len(inputs) > MAX_INPUTS:
        raise ConfigError(f"{len(inputs):,} inputs: a request has at most {MAX_INPUTS}; send several requests")
    options, files, stream = body.get("options", {}), body.get("files", []), body.get("stream", False)
    if not isinstance(options, dict):
        raise ConfigError("options: must be an object of names and values")
    if not isinstance(files, list) or not all(isinstance(suffix, str) and len(suffix) < 10 for suffix in files):
        raise ConfigError('files: must be a list of suffixes: [".png"]')
    if len(files) > MAX_FILES:
        raise ConfigError(f"files: has {len(files)} suffixes; at most {MAX_FILES} are allowed")
    if not isinstance(stream, bool):
        raise ConfigError("stream: must be true or false")
    return PredictRequest(served, verb, inputs, options, body.get("decoding"), tuple(files), stream)


def read_inputs(request: PredictRequest, uploads: Uploads) -> ParsedRequest:
    """Parse the inputs and options of a request. Called in a thread if files must be decoded."""
    served = request.served
    if request.stream and len(request.inputs) > 1:
        raise ConfigError(f"stream: only for one input; this request has {len(request.inputs)}")
    try:
        options, verb_options = served.default_options, served.run.verb_options(request.verb)
        if request.options or verb_options:
            table = {**verb_options, **_save_files(request, uploads)}
            options = parse_options(options_schema(served), table, "options")
        decoding = parse_decoding(served, request.decoding)
        width = 1 if decoding is None else decoding.width
        if width * len(request.inputs) > MAX_HYPOTHESES:
            max_inputs = max(1, MAX_HYPOTHESES // width)
            raise ConfigError(
                f"{len(request.inputs)} inputs with beam width {width}: too many hypotheses; "
                f"send at most {max_inputs} inputs at a time"
            )
        with limit_pixels(max_pixels=MAX_PIXELS):
            inputs = [
                _parse_input(served, raw_input, uploads, f"input {position}")
                for position, raw_input in enumerate(request.inputs, start=1)
            ]
    except RegardError as error:
        raise type(error)(uploads.with_client_names(str(error))) from None
    return ParsedRequest(inputs, options, decoding)


def parse_look_request(body: Any, runs: Sequence[ServedRun]) -> tuple[ServedRun, InspectionRequest]:
    """Validate the JSON of `POST /v1/look`, and select its run."""
    if not isinstance(body, dict) or "input" not in body:
        raise ConfigError(
            'an inspection has an input: {"input": "…", "disabled_heads": [], "hidden_items": [], "temperature": 1}'
        )
    _check_renamed(body)
    _check_keys(body, INSPECTION_KEYS)
    _check_nulls(body)
    raw_input = body["input"]
    if isinstance(raw_input, str):
        request = parse_inspection_request({**body, "text": raw_input})
    else:
        name = str(raw_input.get("name", "file")) if isinstance(raw_input, dict) else ""
        request = parse_inspection_request({**body, "text": name, "upload": raw_input})
    return select_run(body.get("run"), None, runs), request


def parse_inspection_request(body: Any) -> InspectionRequest:
    """Validate the JSON that the explorer's page sends."""
    if not isinstance(body, dict) or not isinstance(body.get("text"), str):
        raise RegardError(
            "a request is an object with a text: "
            '{"text": "…", "disabled_heads": [], "hidden_items": [], "temperature": 1}'
        )
    _check_renamed(body)
    disabled_heads = _parse_pairs(body, "disabled_heads", "[attention module, head]")
    hidden_items = _parse_pairs(body, "hidden_items", "[axis, item]")
    temperature = body.get("temperature", 1)
    if isinstance(temperature, bool) or not isinstance(temperature, int | float):
        raise RegardError(f"temperature={_shorten(temperature)}: must be a number")
    try:
        interventions = Interventions(disabled_heads, hidden_items, float(temperature))
    except OverflowError:
        raise RegardError(f"temperature={_shorten(temperature)}: must be between 0.01 and 100") from None
    options = body.get("options", {})
    if not isinstance(options, dict):
        raise ConfigError("options: must be an object of names and values")
    return InspectionRequest(body["text"], interventions, body.get("upload"), options)


def parse_indices(query: Mapping[str, str], names: Sequence[str]) -> list[int]:
    """Return the integers of a query: the indices of a tile or a head."""
    values = {name: query.get(name, "") for name in names}
    if broken := [name for name, value in values.items() if not INDEX_PATTERN.fullmatch(value)]:
        raise RegardError(f"the indices of a tile or a head must be integers; check: {', '.join(sorted(broken))}")
    return [int(value) for value in values.values()]


def parse_inspection_id(query: Mapping[str, str]) -> str:
    """Return the id of an inspection in a query."""
    if not query.get("look"):
        raise RegardError("look: the id of an inspection is missing; send it as ?look=ID")
    return query["look"]


def select_run(name: Any, verb: str | None, runs: Sequence[ServedRun]) -> ServedRun:
    """Return the run with this name, or the only run that has the verb."""
    candidates = [served for served in runs if verb is None or verb in served.verbs]
    if not candidates:
        verbs = {each_verb for served in runs for each_verb in served.verbs}
        raise NotFound(f"no run has the verb {str(verb)[:40]!r}; {did_you_mean(str(verb), verbs)}")
    if name is None and len(candidates) == 1:
        return candidates[0]
    names = [served.name for served in candidates]
    if name not in names:
        with_verb = "" if verb is None else f" with the verb {verb!r}"
        problem = (
            "run is missing, and several runs are served" if name is None else f"no run {str(name)[:80]!r}{with_verb}"
        )
        raise NotFound(f"{problem}; use one of: {', '.join(names)}")
    return candidates[names.index(name)]


def parse_decoding(served: ServedRun, requested: Any) -> DecodingStrategy | None:
    """Parse "decoding", a name or an object of settings, into a decoding strategy.

    Settings override those of the run's own strategy. Only registered strategies are accepted: a request never causes
    an import.
    """
    default = served.run.recipe.decoding
    if requested is None:
        return default
    if default is None:
        raise ConfigError(f"{served.name} has no decoding strategy; leave decoding out")
    table = {"name": requested} if isinstance(requested, str) else requested
    if not isinstance(table, Mapping):
        raise ConfigError('decoding: must be the name of a strategy, or an object of its settings: {"beam_width": 5}')
    name = table.get("name", default.name)
    migrations.check_renamed_value(name, "decoding", migrations.RENAMED_STRATEGIES)
    registered = registered_names("regard.decoding.strategies")
    if name not in (default.name, *registered):
        raise ConfigError(f"decoding: no strategy {str(name)[:80]!r}; {did_you_mean(str(name)[:80], registered)}")
    settings = {key: value for key, value in table.items() if key != "name"}
    inherited = configs.to_dict(default.config) if name == default.name else {}
    return DecodingStrategy(name, parse_options(decoding_schema(name), inherited | settings, "decoding"))


def parse_options(schema: OptionSchema, table: Mapping[str, Any], where: str) -> Any:
    """Convert values by JSON name into the dataclass. Uploaded files are paths already; too large values are errors."""
    names, hints = schema.names, schema.hints
    values = {}
    for key, value in table.items():
        if key not in names and schema.renamed.get(key) in names:
            raise migrations.renamed_error(f"{where}.{key}", f"{where}.{schema.renamed[key]}")
        if key not in names:
            raise ConfigError(f"{where}: no setting {key[:80]!r}; {did_you_mean(key[:80], names)}")
        if is_path(hints[names[key]]) and not (value is None or isinstance(value, Path)):
            raise ConfigError(f"{where}.{key}: must be a file; send its content, not its path")
        if hints[names[key]] is str and not isinstance(value, str):
            raise ConfigError(f"{where}.{key}: must be a text")
        _check_value(value, names[key], schema, f"{where}.{key}")
        values[names[key]] = value
    return configs.from_dict(schema.options, values, where)


def options_schema(served: ServedRun) -> OptionSchema:
    """Return the schema of the options of a run's task."""
    choice = served.run.recipe.task
    schema = schema_of("regard.tasks", choice.name, served.run.options, input_suffixes=served.input_suffixes)
    limits = getattr(choice.module("tasks"), "SERVER_LIMITS", {})
    return schema._replace(maximums=limits, renamed=migrations.RENAMED_OPTIONS.get(choice.name, {}))


def decoding_schema(name: str) -> OptionSchema:
    """Return the schema of the settings of a decoding strategy."""
    schema = schema_of("regard.decoding.strategies", name, find("regard.decoding.strategies", name).Config)
    return schema._replace(renamed=migrations.RENAMED_DECODING)


def schema_of(package: str, name: str, options: type[Any], *, input_suffixes: tuple[str, ...] = ()) -> OptionSchema:
    """Return the schema of a dataclass in a registered module, with the comments of its fields as descriptions."""
    return _cached_schema(package, name, typing.cast(Hashable, options), input_suffixes)


def max_value(name: str, schema: OptionSchema) -> int:
    """Return the maximum of an integer option."""
    return schema.maximums.get(name, MAX_BATCH_WIDTH if name in BATCH_WIDTH_OPTIONS else MAX_COUNT)


def is_path(hint: Any) -> bool:
    """Return True if a field is a path, or an optional one."""
    return hint is Path or Path in typing.get_args(hint)


def json_name(name: str) -> str:
    """Return the JSON name of a field: class_ -> class."""
    without_underscore = name.removesuffix("_")
    return without_underscore if keyword.iskeyword(without_underscore) else name


def _check_keys(body: Mapping[str, Any], allowed: Sequence[str]) -> None:
    for key in body:
        if key not in allowed:
            raise ConfigError(f"unknown field {key[:80]!r}; {did_you_mean(key[:80], allowed)}")


def _check_nulls(body: Mapping[str, Any]) -> None:
    for key, value in body.items():
        if value is None:
            raise ConfigError(f"{key}: must not be null; leave it out instead")


def _check_renamed(body: Mapping[str, Any]) -> None:
    for old, new in RENAMED_KEYS.items():
        if old in body:
            raise ConfigError(f"the field {old!r} was renamed; use {new!r}")


def _parse_input(served: ServedRun, raw_input: Any, uploads: Uploads, where: str) -> Any:
    task = served.run.task
    if isinstance(raw_input, str):
        if len(raw_input) > MAX_TEXT_CHARACTERS:
            raise DataError(f"{where}: has {len(raw_input):,} characters; at most {MAX_TEXT_CHARACTERS:,} are allowed")
        return task.parse_untrusted_text(raw_input)
    if not isinstance(raw_input, dict):
        raise DataError(f'{where}: {json.dumps(raw_input)[:40]} is neither a text nor a file; write a text as "…"')
    if not served.input_suffixes:
        raise DataError(f"{where}: must be a text for this run, not a file")
    return task.parse_input(str(uploads.save(raw_input, served.input_suffixes, where)))


def _save_files(request: PredictRequest, uploads: Uploads) -> dict[str, Any]:
    """Return the options with every uploaded file replaced by the path at which it was saved."""
    schema = options_schema(request.served)
    hints = schema.hints
    table = dict(request.options)
    for key, name in schema.names.items():
        if key in table and table[key] is not None and is_path(hints[name]):
            table[key] = uploads.save(table[key], schema.input_suffixes, f"options.{key}")
    return table


def _check_value(value: Any, name: str, schema: OptionSchema, where: str) -> None:
    """Refuse too large integers, non-finite numbers, and too long texts and lists."""
    if isinstance(value, list):
        if len(value) > MAX_COUNT:
            raise ConfigError(f"{where}: has {len(value):,} entries; at most {MAX_COUNT:,} are allowed")
        for entry in value:
            _check_value(entry, "", schema, where)
    elif isinstance(value, str) and len(value) > MAX_TEXT_CHARACTERS:
        raise ConfigError(f"{where}: has {len(value):,} characters; at most {MAX_TEXT_CHARACTERS:,} are allowed")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{where}: is not a finite number")
    elif isinstance(value, int) and not isinstance(value, bool) and name and name not in UNBOUNDED_OPTIONS:
        if abs(value) > max_value(name, schema):
            raise ConfigError(f"{where}={value}: at most {max_value(name, schema):,} is allowed in a request")


def _parse_pairs(body: dict[str, Any], key: str, kind: str) -> tuple[tuple[str, int], ...]:
    """Validate a list of [name, index]."""
    pairs = body.get(key, [])
    if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
        raise RegardError(f"{key}={_shorten(pairs)}: must be a list of {kind}")
    if len(pairs) > MAX_INTERVENTIONS:
        raise RegardError(f"{key}: has {len(pairs)} entries; at most {MAX_INTERVENTIONS} are allowed")
    return tuple((name, index) for name, index in pairs)


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and type(pair[1]) is int


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _parse_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("Out of range float values are not JSON")
    return value


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_float)  # shared by all requests


@lru_cache(maxsize=256)  # the same few dataclasses for every request
def _field_names(options: Hashable) -> Mapping[str, str]:
    return {json_name(field.name): field.name for field in dataclasses.fields(typing.cast(Any, options))}


@lru_cache(maxsize=256)
def _field_types(options: Hashable) -> Mapping[str, Any]:
    return typing.get_type_hints(options)


@lru_cache(maxsize=256)
def _cached_schema(package: str, name: str, options: Hashable, input_suffixes: tuple[str, ...]) -> OptionSchema:
    dataclass = typing.cast(type[Any], options)
    try:
        description = describe(source_path(package, name), dataclass.__name__)
    except RegardError:  # a module outside of the package
        description = None
    settings = () if description is None else description.settings
    return OptionSchema(dataclass, {setting.name: setting.comment for setting in settings}, {}, input_suffixes)
