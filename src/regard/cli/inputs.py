"""Lines of standard input as they come: numbered, decoded one by one, and a word where there is nothing more yet.

A file is read in whatever encoding it is found to have. Of a pipe the lines that have come are given at once; None
between them says that more would have to be waited for, so that what has come can be answered first.
"""

from __future__ import annotations

import codecs
import os
import select
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import NamedTuple, TextIO

from regard.core.errors import DataError
from regard.data.files import encodings
from regard.data.files.encodings import UTF8, TextFormat

PIPE_CHUNK_BYTES = 2**16  # bytes of a pipe that are taken at once
UTF16_BOMS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class InputLine(NamedTuple):
    """One input."""

    line_number: int  # counted from 1
    text: str
    error: str = ""  # why it cannot be read; "": it can


class InputStream(NamedTuple):
    """Inputs, and what they are called in messages; "": they were words of the command."""

    name: str
    lines: Iterable[InputLine | None]


def from_arguments(inputs: Iterable[str]) -> InputStream:
    """Words of the command as inputs."""
    return InputStream("", [InputLine(number, text) for number, text in enumerate(inputs, start=1)])


def standard_input() -> InputStream:
    """The lines of standard input."""
    try:
        handle = sys.stdin.fileno()
    except (OSError, ValueError, AttributeError):  # a text in place of it
        return InputStream("standard input", _of_text(sys.stdin))
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return InputStream(_name(handle), _of_file(handle, _name(handle)))
    return InputStream("standard input", _of_pipe(handle))


def piped_input() -> InputStream | None:
    """The lines of standard input where a file or a pipe stands there and has any; None at a terminal, or where nobody
    gave anything."""
    try:
        kind = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # none at all
        return None
    if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind)):
        return None
    name, lines = standard_input()
    coming = iter(lines)
    first = next((line for line in coming if line is not None), None)
    return None if first is None else InputStream(name, chain([first], coming))


def _of_text(stream: TextIO) -> Iterator[InputLine]:
    for number, line in enumerate(stream, start=1):
        yield InputLine(number, (line.removeprefix("\ufeff") if number == 1 else line).rstrip("\r\n"))


def _name(handle: int) -> str:
    """What the file behind a handle is called, where the system tells it."""
    with suppress(OSError):
        return os.path.relpath(os.readlink(f"/proc/self/fd/{handle}"))
    return "standard input"


def _of_file(handle: int, name: str) -> Iterator[InputLine]:
    from regard.data.files import text_files  # imports NumPy, which a few words of the command need not wait for

    begin = os.lseek(handle, 0, os.SEEK_CUR)
    form = UTF8
    with suppress(encodings.UnknownEncoding), os.fdopen(os.dup(handle), "rb") as file:
        form = encodings.detect(iter(lambda: file.read(encodings.BLOCK_BYTES), b""), name)
    if form.encoding != "utf-8":
        print(f"regard: {name}: read as {form.name}", file=sys.stderr)
    os.lseek(handle, begin + form.bom_bytes, os.SEEK_SET)
    with os.fdopen(os.dup(handle), "rb") as file:
        for number, raw in enumerate(text_files.split_lines(file, form), start=1):
            yield _line(number, raw, form, name)


def _of_pipe(handle: int) -> Iterator[InputLine | None]:
    number, held, told = 0, b"", True  # told: that nothing more has come
    chunks = _chunks(handle)
    for chunk in chunks:
        if chunk is None:
            if not told:
                yield None
            told = True
            continue
        *whole, held = (held + chunk).split(b"\n")
        for raw in whole:
            number, told = number + 1, False
            yield _line(number, raw, UTF8, "standard input")
    if held:
        yield _line(number + 1, held, UTF8, "standard input")


def _chunks(handle: int) -> Iterator[bytes | None]:
    """What comes through a pipe, as UTF-8 without a mark; None where one would have to wait for more."""
    first = b""
    while len(first) < 3 and (more := os.read(handle, PIPE_CHUNK_BYTES)):  # as long as the longest mark
        first += more
        if not any(mark.startswith(first) for mark in (*UTF16_BOMS, codecs.BOM_UTF8)):
            break
    wide = next((encoding for mark, encoding in UTF16_BOMS.items() if first.startswith(mark)), None)
    decoder = None if wide is None else codecs.getincrementaldecoder(wide)(errors="replace")
    chunk = first[2:] if decoder else first.removeprefix(codecs.BOM_UTF8)
    while first:
        yield decoder.decode(chunk).encode() if decoder else chunk
        if not _ready(handle):
            yield None
        chunk = os.read(handle, PIPE_CHUNK_BYTES)
        if not chunk:
            return


def _ready(handle: int) -> bool:
    """Whether there is something to read, or the end; where nobody can tell, each chunk is answered by itself."""
    try:
        return bool(select.select([handle], [], [], 0)[0])
    except (OSError, ValueError):
        return False


def _line(number: int, raw: bytes, form: TextFormat, name: str) -> InputLine:
    from regard.data.files import text_files

    try:
        return InputLine(number, text_files.decode_line(raw, form, f"{name}:{number}"))
    except DataError as wrong:
        return InputLine(
            number, raw.decode(form.encoding, errors="replace"), str(wrong).removeprefix(f"{name}:{number}: ")
        )
