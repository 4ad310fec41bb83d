"""Python client of a server, with the verbs of a loaded run: `regard.Client("http://127.0.0.1:8000").fill(["…"])`."""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from regard.api.verb_methods import Verbs, as_list
from regard.core.errors import ConfigError, RegardError
from regard.core.task import Prediction

CONNECTION_ERRORS = (OSError, http.client.HTTPException)  # a closed connection, or bytes that are not HTTP
# fields of every prediction; other fields belong to the task
PREDICTION_FIELDS = ("text", "probability", "score", "ranking_score", "remarks", "files")


class ServerError(RegardError):
    """Error of a server. `status` is the HTTP status, `seconds` the time after which to retry (0: not given)."""

    def __init__(self, message: str, status: int = 0, seconds: int = 0) -> None:
        super().__init__(message)
        self.status, self.seconds = status, seconds


class Client(Verbs):
    """The verbs of a run that `regard serve` serves.

    `run` is required if the server has several runs; `key` is the server's REGARD_KEY. Inputs are texts or paths of
    local files, whose content is sent. Options are those of the run; `decoding={"beam_width": 8}` changes the search.
    """

    def __init__(self, url: str, run: str | None = None, *, key: str = "", timeout: float = 90.0) -> None:
        self._url, self._key, self._timeout = url.rstrip("/"), key, timeout
        if not (key.isascii() and key.isprintable()):
            raise ConfigError("key: must contain printable ASCII characters only")
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"{url!r} is not the address of a server; use one such as http://127.0.0.1:8000")
        runs: list[dict[str, Any]] = self._read("/v1/runs", "runs")
        matches = [description for description in runs if run in (None, description["name"])]
        if len(matches) != 1:
            names = ", ".join(description["name"] for description in runs)
            problem = f"it has no run {run!r}" if run is not None else "it serves several runs"
            raise ConfigError(f"{self._url}: {problem}; choose one with Client(url, run=…): {names}")
        self.about = matches[0]
        self.name: str = self.about["name"]
        self.folder = Path(self.name)
        self.verbs = tuple(self.about["verbs"])
        self.verb = self.verbs[0]
        task, model = (SimpleNamespace(name=self.about[part]) for part in ("task", "model"))
        self.recipe: Any = SimpleNamespace(task=task, model=model)

    def __repr__(self) -> str:
        return f"Client({self._url!r}: {self.name}, {self.about['model']} for {self.about['task']})"

    def verb_options(self, verb: str) -> dict[str, Any]:
        """Return the options that a verb of the run sets."""
        return dict(self.about.get("verb_options", {}).get(verb, {}))

    def predict(self, inputs: Sequence[Any], **options: Any) -> list[list[Prediction]]:
        """Inputs -> the predictions of each, best first. `files=[".png"]` also fetches the files of each prediction."""
        inputs = as_list(inputs, self.verb)
        if not inputs:
            return []
        rows = self._read(f"/v1/{self.verb}", "predictions", self._predict_body(inputs, options))
        return [[_to_prediction(fields) for fields in row] for row in rows]

    def stream(self, raw_input: Any = "", **options: Any) -> Iterator[str]:
        """Yield the text decoded so far for one input, repeatedly; the last text is that of the prediction."""
        body = self._predict_body([raw_input], options) | {"stream": True}
        event = ""
        for line in self._lines(self._open(f"/v1/{self.verb}", body)):
            kind, _, value = line.decode().rstrip("\n").partition(": ")
            if kind == "event":
                event = value
            elif kind == "data":
                table = json.loads(value)
                if event == "error":
                    raise ServerError(table["error"], table["status"])
                yield table["text"] if event == "partial" else table["predictions"][0][0]["text"]
        if event != "predictions":
            raise self._incomplete()

    def look(self, raw_input: Any, **interventions: Any) -> dict[str, Any]:
        """Return all attention maps of an input as JSON values.

        Interventions are `disabled_heads`, `hidden_items` and `temperature`.
        """
        body = {"run": self.name, "input": self._encode_input(raw_input), **interventions}
        inspection: dict[str, Any] = self._read("/v1/look", None, body)
        return inspection

    def _predict_body(self, inputs: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON of a prediction request."""
        task_options = dict(options)
        fields: dict[str, Any] = {key: task_options.pop(key) for key in ("decoding", "files") if key in task_options}
        schemas = self.about["options"]["properties"]
        paths = [key for key, schema in schemas.items() if "Upload" in json.dumps(schema)]
        encoded = {
            key: _encode_file(value) if key in paths and value is not None else value
            for key, value in task_options.items()
        }
        raw_inputs = [self._encode_input(raw_input) for raw_input in inputs]
        return {"run": self.name, "inputs": raw_inputs, "options": encoded, **fields}

    def _encode_input(self, raw_input: Any) -> Any:
        """Return an input as JSON: a text, or the content of a file if the run reads files."""
        is_name = isinstance(raw_input, str) and Path(raw_input[-10:]).suffix.lower() in self.about["opens"]
        if isinstance(raw_input, Path) or (
            is_name and "\n" not in raw_input and len(raw_input) < 1000 and Path(raw_input).is_file()
        ):
            return _encode_file(raw_input)
        return raw_input

    def _read(self, path: str, field: str | None, body: Any = None) -> Any:
        """Return the JSON of a response, or one field of it."""
        try:
            with self._open(path, body) as response:
                content = json.loads(response.read())
            return content if field is None else content[field]
        except CONNECTION_ERRORS:
            raise self._incomplete() from None
        except (ValueError, LookupError, TypeError):
            raise ServerError(f"{self._url}: the response is not from a regard server; check the port") from None

    def _lines(self, response: Any) -> Iterator[bytes]:
        """Yield the lines of a response as they arrive."""
        try:
            yield from response
        except CONNECTION_ERRORS:
            raise self._incomplete() from None

    def _incomplete(self) -> ServerError:
        return ServerError(f"{self._url}: the connection was closed before the response was complete")

    def _open(self, path: str, body: Any = None) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            data = None if body is None else json.dumps(body).encode()
        except (TypeError, ValueError) as error:
            raise ConfigError(f"the request cannot be sent as JSON: {error}") from None
        try:
            request = urllib.request.Request(self._url + path, data, headers)
            return urllib.request.urlopen(request, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            with error:
                raise _to_server_error(error) from None
        except (*CONNECTION_ERRORS, ValueError) as error:
            reason = " ".join(str(error).split())
            raise ServerError(f"{self._url}: no server answers ({reason}); start one: regard serve RUN") from None


def _to_server_error(error: urllib.error.HTTPError) -> ServerError:
    try:
        message = str(json.loads(error.read())["error"])
    except (*CONNECTION_ERRORS, ValueError, LookupError, TypeError):
        message = f"the server returned status {error.code}"
    seconds = error.headers.get("Retry-After", "")
    return ServerError(message, error.code, int(seconds) if seconds.isdecimal() else 0)


def _encode_file(value: Path | str) -> dict[str, str]:
    if not isinstance(value, Path | str):
        raise ConfigError(f"{value!r} is not the path of a file")
    path = Path(value)
    try:
        return {"file": base64.b64encode(path.read_bytes()).decode(), "name": path.name}
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}), so it cannot be sent") from None


def _to_prediction(fields: Mapping[str, Any]) -> Prediction:
    files = {suffix: partial(base64.b64decode, content) for suffix, content in fields.get("files", {}).items()}
    data = {key: value for key, value in fields.items() if key not in PREDICTION_FIELDS}
    remarks = tuple(fields.get("remarks", ()))
    return Prediction(fields["text"], fields["score"], fields["ranking_score"], files=files, remarks=remarks, data=data)
