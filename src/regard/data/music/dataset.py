"""Music datasets: the chorales of music21, JSON of the published chorale set, and folders or archives of files."""

from __future__ import annotations

import csv
import gzip
import hashlib
import importlib.util
import json
import lzma
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
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
MAX_JSON_BYTES = 256 * 2**20  # of chorales as JSON, unpacked
HELD_OUT_DIVISOR = 10  # 1 / 10 of the pieces is held out for valid, and 1 / 10 for test


class Piece(NamedTuple):
    """A piece in the content type of an encoding, with its name and composer."""

    name: str
    content: Any
    composer: str = ""


class MusicCollection(NamedTuple):
    """The pieces of each split, and remarks on corrected or skipped input, one line each."""

    splits: dict[str, list[Piece]]
    remarks: tuple[str, ...] = ()


class FileLosses(NamedTuple):
    """Number of notes of a file, and of those that the encoding cannot represent."""

    notes: int
    lost: int


def content_bytes(content: Any) -> bytes:
    """Return the content of a piece (a grid of voices, or a list of notes) as bytes for a checksum."""
    data: bytes = content.tobytes() if isinstance(content, np.ndarray) else repr(content).encode()
    return data


def load_collection(
    path: Path | None, encoding: Encoding, *, limit: int | None = None, seed: int | None = 1
) -> MusicCollection:
    """Load the pieces of a path, or the built-in chorales if it is None; at most `limit` per split, sampled by the
    seed.

    Pieces without a split are split by the seed; if the seed is None, every split has all of them.
    """
    if path is None:
        built_in = dict(_sorted_chorales(chorales(), encoding))
        sampled = sample_names(built_in, limit, seed)
        pieces = [Piece(name, built_in[name], "Bach") for name in built_in if name in sampled]
        return MusicCollection(split_pieces(pieces, seed))
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; give JSON or a folder of .mid files, or omit data.path")
    if path.is_file() and path.name.endswith((".json", ".json.gz")):
        return MusicCollection(_sample_splits(read_json(path, encoding), limit, seed))
    if path.is_dir():
        return _read_folder(path, encoding, limit=limit, seed=seed)
    raise DataError(f"{path}: neither JSON nor a folder; give Jsb16thSeparated.json.gz or a folder of .mid files")


def sample_names(names: Iterable[str], limit: int | None, seed: int | None) -> set[str]:
    """Sample at most `limit` names by a hash with the seed, so that a name's rank does not depend on the others."""
    unique = set(names)
    if limit is None or len(unique) <= limit:
        return unique
    salt = (seed or 0).to_bytes(8, "little")

    def hash_key(name: str) -> bytes:
        return hashlib.blake2b(name.encode(errors="surrogateescape"), salt=salt).digest()

    return set(sorted(unique, key=hash_key)[:limit])


def _sample_splits(splits: dict[str, list[Piece]], limit: int | None, seed: int | None) -> dict[str, list[Piece]]:
    sampled = {name: sample_names((piece.name for piece in pieces), limit, seed) for name, pieces in splits.items()}
    return {name: [piece for piece in pieces if piece.name in sampled[name]] for name, pieces in splits.items()}


def read_json(path: Path, encoding: Encoding) -> dict[str, list[Piece]]:
    """Read JSON of the form {"train": [[[S, A, T, B], …], …], "valid": …, "test": …}, with -1 for silence."""
    _check_grid_encoding(path, encoding)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(MAX_JSON_BYTES + 1)
        if len(content) > MAX_JSON_BYTES:
            raise DataError(f"{path}: more than {MAX_JSON_BYTES // 2**20} MB unpacked; chorales as JSON have a few")
        table = json.loads(content)
        splits = {name: [np.array(piece, dtype=np.int16) for piece in table[name]] for name in SPLITS}
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, RecursionError) as error:
        raise DataError(f"{path}: not chorales as JSON ({error!r}); it needs train, valid and test") from None
    for name, pieces in splits.items():
        for index, piece in enumerate(pieces):
            if piece.ndim != 2 or piece.shape[1] != len(grid_encoding.VOICE_NAMES) or not len(piece):
                raise DataError(f"{path}: {name} piece {index} has shape {piece.shape}; every step needs four voices")
    return {
        name: [Piece(f"{name} {index}", piece, "Bach") for index, piece in enumerate(pieces)]
        for name, pieces in splits.items()
    }


