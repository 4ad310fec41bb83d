"""Read inputs: arguments, or the lines of standard input, numbered and decoded one by one.

The encoding of a file is detected. For a pipe, None is yielded when no further line is available yet, so that the
lines read so far can be processed first.
"""

from __future__ import annotations

import codecs
import os
import select
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from regard.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.data.files.encodings import TextFormat

PIPE_CHUNK_BYTES = 2**16  # read from a pipe at a time
MAX_PATH_CHARACTERS = 1000  # a longer input is not the name of a file
UTF16_BOMS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class InputLine(NamedTuple):
    """An input and its line number."""

    line_number: int  # counted from 1
    text: str
    error: str = ""  # why it cannot be read; "" if it can


class InputStream(NamedTuple):
    """Input lines and their name in messages; "" for arguments of the command."""

    name: str
    lines: Iterable[InputLine | None]


def from_arguments(inputs: Iterable[str]) -> InputStream:
    """Return arguments of the command as inputs."""
    return InputStream("", [InputLine(index, text) for index, text in enumerate(inputs, start=1)])


def require_texts(inputs: Iterable[str]) -> None:
    """Raise an error for the name of an existing file if the run reads texts, not files."""
    for text in inputs:
        if len(text) < MAX_PATH_CHARACTERS and Path(text).suffix and _is_file(text):
            raise ConfigError(
                f"{text}: is a file, but this run reads texts; predict for its lines with --file {shlex.quote(text)}, "
                "or send the name itself through standard input"
            )


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def file_input(path: Path) -> InputStream:
    """Return the lines of a text file; its encoding is detected."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise DataError(f"--file {path}: cannot be read ({error.strerror})") from None
    return _of_handle(handle, str(path), f"--file {path}")


def standard_input() -> InputStream:
    """Return the lines of standard input."""
    try:
        handle = sys.stdin.fileno()
    except (OSError, ValueError, AttributeError):  # replaced by a text stream
        return InputStream("standard input", _of_text(sys.stdin))
    name = _name(handle)
    return _of_handle(handle, name if stat.S_ISREG(os.fstat(handle).st_mode) else "standard input", name)


def _of_handle(handle: int, name: str, where: str) -> InputStream:
    """Return the lines of an open file, pipe or device; a folder is an error that starts with `where`."""
    mode = os.fstat(handle).st_mode
    if stat.S_ISDIR(mode):
        raise DataError(f"{where}: is a folder; give the name of a text file")
    return InputStream(name, _of_file(handle, name) if stat.S_ISREG(mode) else _of_pipe(handle))


def piped_input() -> InputStream | None:
    """Return the lines of standard input if it is a file or a pipe with content, else None."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # there is no standard input
        return None
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        return None
    name, lines = standard_input()
    iterator = iter(lines)
    first = next((line for line in iterator if line is not None), None)
    return None if first is None else InputStream(name, chain([first], iterator))


def _of_text(stream: TextIO) -> Iterator[InputLine]:
    for index, line in enumerate(stream, start=1):
        yield InputLine(index, (line.removeprefix("\ufeff") if index == 1 else line).rstrip("\r\n"))


def _name(handle: int) -> str:
    """Return the path of an open file if the system provides it."""
    with suppress(OSError):
        return os.path.relpath(os.readlink(f"/proc/self/fd/{handle}"))
    return "standard input"


def _of_file(handle: int, name: str) -> Iterator[InputLine]:
    from regard.data.files import encodings, text_files  # imports NumPy, which arguments do not need

    start = os.lseek(handle, 0, os.SEEK_CUR)
    form = encodings.UTF8
    with suppress(encodings.UnknownEncoding), os.fdopen(os.dup(handle), "rb") as file:
        form = encodings.detect(iter(lambda: file.read(encodings.BLOCK_BYTES), b""), name)
    if form.encoding != "utf-8":
        print(f"regard: {name}: read as {form.name}", file=sys.stderr)
    os.lseek(handle, start + form.bom_bytes, os.SEEK_SET)
    with os.fdopen(os.dup(handle), "rb") as file:
        for index, raw in enumerate(text_files.split_lines(file, form), start=1):
            yield _line(index, raw, form, name)


def _of_pipe(handle: int) -> Iterator[InputLine | None]:
    from regard.data.files.encodings import UTF8

    count, rest, is_waiting = 0, b"", True
    for chunk in _chunks(handle):
        if chunk is None:
            if not is_waiting:
                yield None
            is_waiting = True
            continue
        *lines, rest = (rest + chunk).split(b"\n")
        for raw in lines:
            count, is_waiting = count + 1, False
            yield _line(count, raw, UTF8, "standard input")
    if rest:
        yield _line(count + 1, rest, UTF8, "standard input")


def _chunks(handle: int) -> Iterator[bytes | None]:
    """Yield the content of a pipe as UTF-8 without a BOM; None when no more is available yet."""
    first = b""
    while len(first) < 3 and (more := os.read(handle, PIPE_CHUNK_BYTES)):  # the length of the longest BOM
        first += more
        if not any(bom.startswith(first) for bom in (*UTF16_BOMS, codecs.BOM_UTF8)):
            break
    utf16 = next((encoding for bom, encoding in UTF16_BOMS.items() if first.startswith(bom)), None)
    decoder = None if utf16 is None else codecs.getincrementaldecoder(utf16)(errors="replace")
    chunk = first[2:] if decoder else first.removeprefix(codecs.BOM_UTF8)
    while first:
        yield decoder.decode(chunk).encode() if decoder else chunk
        if not _ready(handle):
            yield None
        chunk = os.read(handle, PIPE_CHUNK_BYTES)
        if not chunk:
            return


def _ready(handle: int) -> bool:
    """Return True if reading would not block; False if that is unknown, so that each chunk is processed on its own."""
    try:
        return bool(select.select([handle], [], [], 0)[0])
    except (OSError, ValueError):
        return False


def _line(index: int, raw: bytes, form: TextFormat, name: str) -> InputLine:
    from regard.data.files import text_files

    try:
        return InputLine(index, text_files.decode_line(raw, form, f"{name}:{index}"))
    except DataError as error:
        text = raw.decode(form.encoding, errors="replace")
        return InputLine(index, text, str(error).removeprefix(f"{name}:{index}: "))
