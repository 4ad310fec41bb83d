"""OpenAPI document of the server, built from the served runs, their options and their examples.

The JSON schemas of options are generated from the dataclasses of the tasks and decoding strategies; requests.py parses
the values.
"""

from __future__ import annotations

import base64
import dataclasses
import os
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from regard.core import config as configs
from regard.core.registry import registered_names
from regard.core.version import __version__
from regard.serve import requests
from regard.serve.model_runtime import ServedRun
from regard.serve.requests import OptionSchema

MAX_EXAMPLE_BYTES = 50_000  # of an example file that is included in the document
JSON = "application/json"
UPLOAD = {"$ref": "#/components/schemas/Upload"}
ERRORS = {
    "400": "the request is malformed; the error says why in one line",
    "401": "an API key is required",
    "403": "a page of another site sent the request",
    "404": "unknown run or verb",
    "405": "the method is not allowed; the header Allow names the allowed ones",
    "408": "the body did not arrive in time",
    "413": "the body is too large",
    "415": "the body is not declared as application/json",
    "421": "the host is not this machine",
    "422": "the request has the right form, but the run cannot process it; the error says why in one line",
    "429": "the queue is full; Retry-After says when to retry",
    "431": "the headers are too large",
    "500": "a bug of the server; its log has the details",
    "503": "the request took too long, or the server is shutting down; Retry-After says when to retry",
}
EVENTS: dict[str, Any] = {"text/event-stream": {}}  # if stream is true
BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


def document(runs: Sequence[ServedRun]) -> dict[str, Any]:
    """Return the OpenAPI document."""
    verbs = sorted({verb for served in runs for verb in served.verbs})
    paths: dict[str, Any] = {
        f"/v1/{verb}": {"post": _verb(verb, [served for served in runs if verb in served.verbs])} for verb in verbs
    }
    paths["/v1/look"] = {"post": _look(runs)}
    for path, summary in {
        "/v1/runs": "The served runs, with their options and an example of each.",
        "/health": "Health check.",
    }.items():
        paths[path] = {"get": {"summary": summary, "responses": _responses({"type": "object"})}}
    metrics = {"description": "metrics in the text format", "content": {"text/plain": {"schema": {"type": "string"}}}}
    metrics_responses = {**_responses({}), "200": metrics}
    paths["/metrics"] = {"get": {"summary": "Metrics for Prometheus.", "responses": metrics_responses}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "regard", "version": __version__, "description": "Predictions of trained runs over HTTP."},
        "paths": paths,
        "components": {"schemas": _components()},
    }


def describe_run(served: ServedRun) -> dict[str, Any]:
    """Describe a run as JSON: its task, its model, its verbs and its options."""
    run = served.run
    return {
        "name": served.name,
        "task": run.recipe.task.name,
        "model": run.recipe.model.name,
        "parameters": run.parameters,
        "verbs": list(served.verbs),
        "verb_options": {verb: options for verb in served.verbs if (options := run.verb_options(verb))},
        "opens": list(served.input_suffixes),
        "decoding": None if run.recipe.decoding is None else run.recipe.decoding.name,
        "options": to_json_schema(requests.options_schema(served)),
        "example": example(served),
    }


def example(served: ServedRun) -> dict[str, Any]:
    """Return a valid request: the first example of the task; a file is included with its content."""
    text = next(iter(served.run.task.examples), "")
    raw_input: Any = text
    if served.input_suffixes and text and Path(text).suffix.lower() in served.input_suffixes:
        path = Path(text)
        if not os.path.isfile(text) or path.stat().st_size > MAX_EXAMPLE_BYTES:  # a text may be too long for a path
            return {"run": served.name, "inputs": [{"file": "…base64…", "name": path.name}]}
        raw_input = {"file": base64.b64encode(path.read_bytes()).decode(), "name": path.name}
    return {"run": served.name, "inputs": [raw_input]}


def to_json_schema(schema: OptionSchema) -> dict[str, Any]:
    """Return the JSON schema of a dataclass of options."""
    hints = schema.hints
    properties = {}
    for field in dataclasses.fields(schema.options):
        field_schema = _type_schema(hints[field.name], field.name, schema)
        if schema.descriptions.get(field.name):
            field_schema = {**field_schema, "description": schema.descriptions[field.name]}
        if field.default is not dataclasses.MISSING and not isinstance(field.default, Path):
            field_schema = {**field_schema, "default": configs.to_dict(field.default)}
        properties[requests.json_name(field.name)] = field_schema
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _type_schema(hint: Any, name: str, schema: OptionSchema) -> dict[str, Any]:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_type_schema(arg, name, schema) for arg in args]}
    if origin is Literal:
        return {"enum": list(args)}
    if origin is tuple:
        return {"type": "array", "items": _type_schema(args[0], name, schema), "maxItems": requests.MAX_COUNT}
    maximum = {} if name in requests.UNBOUNDED_OPTIONS else {"maximum": requests.max_value(name, schema)}
    schemas: dict[Any, dict[str, Any]] = {
        type(None): {"type": "null"},
        Path: UPLOAD,
        bool: {"type": "boolean"},
        int: {"type": "integer", **maximum},
        float: {"type": "number"},
        str: {"type": "string", "maxLength": requests.MAX_TEXT_CHARACTERS},
    }
    return schemas.get(hint, {})


