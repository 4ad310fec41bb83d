"""Where pieces come from: the chorales in music21, JSON of the published chorale set, folders and archives of files."""

from __future__ import annotations

import csv
import gzip
import hashlib
import importlib.util
import json
import lzma
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.core import files
from regard.core.errors import DataError, MissingExtra, RegardError
from regard.data.files.text_files import read_lines
from regard.data.music import grid_encoding, midi, musicxml
from regard.data.music.encoding import Encoding
from regard.data.music.grid_encoding import Voices

SPLITS = ("train", "valid", "test")
SUFFIXES = (".mid", ".midi", *musicxml.SUFFIXES)
MAX_JSON_BYTES = 256 * 2**20  # bytes of chorales as JSON
HELD_OUT_DIVISOR = 10  # one piece in so many goes to valid, and one to test


class Piece(NamedTuple):
    """A piece in an encoding's own form, with what is known of it."""

    name: str
    content: Any
    composer: str = ""


class MusicCollection(NamedTuple):
    """The pieces of each split, and what had to be mended or left out, one line each."""

    splits: dict[str, list[Piece]]
    remarks: tuple[str, ...] = ()


def content_bytes(content: Any) -> bytes:
    """All of a piece's content, for a checksum: steps of voices, or a list of notes."""
    data: bytes = content.tobytes() if isinstance(content, np.ndarray) else repr(content).encode()
    return data


def load_collection(
    path: Path | None, encoding: Encoding, *, limit: int | None = None, seed: int | None = 1
) -> MusicCollection:
    """A path, or none for the built-in chorales -> pieces, at most `limit` of each split that is given, drawn by the
    seed and not by their names.

    Pieces without a split are parted by the seed; without one, every split has all of them.
    """
    if path is None:
        built_in = dict(_fitting(chorales(), encoding))
        drawn = sample_names(built_in, limit, seed)
        return MusicCollection(
            split_pieces([Piece(name, built_in[name], "Bach") for name in built_in if name in drawn], seed)
        )
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; give JSON, a folder of .mid files, or leave data.path out")
    if path.is_file() and path.name.endswith((".json", ".json.gz")):
        return MusicCollection(_limited(read_json(path, encoding), limit, seed))
    if path.is_dir():
        return _read_folder(path, encoding, limit=limit, seed=seed)
    raise DataError(f"{path}: neither JSON nor a folder; give Jsb16thSeparated.json.gz or a folder of .mid files")


def sample_names(names: Iterable[str], limit: int | None, seed: int | None) -> set[str]:
    """At most `limit` of some names, by chance but the same for the same seed, whatever else is among them."""
    listed = set(names)
    if limit is None or len(listed) <= limit:
        return listed
    salt = (seed or 0).to_bytes(8, "little")

    def lot(name: str) -> bytes:
        return hashlib.blake2b(name.encode(errors="surrogateescape"), salt=salt).digest()

    return set(sorted(listed, key=lot)[:limit])


def _limited(splits: dict[str, list[Piece]], limit: int | None, seed: int | None) -> dict[str, list[Piece]]:
    drawn = {name: sample_names((piece.name for piece in pieces), limit, seed) for name, pieces in splits.items()}
    return {name: [piece for piece in pieces if piece.name in drawn[name]] for name, pieces in splits.items()}


def read_json(path: Path, encoding: Encoding) -> dict[str, list[Piece]]:
    """{"train": [[[S, A, T, B], …], …], "valid": …, "test": …}, -1 for silence -> pieces of each split."""
    _needs_grid(path, encoding)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(MAX_JSON_BYTES + 1)
        if len(content) > MAX_JSON_BYTES:
            raise DataError(f"{path}: more than {MAX_JSON_BYTES // 2**20} MB, unpacked; chorales as JSON have a few")
        table = json.loads(content)
        splits = {name: [np.array(piece, dtype=np.int16) for piece in table[name]] for name in SPLITS}
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, RecursionError) as wrong:
        raise DataError(f"{path}: not chorales as JSON ({wrong!r}); it needs train, valid and test") from None
    for name, pieces in splits.items():
        for number, piece in enumerate(pieces):
            if piece.ndim != 2 or piece.shape[1] != len(grid_encoding.VOICE_NAMES) or not len(piece):
                raise DataError(f"{path}: {name} piece {number} has shape {piece.shape}; every step needs four voices")
    return {
        name: [Piece(f"{name} {number}", piece, "Bach") for number, piece in enumerate(pieces)]
        for name, pieces in splits.items()
    }


def _needs_grid(where: object, encoding: Encoding) -> None:
    if encoding.name != grid_encoding.GridEncoding.name:
        raise DataError(
            f"{where}: steps of four voices are for encoding='grid'; for events give a folder of .mid files"
        )


def chorales() -> dict[str, Voices]:
    """The four-part chorales inside music21, by name; read once, then from the cache."""
    cached = files.cache_folder() / "music21-chorales.json"
    if not cached.exists():
        scores = {path.stem: grid_encoding.four_voice_grid(musicxml.read(path), resolution=4) for path in _corpus()}
        table = {name: voices.tolist() for name, voices in scores.items() if voices is not None}
        files.write_text(cached, json.dumps(table, separators=(",", ":")))
    try:
        read = json.loads(cached.read_text(encoding="utf-8"))
        return {name: np.array(voices, dtype=np.int16).reshape(-1, 4) for name, voices in read.items()}
    except (OSError, ValueError, AttributeError):
        raise DataError(f"{cached}: the cached chorales are damaged; delete the file, it is made again") from None


