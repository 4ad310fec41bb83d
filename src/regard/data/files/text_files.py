"""Text files, packed or not and in any encoding that can be told, as lines or whole."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from regard.core.errors import DataError
from regard.data.examples import ARCHIVE_SUFFIXES, COMPRESSED_SUFFIXES, Examples
from regard.data.files import encodings
from regard.data.files.encodings import TextFormat

READ_ERRORS = (OSError, EOFError, lzma.LZMAError, zlib.error)


def read_lines(path: Path) -> Iterator[str]:
    """A text file -> its lines. \\n ends them, so that numbers agree with other tools, or \\r if there is no \\n."""
    form = detect_format(path)
    for number, raw in enumerate(read_raw_lines(path, form), start=1):
        yield decode_line(raw, form, f"{path}:{number}")


def decode_line(raw: bytes, text_format: TextFormat, location: str) -> str:
    """The bytes of a line -> its text without the end; an error names the place."""
    try:
        text = raw.decode(text_format.encoding)
    except UnicodeDecodeError as wrong:
        here = f"byte {wrong.start + 1} of the line is 0x{raw[wrong.start]:02x}"
        guess = "; it looks like CP949: are two encodings mixed?" if encodings.is_korean(raw) else ""
        raise DataError(
            f"{location}: not {text_format.name}: {here}{guess or '; mend the line or leave it out'}"
        ) from None
    if "\0" in text:
        file = location.rpartition(":")[0]
        raise DataError(
            f"{location}: a NUL byte stands in the text; take such bytes out: tr -d '\\000' < {file} > clean.txt"
        )
    return text.rstrip("\r\n")


def read_raw_lines(path: Path, text_format: TextFormat) -> Iterator[bytes]:
    """A file -> its lines as bytes, line ends included; a file that is missing or empty is an error."""
    empty = True
    with _reading(path), open_compressed(path) as file:
        file.read(text_format.bom_bytes)
        for raw in split_lines(file, text_format):
            empty = False
            yield raw
    if empty:
        raise DataError(f"{path}: the file is empty")


def split_lines(file: BinaryIO, text_format: TextFormat) -> Iterable[bytes]:
    """An open file behind its mark -> its lines as bytes."""
    if text_format.encoding in ("utf-8", "cp949") and text_format.newline == b"\n":
        return file
    return _parts(file, text_format.newline.decode().encode(text_format.encoding))


def _parts(file: BinaryIO, end: bytes) -> Iterator[bytes]:
    """A file cut behind every `end` that stands at a multiple of its own length."""
    held, width = b"", len(end)
    for block in iter(lambda: file.read(encodings.BLOCK_BYTES), b""):
        held += block
        begin = place = 0
        while (place := held.find(end, place)) >= 0:
            if (place - begin) % width:
                place += 1
                continue
            yield held[begin : place + width]
            begin = place = place + width
        held = held[begin:]
    if held:
        yield held


def detect_format(path: Path) -> TextFormat:
    """How the text of a file is written; an error where that cannot be told."""
    with _reading(path):
        return encodings.detect_file(path, open_compressed)


def decode_text(raw: bytes, where: str) -> str:
    """All bytes of a text -> the text, line ends as \\n."""
    form = encodings.detect([raw], where)
    try:
        text = raw[form.bom_bytes :].decode(form.encoding)
    except UnicodeDecodeError as wrong:
        byte = f"byte {wrong.start + form.bom_bytes} (0x{raw[wrong.start + form.bom_bytes]:02x})"
        raise DataError(f"{where}: not {form.name} at {byte}; mend it or leave it out") from None
    return text.replace("\r\n", "\n") if form.newline == b"\n" else text.replace("\r", "\n")


def read_text(path: Path) -> str:
    """A text file -> all of it."""
    with _reading(path), open_compressed(path) as file:
        raw = file.read()
    if not raw:
        raise DataError(f"{path}: the file is empty")
    return decode_text(raw, str(path))


def encoding_remarks(paths: Iterable[Path]) -> list[str]:
    """How files are written that are not plain UTF-8, a line each."""
    forms = [(path, detect_format(path)) for path in dict.fromkeys(paths) if not path.name.endswith(ARCHIVE_SUFFIXES)]
    return [f"{path}: read as {form.name}" for path, form in forms if form.encoding != "utf-8"]


def split_encoding_remarks(splits: Iterable[Examples[Any]]) -> list[str]:
    """How the files of splits are written, where that is not plain UTF-8."""
    return encoding_remarks(path for rows in splits for path in rows.files)


def open_compressed(path: Path) -> BinaryIO:
    """A file to read bytes from, unpacked."""
    openers: dict[str, Any] = dict(zip(COMPRESSED_SUFFIXES, (gzip.open, lzma.open), strict=True))
    file: BinaryIO = openers.get(path.suffix, open)(path, "rb")
    return file


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """What the system says of a file becomes one line that names it."""
    try:
        yield
    except (FileNotFoundError, IsADirectoryError):
        raise DataError(f"{path}: no such file") from None
    except READ_ERRORS as wrong:
        raise DataError(f"{path}: cannot be read: {wrong}") from None