def _verb(verb: str, runs: Sequence[ServedRun]) -> dict[str, Any]:
    run_required = len(runs) > 1
    bodies = [_predict_body(served, run_required=run_required) for served in runs]
    tasks = ", ".join(dict.fromkeys(served.run.recipe.task.name for served in runs))
    return {
        "summary": f"{verb.capitalize()} ({tasks})",
        "description": "Return the predictions of each input, best first. "
        "If stream is true, the response is server-sent events: partial, then predictions.",
        "operationId": verb,
        "requestBody": {
            "required": True,
            "content": {
                JSON: {
                    "schema": {"oneOf": bodies} if run_required else bodies[0],
                    "examples": {served.name: {"value": example(served)} for served in runs},
                }
            },
        },
        "responses": _responses({"$ref": "#/components/schemas/Predictions"}, EVENTS),
    }


def _predict_body(served: ServedRun, *, run_required: bool) -> dict[str, Any]:
    """Return the JSON schema of a prediction request to one run."""
    text = {"type": "string", "maxLength": requests.MAX_TEXT_CHARACTERS}
    schemas = [*([UPLOAD] if served.input_suffixes else []), *([text] if served.accepts_text else [])]
    kinds = [
        *([f"files ({', '.join(served.input_suffixes)})"] if served.input_suffixes else []),
        *(["texts"] if served.accepts_text else []),
    ]
    inputs = {
        "type": "array",
        "minItems": 1,
        "maxItems": requests.MAX_INPUTS,
        "items": schemas[0] if len(schemas) == 1 else {"anyOf": schemas},
        "description": " or ".join(kinds),
    }
    properties: dict[str, Any] = {
        "run": {
            "type": "string",
            "enum": [served.name],
            "description": "name of the run; required if several runs have the verb",
        },
        "inputs": inputs,
        "options": to_json_schema(requests.options_schema(served)),
        "files": {
            "type": "array",
            "items": {"type": "string", "maxLength": 9},
            "maxItems": requests.MAX_FILES,
            "description": "suffixes of the files to return with each prediction, if the task can write them",
        },
        "stream": {"type": "boolean", "default": False, "description": "send server-sent events during decoding"},
    }
    if served.run.recipe.decoding is not None:
        properties["decoding"] = _decoding(served.run.recipe.decoding.name)
    required = [*(["run"] if run_required else []), *([] if served.generates_without_input else ["inputs"])]
    return {
        "title": served.name,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _decoding(default: str) -> dict[str, Any]:
    """Return the JSON schema of "decoding": the settings of all strategies."""
    names = registered_names("regard.decoding.strategies")
    properties: dict[str, Any] = {}
    for name in names:
        for key, schema in to_json_schema(requests.decoding_schema(name))["properties"].items():
            properties.setdefault(key, {part: schema[part] for part in schema if part != "default"})
    settings = {
        "type": "object",
        "properties": {"name": {"type": "string", "enum": names}, **properties},
        "additionalProperties": False,
    }
    return {
        "anyOf": [{"type": "string", "enum": names}, settings],
        "description": f"decoding strategy and its settings; by default those of the run ({default})",
    }


def _look(runs: Sequence[ServedRun]) -> dict[str, Any]:
    pair = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False, "minItems": 2}
    pairs = {"type": "array", "items": pair, "maxItems": requests.MAX_INTERVENTIONS}
    properties = {
        "run": {"type": "string", "enum": [served.name for served in runs]},
        "input": {"anyOf": [{"type": "string", "maxLength": requests.MAX_TEXT_CHARACTERS}, UPLOAD]},
        "disabled_heads": {**pairs, "description": "heads to switch off: [attention module, head]"},
        "hidden_items": {**pairs, "description": "items to mask in the attention: [axis, item]"},
        "temperature": {"type": "number", "minimum": 0.01, "maximum": 100},
    }
    required = ["input", *(["run"] if len(runs) > 1 else [])]
    body = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    body_example = {"run": runs[0].name, "input": example(runs[0])["inputs"][0]}
    return {
        "summary": "Return all attention maps of an input, in the format of the explorer's page.",
        "operationId": "look",
        "requestBody": {"required": True, "content": {JSON: {"schema": body, "example": body_example}}},
        "responses": _responses({"type": "object"}),
    }


def _responses(schema: dict[str, Any], other_types: dict[str, Any] | None = None) -> dict[str, Any]:
    error = {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    errors = {status: {"description": description, "content": error} for status, description in ERRORS.items()}
    return {"200": {"description": "success", "content": {JSON: {"schema": schema}, **(other_types or {})}}, **errors}


def _components() -> dict[str, Any]:
    optional_number = {"type": ["number", "null"]}
    prediction = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "the prediction as one line of text"},
            "probability": {**optional_number, "description": "probability of the output, 0 to 1, or null"},
            "score": {**optional_number, "description": "log probability, or null"},
            "ranking_score": {
                **optional_number,
                "description": "value by which the predictions are sorted, best first",
            },
            "remarks": {"type": "array", "items": {"type": "string"}, "description": "corrections of the input"},
            "unknown_tokens": {
                "type": "array",
                "items": {"type": "string"},
                "description": "input words that the training data did not contain",
            },
            "files": {"type": "object", "description": "suffix -> base64, if files were requested"},
        },
        "required": ["text", "probability", "score", "ranking_score"],
    }
    predictions = {
        "run": {"type": "string"},
        "verb": {"type": "string"},
        "predictions": {"type": "array", "items": {"type": "array", "items": prediction}},
    }
    upload = {
        "file": {"type": "string", "contentEncoding": "base64", "pattern": BASE64},
        "name": {"type": "string", "description": "file name; its suffix determines the format"},
    }
    return {
        "Upload": {
            "type": "object",
            "properties": upload,
            "required": ["file"],
            "additionalProperties": False,
            "description": "an uploaded file with its content; paths on the server are not accepted",
        },
        "Predictions": {"type": "object", "properties": predictions, "required": ["run", "verb", "predictions"]},
        "Error": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]},
    }
