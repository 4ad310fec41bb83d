"""The JSON of a request to a verb: which run, which inputs, what is asked of them; each mistake is one clear line.

{"inputs": ["a text", {"file": "…base64…", "name": "a.png"}], "options": {…}, "decoding": {…},
 "run": "name", "files": [".png"], "stream": false}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from regard.core.bounds import bounded
from regard.core.errors import ConfigError, DataError, RegardError, nearest
from regard.decoding import Decoding
from regard.serve import schema
from regard.serve.hosted import Hosted
from regard.serve.uploads import Uploads

INPUTS = 64  # of a request
ROWS = 512  # hypotheses side by side: inputs times the width of the search
PIXELS = 20_000_000  # of an image
SHORT = 2_000  # letters that are read without a thread
KEYS = ("run", "inputs", "options", "decoding", "files", "stream")


class Asked(NamedTuple):
    """A request as it came, of the right shape."""

    hosted: Hosted
    verb: str
    inputs: Sequence[Any]
    options: Mapping[str, Any]
    decoding: Any
    files: tuple[str, ...]  # what the answers are to be sent as, beside their text
    stream: bool

    @property
    def small(self) -> bool:
        """Whether it is read at once: a few short texts, and nothing to unpack."""
        texts = all(isinstance(given, str) for given in self.inputs)
        return texts and sum(map(len, self.inputs)) <= SHORT and not any(map(_is_file, self.options.values()))


def _is_file(value: Any) -> bool:
    return isinstance(value, dict)


class Read(NamedTuple):
    """What the task gets."""

    inputs: list[Any]
    options: Any
    decoding: Decoding | None


class Unknown(RegardError):
    """A run or a verb that there is not: 404."""


def shaped(body: Any, verb: str, hosted: Sequence[Hosted]) -> Asked:
    """JSON -> a request of the right shape to one of the runs."""
    if not isinstance(body, dict):
        raise ConfigError('a request is an object: {"inputs": ["…"]}')
    for key in body:
        if key not in KEYS:
            raise ConfigError(f"a request has no {key[:80]!r}; {nearest(key[:80], KEYS)}")
    run = chosen(body.get("run"), verb, hosted)
    inputs = body.get("inputs", [""] if run.from_nothing else None)
    if not isinstance(inputs, list) or not inputs:
        raise ConfigError('inputs is a list of texts or files with something in it: {"inputs": ["…"]}')
    if len(inputs) > INPUTS:
        raise ConfigError(f"{len(inputs):,} inputs; a request has at most {INPUTS}: send several")
    options, files, stream = body.get("options", {}), body.get("files", []), body.get("stream", False)
    if not isinstance(options, dict):
        raise ConfigError("options is an object: names of settings and their values")
    if not isinstance(files, list) or not all(isinstance(suffix, str) and len(suffix) < 10 for suffix in files):
        raise ConfigError('files is a list of suffixes: [".png"]')
    if not isinstance(stream, bool):
        raise ConfigError("stream is true or false")
    if stream and len(inputs) > 1:
        raise ConfigError(f"stream is for one input; this request has {len(inputs)}")
    return Asked(run, verb, inputs, options, body.get("decoding"), tuple(files[:4]), stream)


def chosen(name: Any, verb: str | None, hosted: Sequence[Hosted]) -> Hosted:
    """The run of this name, or the only one that has the verb."""
    able = [each for each in hosted if verb is None or verb in each.verbs]
    if not able:
        raise Unknown(f"no run here can {str(verb)[:40]}; {nearest(str(verb), {v for h in hosted for v in h.verbs})}")
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
        raise Unknown(f"{said} {', '.join(known)}")
    return able[known.index(name)]


def read(asked: Asked, uploads: Uploads) -> Read:
    """Everything a request sent, read by its task. Runs in a thread: images are unpacked."""
    hosted = asked.hosted
    try:
        options = hosted.unasked
        if asked.options:
            options = schema.made(hosted.options, _with_files(asked, uploads), "options")
        decoding = hosted.decoding(asked.decoding)
        width = 1 if decoding is None else decoding.width
        if width * len(asked.inputs) > ROWS:
            most = max(1, ROWS // width)
            raise ConfigError(f"{len(asked.inputs)} inputs with a search {width} wide; send {most} at most at a time")
        with bounded(pixels=PIXELS):
            inputs = [_input(hosted, given, uploads, f"input {n}") for n, given in enumerate(asked.inputs, start=1)]
    except RegardError as wrong:
        raise type(wrong)(uploads.plain(str(wrong))) from None
    return Read(inputs, options, decoding)


def _input(hosted: Hosted, given: Any, uploads: Uploads, where: str) -> Any:
    task = hosted.run.task
    if isinstance(given, str):
        if len(given) > schema.LETTERS:
            raise DataError(f"{where} has {len(given):,} letters; at most {schema.LETTERS:,} fit into a request")
        return task.read_text(given)
    if not isinstance(given, dict):
        raise DataError(f'{where} is {json.dumps(given)[:40]}, neither a text nor a file; write a text as "…"')
    if not hosted.opens:
        raise DataError(f"{where} is a text for this run")
    return task.read(str(uploads.keep(given, hosted.opens, where)))


def _with_files(asked: Asked, uploads: Uploads) -> dict[str, Any]:
    """The options, with what is a file written to where the task can read it."""
    kind = asked.hosted.options
    hints = kind.hints
    table = dict(asked.options)
    for key, name in kind.names.items():
        if key in table and table[key] is not None and schema.is_path(hints[name]):
            table[key] = uploads.keep(table[key], kind.opens, f"options.{key}")
    return table
