"""Readers of text files, plain or compressed, in any encoding that can be detected."""

from __future__ import annotations

import errno
import gzip
import lzma
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

from regard.core.errors import DataError
from regard.data.examples import ARCHIVE_SUFFIXES, COMPRESSED_SUFFIXES, Examples
from regard.data.files import encodings, spreadsheets
from regard.data.files.encodings import TextFormat

MAX_TEXT_BYTES = 2**28  # of a text that is read completely, after unpacking
MAX_LINE_BYTES = 2**26  # of a line, after unpacking
READ_ERRORS = (OSError, EOFError, lzma.LZMAError, zlib.error)


def read_lines(path: Path) -> Iterator[str]:
    """Text file -> its lines, which end with \\n as in other tools, or with \\r if there is no \\n."""
    text_format = detect_format(path)
    for line, raw in enumerate(read_raw_lines(path, text_format), start=1):
        yield decode_line(raw, text_format, f"{path}:{line}")


def decode_line(raw: bytes, text_format: TextFormat, location: str) -> str:
    """Bytes of a line -> its text without the newline; an error names the location."""
    try:
        text = raw.decode(text_format.encoding)
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1} of the line is 0x{raw[error.start]:02x}"
        guess = "; it looks like CP949: are two encodings mixed?" if encodings.is_korean(raw) else ""
        raise DataError(f"{location}: not {text_format.name}: {byte}{guess or '; fix or remove the line'}") from None
    if "\0" in text:
        file = location.rpartition(":")[0]
        raise DataError(
            f"{location}: the text contains a NUL byte; remove such bytes: tr -d '\\000' < {file} > clean.txt"
        )
    return text.rstrip("\r\n")


def read_raw_lines(path: Path, text_format: TextFormat) -> Iterator[bytes]:
    """File -> its lines as bytes, including newlines; a missing or empty file is an error."""
    empty = True
    with _data_errors(path), open_compressed(path) as file:
        file.read(text_format.bom_bytes)
        for raw in split_lines(LimitedLines(file) if path.suffix in COMPRESSED_SUFFIXES else file, text_format):
            empty = False
            yield raw
    if empty:
        raise DataError(f"{path}: the file is empty")


def split_lines(file: BinaryIO | LimitedLines, text_format: TextFormat) -> Iterable[bytes]:
    """Open file, positioned after its BOM -> its lines as bytes."""
    if text_format.encoding in ("utf-8", "cp949") and text_format.newline == b"\n":
        return file
    return _split_after(file, text_format.newline.decode().encode(text_format.encoding))


def _split_after(file: BinaryIO | LimitedLines, newline: bytes) -> Iterator[bytes]:
    """Split a file after every newline at a multiple of the newline's length."""
    pending, width = b"", len(newline)
    for block in iter(lambda: file.read(encodings.BLOCK_BYTES), b""):
        pending += block
        start = position = 0
        while (position := pending.find(newline, position)) >= 0:
            if (position - start) % width:
                position += 1
                continue
            yield pending[start : position + width]
            start = position = position + width
        pending = pending[start:]
        _check_size(len(pending), MAX_LINE_BYTES, "a line")
    if pending:
        yield pending


def detect_format(path: Path) -> TextFormat:
    """Return the encoding, BOM and newline of a file; an unknown encoding is an error."""
    with _data_errors(path):
        return encodings.detect_file(path, open_compressed)


def decode_text(raw: bytes, where: str) -> str:
    """Bytes of a text -> the text, with \\n as newline."""
    text_format = encodings.detect([raw], where)
    try:
        text = raw[text_format.bom_bytes :].decode(text_format.encoding)
    except UnicodeDecodeError as error:
        position = error.start + text_format.bom_bytes
        byte = f"byte {position} (0x{raw[position]:02x})"
        raise DataError(f"{where}: not {text_format.name} at {byte}; fix or remove it") from None
    return text.replace("\r\n", "\n") if text_format.newline == b"\n" else text.replace("\r", "\n")


def read_text(path: Path) -> str:
    """Text file -> its entire text."""
    with _data_errors(path), open_compressed(path) as file:
        raw = read_limited(file)
    if not raw:
        raise DataError(f"{path}: the file is empty")
    return decode_text(raw, str(path))


def encoding_remarks(paths: Iterable[Path]) -> list[str]:
    """Return a line with the encoding of each file that is not UTF-8."""
    binary = (*ARCHIVE_SUFFIXES, spreadsheets.SUFFIX)
    files = [path for path in dict.fromkeys(paths) if not path.name.endswith(binary)]
    formats = [(path, detect_format(path)) for path in files]
    return [f"{path}: read as {text_format.name}" for path, text_format in formats if text_format.encoding != "utf-8"]


def file_remarks(splits: Iterable[Examples[Any]]) -> list[str]:
    """Return lines about the files of splits: which are joined or not read, and encodings other than UTF-8."""
    parts = list(splits)
    remarks = dict.fromkeys(remark for rows in parts for remark in rows.remarks)
    return [*remarks, *encoding_remarks(path for rows in parts for path in rows.files)]


class LimitedLines:
    """The lines of a decompressed file. A small file may unpack to a line that does not fit into memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        while line := self._file.readline(MAX_LINE_BYTES + 1):
            _check_size(len(line), MAX_LINE_BYTES, "a line")
            yield line

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        return self._file.read(size)


def read_limited(file: IO[bytes]) -> bytes:
    """Return the content of a file that is read completely; a file that unpacks to too many bytes is an OSError."""
    content = file.read(MAX_TEXT_BYTES + 1)
    _check_size(len(content), MAX_TEXT_BYTES, "the text")
    return content


def _check_size(size: int, maximum: int, what: str) -> None:
    if size > maximum:
        raise OSError(errno.EFBIG, f"{what} has more than {maximum:,} bytes after unpacking; split it")


def open_compressed(path: Path) -> BinaryIO:
    """Open a file for reading bytes; a compressed file is decompressed."""
    openers: dict[str, Any] = dict(zip(COMPRESSED_SUFFIXES, (gzip.open, lzma.open), strict=True))
    file: BinaryIO = openers.get(path.suffix, open)(path, "rb")
    return file


@contextmanager
def _data_errors(path: Path) -> Iterator[None]:
    """Convert system errors to a DataError that names the file."""
    try:
        yield
    except (FileNotFoundError, IsADirectoryError):
        raise DataError(f"{path}: no such file") from None
    except READ_ERRORS as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
