"""Archives as data: members that point outside, links, and members that unpack to gigabytes."""

from __future__ import annotations

import gzip
import io
import resource
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attack_cases.outcome import Outcome
from regard.core.errors import RegardError
from regard.data.checks.report import examine
from regard.data.files import archives, text_files
from regard.data.images.listing import list_images
from regard.data.text import plain_text

BOMB_BYTES = 2**31  # unpacked; the file itself has two megabytes
MAX_GROWTH_MB = 1200  # of the process
NAMES = ("../../outside.txt", "/tmp/outside.txt", "a/../../../outside.txt", "C:\\outside.txt", "neg/ok.txt")


def hostile_archives(work: Path) -> Outcome:
    """Read every hostile archive with every reader -> nothing is written, and every error is one line."""
    outcome = Outcome(note="nothing outside is read or written; memory is bounded; one line")
    (work / "secret.txt").write_text("content outside of the archive", encoding="utf-8")
    before = {path for path in work.parent.iterdir() if path.name.startswith("outside")}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for path in _archives(work):
        for name, reader in READERS.items():
            line = f"{path.name} read by {name}"
            try:
                content = reader(path)
                outcome.check("outside of the archive" not in str(content)[:10_000], f"{line}: read a file outside")
            except RegardError as error:
                outcome.check(len(str(error).splitlines()) == 1, f"{line}: {error}")
            except Exception as error:
                outcome.check(False, f"{line}: {error!r}")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) // 1024
    outcome.check(grown < MAX_GROWTH_MB, f"the process grew by {grown} MB")
    after = {path for path in work.parent.iterdir() if path.name.startswith("outside")}
    outcome.check(before == after and not list(Path("/tmp").glob("outside.txt")), "a file was written outside")
    return outcome


def _read_texts(path: Path) -> list[str]:
    return [file.text[:100] for file in archives.read_text_files(path)]


def _read_images(path: Path) -> list[str]:
    return [entry.where for entry in list_images(path)]


def _read_plain(path: Path) -> list[str]:
    return [text[:100] for text in plain_text._members(path)]


def _read_lines(path: Path) -> list[str]:
    return [line[:100] for line in text_files.read_lines(path)]


READERS: dict[str, Callable[[Path], Any]] = {
    "documents": _read_texts,
    "images": _read_images,
    "plain text": _read_plain,
    "lines": _read_lines,
    "data check": examine,
}


def _archives(work: Path) -> list[Path]:
    paths = [work / name for name in ("slip.zip", "slip.tar", "links.tar", "bomb.zip", "bomb.tar.gz", "bomb.txt.gz")]
    slip_zip, slip_tar, links, bomb_zip, bomb_tar, bomb_lines = paths
    with zipfile.ZipFile(slip_zip, "w") as archive:
        for name in (*NAMES, "../x.png"):
            archive.writestr(name, "text")
    with tarfile.open(slip_tar, "w") as tar:
        for name in (*NAMES, "../x.png"):
            tar.addfile(_member(name, 4), io.BytesIO(b"text"))
    with tarfile.open(links, "w") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            for suffix in (".txt", ".png", ".mid"):
                link = _member(f"pos/link{kind.decode()}{suffix}", 0)
                link.type, link.linkname = kind, str(work / "secret.txt")
                tar.addfile(link)
    block = b"a" * 2**20
    with (
        zipfile.ZipFile(bomb_zip, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("pos/a.txt", "w", force_zip64=True) as member,
    ):
        for _ in range(BOMB_BYTES // len(block)):
            member.write(block)
    with gzip.open(bomb_lines, "wb", compresslevel=1) as file:
        for _ in range(BOMB_BYTES // len(block)):
            file.write(block)
    with tarfile.open(bomb_tar, "w:gz", compresslevel=1) as tar:
        tar.addfile(_member("pos/a.txt", BOMB_BYTES), _Zeros(BOMB_BYTES))
    return paths


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    return member


class _Zeros(io.RawIOBase):
    """A file of letters that takes no memory."""

    def __init__(self, size: int) -> None:
        self._left = size

    def read(self, size: int = -1) -> bytes:
        count = min(self._left, size if size >= 0 else self._left)
        self._left -= count
        return b"a" * count
