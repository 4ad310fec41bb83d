"""What a service can be asked, as an OpenAPI document: made of the runs it serves, their options and their examples."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.core.registry import registered_names
from regard.core.version import __version__
from regard.serve import option_schema
from regard.serve.model_runtime import ServedRun
from regard.serve.requests import MAX_INPUTS

MAX_EXAMPLE_BYTES = 50_000  # bytes of an example that is sent as a file
JSON = "application/json"
ERRORS = {
    "400": "what is wrong with the request, in one line",
    "401": "a key is wanted",
    "404": "there is no such run or verb",
    "413": "the body is too large",
    "429": "too many wait already; Retry-After says when to come again",
    "503": "it took too long, or the server ends; Retry-After says when to come again",
}


def describe_run(hosted: ServedRun) -> dict[str, Any]:
    """A run in plain values: what it is and what it can be asked."""
    run = hosted.run
    return {
        "name": hosted.name,
        "task": run.recipe.task.name,
        "model": run.recipe.model.name,
        "parameters": run.parameters,
        "verbs": list(hosted.verbs),
        "opens": list(hosted.input_suffixes),
        "decoding": None if run.recipe.decoding is None else run.recipe.decoding.name,
        "options": option_schema.to_json_schema(hosted.options_schema),
        "example": example(hosted),
    }


def example(hosted: ServedRun) -> dict[str, Any]:
    """A request that works: the task's first example, a file as the file itself."""
    given = next(iter(hosted.run.task.examples), "")
    found: Any = given
    if hosted.input_suffixes and given and Path(given).suffix.lower() in hosted.input_suffixes:
        path = Path(given)
        if not os.path.isfile(given) or path.stat().st_size > MAX_EXAMPLE_BYTES:  # a text may be too long for a path
            return {"run": hosted.name, "inputs": [{"file": "…base64…", "name": path.name}]}
        found = {"file": base64.b64encode(path.read_bytes()).decode(), "name": path.name}
    return {"run": hosted.name, "inputs": [found]}


def document(hosted: Sequence[ServedRun]) -> dict[str, Any]:
    """The whole document."""
    verbs = sorted({verb for each in hosted for verb in each.verbs})
    paths: dict[str, Any] = {
        f"/v1/{verb}": {"post": _verb(verb, [each for each in hosted if verb in each.verbs])} for verb in verbs
    }
    paths["/v1/look"] = {"post": _look(hosted)}
    for path, what in {
        "/v1/runs": "The runs that are served, with their options and an example of each.",
        "/health": "Whether the server is well.",
    }.items():
        paths[path] = {"get": {"summary": what, "responses": _responses({"type": "object"})}}
    plain = {"description": "text for Prometheus", "content": {"text/plain": {"schema": {"type": "string"}}}}
    paths["/metrics"] = {"get": {"summary": "Counters, for Prometheus.", "responses": {"200": plain}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "regard", "version": __version__, "description": "Runs as a service."},
        "paths": paths,
        "components": {"schemas": _schemas()},
    }


def _verb(verb: str, hosted: Sequence[ServedRun]) -> dict[str, Any]:
    several = len(hosted) > 1
    bodies = [_body(each, named=several) for each in hosted]
    tasks = ", ".join(dict.fromkeys(each.run.recipe.task.name for each in hosted))
    return {
        "summary": f"{verb.capitalize()} ({tasks})",
        "description": "Answers to each input, best first. With stream true, server-sent events: token, then answers.",
        "operationId": verb,
        "requestBody": {
            "required": True,
            "content": {
                JSON: {
                    "schema": {"oneOf": bodies} if several else bodies[0],
                    "examples": {each.name: {"value": example(each)} for each in hosted},
                }
            },
        },
        "responses": _responses({"$ref": "#/components/schemas/Predictions"}),
    }