def _check_grid_encoding(where: object, encoding: Encoding) -> None:
    if encoding.name != grid_encoding.GridEncoding.name:
        raise DataError(
            f"{where}: a grid of four voices needs encoding='grid'; for {encoding.name} give a folder of .mid files"
        )


def chorales() -> dict[str, Voices]:
    """Return the four-part chorales of the music21 package by name; they are parsed once and then cached."""
    cached = files.cache_folder() / f"music21-{_music21_version()}-chorales.json"
    if not cached.exists():
        scores = {
            path.stem: grid_encoding.four_voice_grid(musicxml.read(path), resolution=4) for path in _music21_files()
        }
        table = {name: voices.tolist() for name, voices in scores.items() if voices is not None}
        files.write_text(cached, json.dumps(table, separators=(",", ":")))
    try:
        table = json.loads(cached.read_text(encoding="utf-8"))
        return {name: np.array(voices, dtype=np.int16).reshape(-1, 4) for name, voices in table.items()}
    except (OSError, ValueError, AttributeError):
        raise DataError(
            f"{cached}: the cached chorales are damaged; delete the file, and it is created again"
        ) from None


def _music21_version() -> str:
    try:
        return metadata.version("music21")
    except metadata.PackageNotFoundError:
        return "none"


def _music21_files() -> list[Path]:
    """Return the score files in the music21 package, without importing its (slow) reader."""
    package = importlib.util.find_spec("music21")
    if package is None or not package.submodule_search_locations:
        raise MissingExtra("the built-in chorales need music21, not installed; run: pip install 'regard[music]'")
    return sorted(Path(package.submodule_search_locations[0]).glob("corpus/bach/*.mxl"))


def _sorted_chorales(voices: dict[str, Voices], encoding: Encoding) -> list[tuple[str, Voices]]:
    _check_grid_encoding("the built-in chorales", encoding)
    return sorted(voices.items())


def split_pieces(pieces: list[Piece], seed: int | None) -> dict[str, list[Piece]]:
    """Assign one piece in ten to valid and one in ten to test, by a hash of the melody: copies share a split."""
    if seed is None:
        return {name: list(pieces) for name in SPLITS}
    splits: dict[str, list[Piece]] = {name: [] for name in SPLITS}
    for piece in pieces:
        digest = hashlib.blake2b(_opening_intervals(piece), digest_size=8, salt=seed.to_bytes(8, "little")).digest()
        bucket = int.from_bytes(digest, "little") % HELD_OUT_DIVISOR
        splits["valid" if bucket == 0 else "test" if bucket == 1 else "train"].append(piece)
    for name in ("train", "valid", "test"):  # a few pieces must still give three splits
        largest = max(splits, key=lambda split: len(splits[split]))
        if not splits[name] and len(splits[largest]) > 1:
            splits[name].append(splits[largest].pop())
    return splits


def _opening_intervals(piece: Piece) -> bytes:
    """Return the opening intervals of the melody, which transposed copies share; without a grid, the name."""
    if isinstance(piece.content, np.ndarray):
        line = piece.content[:64, 0].astype(np.int64)
        intervals: bytes = np.diff(line[line != grid_encoding.SILENT]).tobytes()
        return intervals
    return piece.name.encode()


def _read_folder(path: Path, encoding: Encoding, *, limit: int | None, seed: int | None) -> MusicCollection:
    index = _read_index(path)
    remarks: list[str] = []
    splits: dict[str, list[Piece]] = {name: [] for name in SPLITS}
    unassigned: list[Piece] = []
    losses: list[FileLosses] = []
    sampled = None if limit is None else _sample_files(path, index, limit=limit, seed=seed)
    for name, source, data in iter_files(path, remarks):
        if sampled is not None and name not in sampled:
            continue
        row, split = index.get(Path(name).name, {}), _split_of(name, index)
        target = unassigned if split is None else splits.setdefault(split, [])
        try:
            opened = encoding.open(source, data)
        except RegardError as error:
            remarks.append(f"{error}; skipped")
            continue
        remarks += opened.remarks
        losses.append(FileLosses(len(opened.parsed.notes), opened.num_lost))
        target.append(Piece(name, opened.content, row.get("composer", "")))
    if not any(splits.values()) and not unassigned:
        raise DataError(
            f"{path}: no {', '.join(SUFFIXES)} file in it can be read; {remarks[0] if remarks else 'it has none'}"
        )
    if unassigned:
        for name, pieces in split_pieces(unassigned, seed).items():
            splits[name] += pieces
    return MusicCollection(splits, (*_loss_remarks(losses, encoding), *remarks))


