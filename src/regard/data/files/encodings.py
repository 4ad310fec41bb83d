"""Detection of the encoding and newline of a text file: UTF-8, UTF-16 or CP949 (EUC-KR).

A BOM decides. Without one, text with a zero in every other byte is UTF-16, and valid UTF-8 is UTF-8. Valid CP949 is
CP949 if it reads as Korean, that is if many of its syllables are common ones. Any other text is an error that includes
a command for conversion.
"""

from __future__ import annotations

import codecs
import os
import shlex
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

from regard.core.errors import DataError

BLOCK_BYTES = 2**20  # bytes that are examined, from the first that is not ASCII
BOMS = (  # UTF-32 first, because its BOMs start with those of UTF-16
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# About half of the syllables of Korean text are in this set, but few of other languages' bytes read as CP949.
COMMON_SYLLABLES = frozenset(
    "이다는에의을를가고하지은도사기한로아리인나자서시대어해그게들수보일정것있없라만과와면으니안스구오부장주전상원"
    "여소거동성무공국제려비각중위적우조선마생경말야할음내방까합습간었았했세요네저바모문신유연관개실화회분차양"
)
MIN_HANGUL_SHARE = 0.5  # minimum share of syllables among characters that are not ASCII
MIN_COMMON_SHARE = 0.12  # minimum share of common syllables among all syllables
MIN_VALID_RATIO = 4  # this many valid characters per invalid one make the text damaged UTF-8
ENCODING_NAMES = {"utf-8": "UTF-8", "cp949": "CP949", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16"}


class TextFormat(NamedTuple):
    """Encoding, BOM and newline of a text file."""

    encoding: str  # Python's name
    bom_bytes: int = 0  # length of the BOM
    newline: bytes = b"\n"

    @property
    def name(self) -> str:
        """Common name of the encoding."""
        return ENCODING_NAMES.get(self.encoding, self.encoding.upper())


UTF8 = TextFormat("utf-8")


class UnknownEncoding(DataError):
    """A text whose encoding cannot be detected."""


def detect_file(path: Path, opener: Callable[[Path], BinaryIO]) -> TextFormat:
    """File -> its text format, cached until the file changes; `opener` opens and decompresses it."""
    facts = os.stat(path)
    return _detect_cached(path, opener, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=256)
def _detect_cached(path: Path, opener: Callable[[Path], BinaryIO], size: int, mtime_ns: int) -> TextFormat:
    with opener(path) as file:
        return detect(iter(lambda: file.read(BLOCK_BYTES), b""), str(path))


def detect(blocks: Iterable[bytes], where: str) -> TextFormat:
    """Blocks of a text -> its format; only as many blocks as needed are read."""
    stream = iter(blocks)
    head = next(stream, b"")
    bom = next(((prefix, encoding) for prefix, encoding in BOMS if head.startswith(prefix)), None)
    if bom is not None:
        return TextFormat(bom[1], len(bom[0]), _newline(head, bom[1]))
    utf16 = _utf16_without_bom(head)
    if utf16 is not None:
        return TextFormat(utf16, 0, _newline(head, utf16))
    newline = _newline(head, "utf-8")
    line = 1
    while head.isascii():  # ASCII is the same in the remaining encodings
        line += head.count(newline)
        head = next(stream, b"")
        if not head:
            return TextFormat("utf-8", 0, newline)
    block = head + next(stream, b"")
    last = next(stream, None) is None
    error = _decode_error(block, "utf-8", last=last)
    if error is None:
        return TextFormat("utf-8", 0, newline)
    encoding = _cp949_or_damaged_utf8(block, last=last)
    if encoding is None:
        line += block.count(newline, 0, error.start)
        byte = f"byte 0x{block[error.start]:02x} in line {line}"
        raise UnknownEncoding(
            f"{where}: not UTF-8 ({byte}), and the encoding cannot be detected; {conversion_hint(where)}"
        )
    return TextFormat(encoding, 0, newline)


def _newline(head: bytes, encoding: str) -> bytes:
    """Return \\n, or \\r if a text has no other newline (classic Mac OS)."""
    text = head.decode(encoding, errors="ignore") if encoding.startswith("utf-") else head.decode("latin-1")
    return b"\r" if "\r" in text and "\n" not in text else b"\n"


def _utf16_without_bom(head: bytes) -> str | None:
    """Detect UTF-16 without a BOM: newlines, spaces and Latin characters have a zero in every other byte."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if max(even, odd) < max(1, len(head) // 50) or min(even, odd) * 10 > max(even, odd):
        return None
    encoding = "utf-16-be" if even > odd else "utf-16-le"
    text = head.decode(encoding, errors="ignore")
    newlines_decode = any(end in text for end in "\n\r") or not any(end in head for end in b"\n\r")
    return encoding if newlines_decode and _decode_error(head, encoding) is None else None


def _cp949_or_damaged_utf8(block: bytes, *, last: bool) -> str | None:
    """Return the encoding of bytes that are not valid UTF-8: CP949, or damaged UTF-8; None if it is unknown."""
    if _decode_error(block, "cp949", last=last) is None and is_korean(block):
        return "cp949"
    text = block.decode("utf-8", errors="replace")
    non_ascii, invalid = sum(not character.isascii() for character in text), text.count("\N{REPLACEMENT CHARACTER}")
    return "utf-8" if non_ascii - invalid > MIN_VALID_RATIO * invalid else None  # the reader reports the invalid line


def _decode_error(block: bytes, encoding: str, *, last: bool = False) -> UnicodeDecodeError | None:
    """Return the decoding error of a block, or None. A character cut off at the end is only an error if `last`."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        decoder.decode(block, final=last)
    except UnicodeDecodeError as error:
        return error
    return None


def is_korean(raw: bytes) -> bool:
    """Return True if bytes, decoded as CP949, are Korean text."""
    text = raw.decode("cp949", errors="ignore")
    non_ascii = [character for character in text if not character.isascii()]
    syllables = [character for character in non_ascii if "가" <= character <= "힣"]
    common = sum(syllable in COMMON_SYLLABLES for syllable in syllables)
    return len(syllables) >= max(1, MIN_HANGUL_SHARE * len(non_ascii)) and common >= MIN_COMMON_SHARE * len(syllables)


def conversion_hint(where: str, encoding: str = "LATIN1") -> str:
    """Return a command that converts a text of an unsupported encoding."""
    path = Path(where)
    command = f"iconv -f {encoding} -t UTF-8 {shlex.quote(where)} > {shlex.quote(f'{path.stem}.utf8{path.suffix}')}"
    choice = " with its encoding in place of LATIN1 (SHIFT_JIS, GB18030, …)" if encoding == "LATIN1" else ""
    return f"convert it{choice}: {command}"
