"""Which encoding a text file has: UTF-8, UTF-16 or CP949 (EUC-KR), and what ends its lines.

A mark at the beginning (BOM) decides. Without one, bytes that are zero at every other place are UTF-16, and what is
valid UTF-8 is UTF-8. What is valid CP949 and reads as Korean - many of its syllables are among the commonest - is
CP949. Of anything else nobody can tell; the error has a command that converts it.
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

BLOCK_BYTES = 2**20  # bytes that are looked at, from the first on that is not ASCII
BOMS = (  # the marks of UTF-32 begin with those of UTF-16
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Of every two syllables of running Korean one is among these; of other languages' bytes read as Korean few are.
COMMON_SYLLABLES = frozenset(
    "이다는에의을를가고하지은도사기한로아리인나자서시대어해그게들수보일정것있없라만과와면으니안스구오부장주전상원"
    "여소거동성무공국제려비각중위적우조선마생경말야할음내방까합습간었았했세요네저바모문신유연관개실화회분차양"
)
MIN_HANGUL_SHARE, MIN_COMMON_SHARE = (
    0.5,
    0.12,
)  # of what is not ASCII, this share is syllables, and of those this share is common
MIN_VALID_RATIO = 4  # times as many valid characters as broken ones make it UTF-8 that is damaged here and there
ENCODING_NAMES = {"utf-8": "UTF-8", "cp949": "CP949", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16"}


class TextFormat(NamedTuple):
    """How the text of a file is written."""

    encoding: str  # as Python calls it
    bom_bytes: int = 0  # bytes at the beginning that are no text
    newline: bytes = b"\n"  # what ends a line

    @property
    def name(self) -> str:
        """As people call it."""
        return ENCODING_NAMES.get(self.encoding, self.encoding.upper())


UTF8 = TextFormat("utf-8")


class UnknownEncoding(DataError):
    """A text whose encoding cannot be told."""


def detect_file(path: Path, opener: Callable[[Path], BinaryIO]) -> TextFormat:
    """A file -> how its text is written; `opened` opens it, unpacked. A file that has not changed is looked at once."""
    facts = os.stat(path)
    return _form_of(path, opener, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=256)
def _form_of(path: Path, opened: Callable[[Path], BinaryIO], size: int, time: int) -> TextFormat:
    with opened(path) as file:
        return detect(iter(lambda: file.read(BLOCK_BYTES), b""), str(path))


def detect(blocks: Iterable[bytes], where: str) -> TextFormat:
    """The blocks of a text -> how it is written; as few as needed are read."""
    stream = iter(blocks)
    head = next(stream, b"")
    mark = next(((bom, encoding) for bom, encoding in BOMS if head.startswith(bom)), None)
    if mark is not None:
        return TextFormat(mark[1], len(mark[0]), _newline(head, mark[1]))
    wide = _without_mark(head)
    if wide is not None:
        return TextFormat(wide, 0, _newline(head, wide))
    newline = _newline(head, "utf-8")
    line = 1
    while head.isascii():  # which is the same in all that is left
        line += head.count(newline)
        head = next(stream, b"")
        if not head:
            return TextFormat("utf-8", 0, newline)
    block = head + next(stream, b"")
    last = next(stream, None) is None
    wrong = _invalid(block, "utf-8", last=last)
    if wrong is None:
        return TextFormat("utf-8", 0, newline)
    found = _of_bytes(block, last=last)
    if found is None:
        line += block.count(newline, 0, wrong.start)
        byte = f"byte 0x{block[wrong.start]:02x} in line {line}"
        raise UnknownEncoding(
            f"{where}: not UTF-8 ({byte}), and which encoding it is cannot be told; {conversion_hint(where)}"
        )
    return TextFormat(found, 0, newline)


def _newline(head: bytes, encoding: str) -> bytes:
    """\\n, or \\r where a text has no other end of a line (as old Macs wrote)."""
    text = head.decode(encoding, errors="ignore") if encoding.startswith("utf-") else head.decode("latin-1")
    return b"\r" if "\r" in text and "\n" not in text else b"\n"


def _without_mark(head: bytes) -> str | None:
    """UTF-16 that has no mark: line ends, spaces and Latin letters have a zero at every other byte."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if max(even, odd) < max(1, len(head) // 50) or min(even, odd) * 10 > max(even, odd):
        return None
    encoding = "utf-16-be" if even > odd else "utf-16-le"
    text = head.decode(encoding, errors="ignore")
    ended = any(end in text for end in "\n\r") or not any(end in head for end in b"\n\r")
    return encoding if ended and _invalid(head, encoding) is None else None


def _of_bytes(block: bytes, *, last: bool) -> str | None:
    """Bytes that are not UTF-8 -> CP949, or UTF-8 that is damaged here and there; None where it cannot be told."""
    if _invalid(block, "cp949", last=last) is None and is_korean(block):
        return "cp949"
    text = block.decode("utf-8", errors="replace")
    foreign, broken = sum(not letter.isascii() for letter in text), text.count("\N{REPLACEMENT CHARACTER}")
    return "utf-8" if foreign - broken > MIN_VALID_RATIO * broken else None  # its reader says which line is broken


def _invalid(block: bytes, encoding: str, *, last: bool = False) -> UnicodeDecodeError | None:
    """What is wrong with bytes of an encoding; a character cut off at the end is not, unless they are the last."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        decoder.decode(block, final=last)
    except UnicodeDecodeError as wrong:
        return wrong
    return None


def is_korean(raw: bytes) -> bool:
    """Whether bytes, read as CP949, are running Korean."""
    text = raw.decode("cp949", errors="ignore")
    foreign = [letter for letter in text if not letter.isascii()]
    syllables = [letter for letter in foreign if "가" <= letter <= "힣"]
    common = sum(letter in COMMON_SYLLABLES for letter in syllables)
    return len(syllables) >= max(1, MIN_HANGUL_SHARE * len(foreign)) and common >= MIN_COMMON_SHARE * len(syllables)


def conversion_hint(where: str, encoding: str = "LATIN1") -> str:
    """What to do with a text of an encoding that is not read, as a command."""
    path = Path(where)
    command = f"iconv -f {encoding} -t UTF-8 {shlex.quote(where)} > {shlex.quote(f'{path.stem}.utf8{path.suffix}')}"
    choice = " with its encoding in place of LATIN1 (SHIFT_JIS, GB18030, …)" if encoding == "LATIN1" else ""
    return f"convert it{choice}: {command}"