def _corpus() -> list[Path]:
    """The files themselves: music21 is a box of scores here, its own (slow) reader is not needed."""
    package = importlib.util.find_spec("music21")
    if package is None or not package.submodule_search_locations:
        raise MissingExtra("the built-in chorales are inside music21, not installed; run: pip install 'regard[music]'")
    return sorted(Path(package.submodule_search_locations[0]).glob("corpus/bach/*.mxl"))


def _fitting(voices: dict[str, Voices], encoding: Encoding) -> list[tuple[str, Voices]]:
    _needs_grid("the built-in chorales", encoding)
    return sorted(voices.items())


def split_pieces(pieces: list[Piece], seed: int | None) -> dict[str, list[Piece]]:
    """Pieces without a split -> one in ten to valid, one in ten to test, by melody: none is in two splits."""
    if seed is None:
        return {name: list(pieces) for name in SPLITS}
    splits: dict[str, list[Piece]] = {name: [] for name in SPLITS}
    for piece in pieces:
        digest = hashlib.blake2b(_melody(piece), digest_size=8, salt=seed.to_bytes(8, "little")).digest()
        place = int.from_bytes(digest, "little") % HELD_OUT_DIVISOR
        splits["valid" if place == 0 else "test" if place == 1 else "train"].append(piece)
    for name in ("train", "valid", "test"):  # a handful of pieces must still make three splits
        fullest = max(splits, key=lambda split: len(splits[split]))
        if not splits[name] and len(splits[fullest]) > 1:
            splits[name].append(splits[fullest].pop())
    return splits


def _melody(piece: Piece) -> bytes:
    """What a piece has in common with its copies: its opening intervals, whatever the key."""
    if isinstance(piece.content, np.ndarray):
        line = piece.content[:64, 0].astype(np.int64)
        intervals: bytes = np.diff(line[line != grid_encoding.SILENT]).tobytes()
        return intervals
    return piece.name.encode()


def _read_folder(path: Path, encoding: Encoding, *, limit: int | None, seed: int | None) -> MusicCollection:
    index = _read_index(path)
    remarks: list[str] = []
    splits: dict[str, list[Piece]] = {name: [] for name in SPLITS}
    loose: list[Piece] = []
    drawn = None if limit is None else _drawn_files(path, index, limit=limit, seed=seed)
    for name, source, data in _files(path, remarks):
        if drawn is not None and name not in drawn:
            continue
        row, split = index.get(Path(name).name, {}), _split_of(name, index)
        into = loose if split is None else splits.setdefault(split, [])
        try:
            opened = encoding.open(source, data)
        except RegardError as wrong:
            remarks.append(f"{wrong}; left out")
            continue
        remarks += opened.remarks
        into.append(Piece(name, opened.content, row.get("composer", "")))
    if not any(splits.values()) and not loose:
        raise DataError(
            f"{path}: no {', '.join(SUFFIXES)} file in it can be read; {remarks[0] if remarks else 'it has none'}"
        )
    if loose:
        for name, pieces in split_pieces(loose, seed).items():
            splits[name] += pieces
    return MusicCollection(splits, tuple(remarks))


def _drawn_files(path: Path, index: dict[str, dict[str, str]], *, limit: int, seed: int | None) -> set[str]:
    """The names of the files that are read: `limit` of each split, and of those without one."""
    groups: dict[str | None, list[str]] = {}
    for name, _, _ in _files(path, []):
        groups.setdefault(_split_of(name, index), []).append(name)
    return {name for names in groups.values() for name in sample_names(names, limit, seed)}


def _split_of(name: str, index: dict[str, dict[str, str]]) -> str | None:
    first = Path(name).parts[0].split(".")[0]
    return index.get(Path(name).name, {}).get("split") or (first if first in SPLITS else None)


def _read_index(path: Path) -> dict[str, dict[str, str]]:
    """index.tsv with columns split, file, composer … -> its rows by file name."""
    index = path / "index.tsv"
    if not index.exists():
        return {}
    rows = list(csv.DictReader(read_lines(index), delimiter="\t"))
    if rows and "file" not in rows[0]:
        raise DataError(f"{index}: it has no column 'file'; the first line names the columns: split, file, composer")
    for number, row in enumerate(rows, start=2):
        if row.get("split") and row["split"] not in SPLITS:
            raise DataError(f"{index}:{number}: split {row['split']!r} is not one of {', '.join(SPLITS)}")
    return {Path(row["file"]).name: row for row in rows if row["file"]}


def _files(path: Path, remarks: list[str]) -> Iterator[tuple[str, Path, bytes | None]]:
    """Name, place and (inside an archive) bytes of every piece below a folder, in the order of names."""
    for file in sorted(path.rglob("*")):
        name = str(file.relative_to(path))
        if file.suffix.lower() in SUFFIXES:
            yield name, file, None
        elif file.name.endswith((".tar", ".tar.xz", ".tar.gz")):
            try:
                for inner, data in _members(file, remarks):
                    yield f"{name}/{inner}", file / inner, data
            except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError) as wrong:
                remarks.append(f"{file}: a broken archive ({wrong}); what is behind that is left out")


def _members(file: Path, remarks: list[str]) -> Iterator[tuple[str, bytes]]:
    """The MIDI files in an archive; links, which may lead anywhere, and what is no piece by its size are left out."""
    with tarfile.open(file) as archive:
        for member in archive:
            if Path(member.name).suffix.lower() not in (".mid", ".midi") or member.isdir():
                continue
            taken = archive.extractfile(member) if member.isreg() and member.size <= midi.MAX_FILE_BYTES else None
            if taken is None:
                why = f"{member.size:,} bytes" if member.isreg() else "a link, not a file"
                remarks.append(f"{file}/{member.name}: {why}; left out")
            else:
                yield member.name, taken.read()
