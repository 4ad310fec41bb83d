"""Downloads of public data sets with checksums; an interrupted download is resumed."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from regard.core import trust
from regard.core.checksums import hash_file
from regard.core.errors import ConfigError, DataError, did_you_mean
from regard.core.files import cache_folder, file_sha256

CHUNK_BYTES = 1 << 16
MAX_DOWNLOAD_BYTES = 2**31  # a server that sends more, or without end, is not trusted
TIMEOUT_S = 30  # seconds without data before the connection counts as lost


class Dataset(NamedTuple):
    """A data set: its URL, the SHA-256 of each file, and its terms of use."""

    base_url: str
    files: dict[str, str]
    terms: str


SETS = {
    "multi30k": Dataset(
        "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/",
        {
            "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
            "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
            "train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
            "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
            "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
            "val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
            "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
            "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
            "test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
        },
        "for research and education, not for commerce",
    ),
    "tinyshakespeare": Dataset(
        "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/",
        {"input.txt": "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"},
        "text in the public domain",
    ),
    "jsb_chorales": Dataset(
        "https://raw.githubusercontent.com/czhuang/JSB-Chorales-dataset/master/",
        {
            "Jsb16thSeparated.json": "79294cc374f9252e95ef4b703161524c1c53dc1f712c236f00f1c1f5d54af5a7",
            "jsb-chorales-16th.json": "8730aca7b64e7d29493733d1cf19fad4a5b351d8f1845e57dac27728104fd39f",
            "jsb-chorales-8th.json": "88fb80b22829a815e8105da538d94ae803773158507e2145938351f35142390a",
            "jsb-chorales-quarter.json": "2db9329f1881a1d3f49703ec556bf1d6f84b4f6c1d702c156536e93cf31e1c91",
        },
        "no licence stated",
    ),
}


def fetch_dataset(name: str, folder: Path | None = None) -> Path:
    """Name of a data set -> the folder of its files; missing or damaged files are downloaded first."""
    if name not in SETS:
        raise ConfigError(f"no data set {name!r} to download; {did_you_mean(name, SETS)}")
    target = (folder or cache_folder()) / name
    for file, checksum in SETS[name].files.items():
        if not (target / file).exists():
            fetch(SETS[name].base_url + file, target / file, checksum=checksum)
        elif hash_file(target / file) != checksum:
            _print(f"{target / file}: damaged (its checksum differs); it is downloaded again")
            fetch(SETS[name].base_url + file, target / file, checksum=checksum)
    return target


def fetch(url: str, path: Path, *, checksum: str, max_bytes: int = MAX_DOWNLOAD_BYTES) -> None:
    """Download at most `max_bytes` from a URL to `path` and check the SHA-256; an interrupted download is resumed."""
    trust.check_network(url)
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(part):
            if path.exists() and file_sha256(path) == checksum:  # another process has fetched it meanwhile
                return
            _receive(url, part, max_bytes)
            received = file_sha256(part)
            if received != checksum:
                part.unlink()
                raise DataError(
                    f"{url}: SHA-256 is {received[:12]}…, not {checksum[:12]}…; try again, or the file has changed"
                )
            os.replace(part, path)
    except urllib.error.HTTPError as error:
        raise DataError(f"{url}: the server responds {error.code} {error.reason}") from None
    except (urllib.error.URLError, TimeoutError, ConnectionError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(f"{url}: no connection ({reason}); download it by other means and save it as {path}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from None


@contextmanager
def _exclusive(part: Path) -> Iterator[None]:
    """Lock a file that is being downloaded; other threads and processes wait until the lock is released."""
    if sys.platform == "win32":  # there is no flock: the user must avoid concurrent downloads of one file
        yield
        return
    import fcntl

    while True:
        handle = os.open(part, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_same_file(handle, part):
                yield
                return
        finally:
            if _is_same_file(handle, part) and not os.fstat(handle).st_size:
                part.unlink(missing_ok=True)  # nothing was received
            os.close(handle)


def _is_same_file(handle: int, part: Path) -> bool:
    """Return True if an open file is still the one at `part`, which another process may have moved or replaced."""
    try:
        return os.path.samestat(os.fstat(handle), part.stat())
    except FileNotFoundError:
        return False


def _print(line: str) -> None:
    Console(stderr=True, markup=False, highlight=False, soft_wrap=True).print(line)


def _receive(url: str, part: Path, max_bytes: int) -> None:
    """Append the missing bytes of a URL to `part`."""
    num_done = part.stat().st_size if part.exists() else 0
    try:
        response = _open(url, num_done)
    except urllib.error.HTTPError as error:
        if error.code != 416:  # no bytes are missing: the file is complete, or the checksum will not match
            raise
        return
    with response:
        resumed = response.status == 206
        num_done = num_done if resumed else 0
        length = response.headers.get("Content-Length") or ""
        total = num_done + int(length) if length.isascii() and length.isdecimal() else None  # else it is ignored
        with part.open("ab" if resumed else "wb") as file:
            for block in _blocks(response, part.name.removesuffix(".part"), done=num_done, total=total):
                file.write(block)
                if file.tell() > max_bytes:
                    break
        size = part.stat().st_size
    if size > max_bytes:
        part.unlink()
        raise DataError(f"{url}: sends more than {max_bytes:,} bytes, the limit for this file; check the address")
    if total is not None and size < total:
        raise DataError(f"{url}: interrupted after {size} of {total} bytes; run the command again to resume")


def _open(url: str, num_done: int) -> Any:
    headers = {"Range": f"bytes={num_done}-"} if num_done else {}
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_S)


def _blocks(response: Any, name: str, *, done: int, total: int | None) -> Any:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(name, total=total, completed=done)
        while block := response.read(CHUNK_BYTES):
            progress.advance(bar, len(block))
            yield block