def _body(hosted: ServedRun, *, named: bool) -> dict[str, Any]:
    """What a request to a run may say."""
    text = {"type": "string", "maxLength": option_schema.MAX_TEXT_CHARACTERS}
    inputs = [*([option_schema.UPLOAD] if hosted.input_suffixes else []), *([text] if hosted.accepts_text else [])]
    one = inputs[0] if len(inputs) == 1 else {"anyOf": inputs}
    kinds = [
        *([f"files ({', '.join(hosted.input_suffixes)})"] if hosted.input_suffixes else []),
        *(["texts"] if hosted.accepts_text else []),
    ]
    wanted = {"type": "array", "minItems": 1, "maxItems": MAX_INPUTS, "items": one, "description": " or ".join(kinds)}
    which = "which run; needed where several have the verb"
    properties: dict[str, Any] = {
        "run": {"type": "string", "enum": [hosted.name], "description": which},
        "inputs": wanted,
        "options": option_schema.to_json_schema(hosted.options_schema),
        "files": {
            "type": "array",
            "items": {"type": "string", "maxLength": 9},
            "maxItems": 4,
            "description": "suffixes of the files that each answer is to be sent as too, where it can be",
        },
        "stream": {"type": "boolean", "default": False, "description": "server-sent events while it is decoded"},
    }
    if hosted.run.recipe.decoding is not None:
        properties["decoding"] = _decoding(hosted)
    required = [*(["run"] if named else []), *([] if hosted.generates_without_input else ["inputs"])]
    return {
        "title": hosted.name,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _decoding(hosted: ServedRun) -> dict[str, Any]:
    """The settings of the search: those of the run's decoder unless another is named."""
    listed = registered_names("regard.decoding.strategies")
    properties: dict[str, Any] = {}
    for name in listed:
        for key, value in option_schema.to_json_schema(hosted.decoder_schema(name))["properties"].items():
            properties.setdefault(key, {part: value[part] for part in value if part != "default"})
    own = hosted.run.recipe.decoding
    described = f"how answers are searched for; unless told, as the run's own {own.name if own else ''}"
    return {
        "type": "object",
        "properties": {"name": {"type": "string", "enum": listed}, **properties},
        "additionalProperties": False,
        "description": described,
    }


def _look(hosted: Sequence[ServedRun]) -> dict[str, Any]:
    pair = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False, "minItems": 2}
    pairs = {"type": "array", "items": pair, "maxItems": 1000}
    properties = {
        "run": {"type": "string", "enum": [each.name for each in hosted]},
        "input": {"anyOf": [{"type": "string", "maxLength": option_schema.MAX_TEXT_CHARACTERS}, option_schema.UPLOAD]},
        "off": {**pairs, "description": "heads switched off: [attention module, head]"},
        "forbid": {**pairs, "description": "items that may not be looked at: [axis, item]"},
        "temperature": {"type": "number", "minimum": 0.01, "maximum": 100},
    }
    required = ["input", *(["run"] if len(hosted) > 1 else [])]
    body = {"type": "object", "properties": properties, "required": required}
    shown = {"run": hosted[0].name, "input": example(hosted[0])["inputs"][0]}
    return {
        "summary": "Every attention map of an input, as the explorer's page has it.",
        "operationId": "look",
        "requestBody": {"required": True, "content": {JSON: {"schema": body, "example": shown}}},
        "responses": _responses({"type": "object"}),
    }


def _responses(found: dict[str, Any]) -> dict[str, Any]:
    wrong = {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    errors = {status: {"description": what, "content": wrong} for status, what in ERRORS.items()}
    return {"200": {"description": "done", "content": {JSON: {"schema": found}}}, **errors}


def _schemas() -> dict[str, Any]:
    number = {"type": ["number", "null"]}
    answer = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "one line that people read"},
            "score": {**number, "description": "log probability, where there is one"},
            "rank": {**number, "description": "what answers are ranked by, best first"},
            "remarks": {"type": "array", "items": {"type": "string"}, "description": "what was mended in the input"},
            "files": {"type": "object", "description": "suffix -> base64, where files were asked for"},
        },
        "required": ["text", "score", "rank"],
    }
    rows = {"type": "array", "items": {"type": "array", "items": answer}}
    upload = {
        "file": {"type": "string", "contentEncoding": "base64"},
        "name": {"type": "string", "description": "its suffix says what kind of file it is"},
    }
    answers = {"run": {"type": "string"}, "verb": {"type": "string"}, "predictions": rows}
    return {
        "Upload": {
            "type": "object",
            "properties": upload,
            "required": ["file"],
            "additionalProperties": False,
            "description": "a file, sent whole; a request never names a file of the server",
        },
        "Predictions": {"type": "object", "properties": answers, "required": ["run", "verb", "predictions"]},
        "Error": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]},
    }
