"""A run on a server, in Python, with the verbs of a loaded run: `regard.Client("http://127.0.0.1:8000").fill(["…"])`."""

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

from regard.api.verbs import Verbs, as_list
from regard.core.errors import ConfigError, RegardError
from regard.core.task import Prediction

CONNECTION_ERRORS = (OSError, http.client.HTTPException)  # a connection that ends, or bytes that are no HTTP
PREDICTION_FIELDS = ("text", "score", "rank", "remarks", "files")  # of an answer; the rest is the task's own


class ServerError(RegardError):
    """What a server says is wrong; `status` is its number, `seconds` when to come again (0: it did not say)."""

    def __init__(self, message: str, status: int = 0, seconds: int = 0) -> None:
        super().__init__(message)
        self.status, self.seconds = status, seconds


class Client(Verbs):
    """The verbs of a run that `regard serve` serves elsewhere.

    `run` names one where the server has several; `key` is the server's REGARD_KEY. Inputs are texts, or the paths of
    files here, which are sent whole; options are those of the run, and `decoding={"beam_width": 8}` changes the search.
    """

    def __init__(self, url: str, run: str | None = None, *, key: str = "", timeout: float = 90.0) -> None:
        self._url, self._key, self._timeout = url.rstrip("/"), key, timeout
        if not (key.isascii() and key.isprintable()):
            raise ConfigError("a key has ASCII letters, digits and signs only; this one has others")
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"{url!r} is no address of a server; give one such as http://127.0.0.1:8000")
        runs: list[dict[str, Any]] = self._read("/v1/runs", "runs")
        found = [each for each in runs if run in (None, each["name"])]
        if len(found) != 1:
            names = ", ".join(each["name"] for each in runs)
            said = f"it has no run {run!r}" if run is not None else "it serves several runs"
            raise ConfigError(f"{self._url}: {said}; name one of them: Client(url, run=…): {names}")
        self.about = found[0]
        self.name: str = self.about["name"]
        self.folder = Path(self.name)
        self.verbs = tuple(self.about["verbs"])
        self.verb = self.verbs[0]
        task, model = (SimpleNamespace(name=self.about[part]) for part in ("task", "model"))
        self.recipe: Any = SimpleNamespace(task=task, model=model)

    def __repr__(self) -> str:
        return f"Client({self._url!r}: {self.name}, {self.about['model']} for {self.about['task']})"

    def predict(self, inputs: Sequence[Any], **options: Any) -> list[list[Prediction]]:
        """Inputs -> the answers to each, best first. `files=[".png"]` also fetches what answers can be written as."""
        inputs = as_list(inputs, self.verb)
        if not inputs:
            return []
        found = self._read(f"/v1/{self.verb}", "predictions", self._asked(inputs, options))
        return [[_answer(row) for row in rows] for rows in found]

    def stream(self, raw_input: Any = "", **options: Any) -> Iterator[str]:
        """The answer to one input while it is decoded: the whole text so far, again and again, at last the answer's."""
        asked = self._asked([raw_input], options) | {"stream": True}
        name = ""
        for line in self._lines(self._open(f"/v1/{self.verb}", asked)):
            kind, _, value = line.decode().rstrip("\n").partition(": ")
            if kind == "event":
                name = value
            elif kind == "data":
                table = json.loads(value)
                if name == "error":
                    raise ServerError(table["error"], table["status"])
                yield table["text"] if name == "partial" else table["predictions"][0][0]["text"]
        if name != "predictions":
            raise self._gone()

    def inspect(self, raw_input: Any, **changes: Any) -> dict[str, Any]:
        """Every attention map of an input, as plain values; `off`, `forbid` and `temperature` are a what-if."""
        asked = {"run": self.name, "input": self._sent(raw_input), **changes}
        found: dict[str, Any] = self._read("/v1/look", None, asked)
        return found

    def _asked(self, inputs: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON of a request."""
        own = dict(options)
        beside: dict[str, Any] = {key: own.pop(key) for key in ("decoding", "files") if key in own}
        paths = [key for key, told in self.about["options"]["properties"].items() if "Upload" in json.dumps(told)]
        sent = {key: _file(value) if key in paths and value is not None else value for key, value in own.items()}
        return {"run": self.name, "inputs": [self._sent(given) for given in inputs], "options": sent, **beside}

    def _sent(self, given: Any) -> Any:
        """An input as JSON: a text, or the content of a file where the run takes files."""
        named = isinstance(given, str) and Path(given[-10:]).suffix.lower() in self.about["opens"]
        if isinstance(given, Path) or (named and "\n" not in given and len(given) < 1000 and Path(given).is_file()):
            return _file(given)
        return given

    def _read(self, path: str, part: str | None, asked: Any = None) -> Any:
        """The JSON that the server answers, or a part of it."""
        try:
            with self._open(path, asked) as answer:
                found = json.loads(answer.read())
            return found if part is None else found[part]
        except CONNECTION_ERRORS:
            raise self._gone() from None
        except (ValueError, LookupError, TypeError):
            raise ServerError(f"{self._url}: what answers there is no server of regard; is the port right?") from None

    def _lines(self, answer: Any) -> Iterator[bytes]:
        """The lines of an answer as they come."""
        try:
            yield from answer
        except CONNECTION_ERRORS:
            raise self._gone() from None

    def _gone(self) -> ServerError:
        return ServerError(f"{self._url}: the server went before the answer was whole")

    def _open(self, path: str, asked: Any = None) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            data = None if asked is None else json.dumps(asked).encode()
        except (TypeError, ValueError) as wrong:
            raise ConfigError(f"what is asked cannot be sent as JSON: {wrong}") from None
        try:
            request = urllib.request.Request(self._url + path, data, headers)
            return urllib.request.urlopen(request, timeout=self._timeout)
        except urllib.error.HTTPError as wrong:
            with wrong:
                raise _told(wrong) from None
        except (*CONNECTION_ERRORS, ValueError) as wrong:
            why = " ".join(str(wrong).split())
            raise ServerError(f"{self._url}: no server answers ({why}); is it started? regard serve RUN") from None


def _told(wrong: urllib.error.HTTPError) -> ServerError:
    """What the server said."""
    try:
        line = str(json.loads(wrong.read())["error"])
    except (*CONNECTION_ERRORS, ValueError, LookupError, TypeError):
        line = f"the server answered {wrong.code}"
    seconds = wrong.headers.get("Retry-After", "")
    return ServerError(line, wrong.code, int(seconds) if seconds.isdecimal() else 0)


def _file(given: Path | str) -> dict[str, str]:
    if not isinstance(given, Path | str):
        raise ConfigError(f"{given!r} is no path of a file; give one")
    path = Path(given)
    try:
        return {"file": base64.b64encode(path.read_bytes()).decode(), "name": path.name}
    except OSError as wrong:
        raise ConfigError(f"{path}: cannot be read ({wrong.strerror}), so it cannot be sent") from None


def _answer(row: Mapping[str, Any]) -> Prediction:
    files = {suffix: partial(base64.b64decode, data) for suffix, data in row.get("files", {}).items()}
    data = {key: value for key, value in row.items() if key not in PREDICTION_FIELDS}
    return Prediction(
        row["text"], row["score"], row["rank"], files=files, remarks=tuple(row.get("remarks", ())), data=data
    )