def _loss_remarks(losses: Sequence[FileLosses], encoding: Encoding) -> list[str]:
    """Return one line on the share of the notes that an encoding cannot represent, with the remedy."""
    num_lost, affected = sum(loss.lost for loss in losses), sum(loss.lost > 0 for loss in losses)
    if not num_lost:
        return []
    share = num_lost / sum(loss.notes for loss in losses)
    cause, remedy = (
        ("out of range, or more than four at once", "data.encoding=events keeps them")
        if encoding.name == grid_encoding.GridEncoding.name
        else ("out of the range of a piano", "transpose the files")
    )
    return [f"{num_lost:,} notes ({share:.1%}) in {affected} of {len(losses)} files are lost: {cause}; {remedy}"]


def _sample_files(path: Path, index: dict[str, dict[str, str]], *, limit: int, seed: int | None) -> set[str]:
    """Sample the names of the files to read: `limit` of each split, and `limit` of those without a split."""
    groups: dict[str | None, list[str]] = {}
    for name, _, _ in iter_files(path, []):
        groups.setdefault(_split_of(name, index), []).append(name)
    return {name for names in groups.values() for name in sample_names(names, limit, seed)}


def _split_of(name: str, index: dict[str, dict[str, str]]) -> str | None:
    top_folder = Path(name).parts[0].split(".")[0]
    return index.get(Path(name).name, {}).get("split") or (top_folder if top_folder in SPLITS else None)


def _read_index(path: Path) -> dict[str, dict[str, str]]:
    """Read index.tsv with columns split, file, composer … as rows by file name; empty if there is no such file."""
    index = path / "index.tsv"
    if not index.exists():
        return {}
    rows = list(csv.DictReader(read_lines(index), delimiter="\t"))
    if rows and "file" not in rows[0]:
        raise DataError(f"{index}: it has no column 'file'; the first line names the columns: split, file, composer")
    for line, row in enumerate(rows, start=2):
        if row.get("split") and row["split"] not in SPLITS:
            raise DataError(f"{index}:{line}: split {row['split']!r} is not one of {', '.join(SPLITS)}")
    return {Path(row["file"]).name: row for row in rows if row["file"]}


def iter_files(path: Path, remarks: list[str]) -> Iterator[tuple[str, Path, bytes | None]]:
    """Yield name, path and (inside an archive) bytes of every piece below a folder, sorted by name."""
    for file in sorted(path.rglob("*")):
        name = str(file.relative_to(path))
        if file.name.startswith("."):  # ._piece.mid of a Mac is not music
            continue
        if file.suffix.lower() in SUFFIXES:
            yield name, file, None
        elif file.name.endswith((".tar", ".tar.xz", ".tar.gz")):
            try:
                for inner, data in _members(file, remarks):
                    yield f"{name}/{inner}", file / inner, data
            except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError) as error:
                remarks.append(f"{file}: damaged archive ({error}); the rest of it is skipped")


def _members(file: Path, remarks: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield names and bytes of the MIDI files in an archive; links and files that are too large are skipped."""
    with tarfile.open(file) as archive:
        for member in archive:
            if Path(member.name).suffix.lower() not in (".mid", ".midi") or member.isdir():
                continue
            content = archive.extractfile(member) if member.isreg() and member.size <= midi.MAX_FILE_BYTES else None
            if content is None:
                reason = f"{member.size:,} bytes" if member.isreg() else "a link, not a file"
                remarks.append(f"{file}/{member.name}: {reason}; skipped")
            else:
                yield member.name, content.read()
