"""A corpus in memory-mapped files: encoded once, opened in an instant by any number of processes, in bounded memory.

A folder named after a hash of data and vocabulary holds four raw arrays (tokens and row edges of each side) and
`corpus.json` with their types and sizes. It is made beside and moved into place, so it is whole or not there.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from regard.core.errors import DataError
from regard.data.text.pair_corpus import EncodedChunk, PairCorpus, Ragged, encode_chunks
from regard.data.text.pair_files import Pairs
from regard.data.text.tokenizer import Tokenizer

VERSION = 1
HEADER = "corpus.json"
ARRAYS = ("source.tokens", "source.edges", "target.tokens", "target.edges")
MAX_UINT16_VOCAB = 2**16  # a vocabulary up to this size fits two bytes a token


def load_or_build(pairs: Pairs, source: Tokenizer, target: Tokenizer, *, folder: Path) -> PairCorpus:
    """Sentence pairs -> their corpus, mapped from files in `folder`, which are made if they are not there."""
    place = folder / _key(pairs, source, target)
    if not place.exists():
        _make(
            place,
            _watched(encode_chunks(pairs, source, target), pairs.where),
            vocabulary=max(source.vocab_size, target.vocab_size),
        )
    return load(place)


def load(folder: Path) -> PairCorpus:
    """A folder made by `mapped` -> the corpus."""
    try:
        header: dict[str, Any] = json.loads((folder / HEADER).read_text(encoding="utf-8"))
        arrays = [_map(folder / name, header["arrays"][name]) for name in ARRAYS]
        corpus = PairCorpus(Ragged(*arrays[:2]), Ragged(*arrays[2:]), blank=int(header["blank"]))
        whole = header["version"] == VERSION
    except (OSError, ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise DataError(f"{folder}: damaged or of another version; delete this folder, and it is made anew")
    return corpus


def _map(path: Path, facts: dict[str, Any]) -> Any:
    kind = np.dtype(facts["type"])
    if path.stat().st_size != kind.itemsize * facts["count"]:
        raise ValueError(f"{path} has another size")
    return np.memmap(path, dtype=kind, mode="r") if facts["count"] else np.zeros(0, dtype=kind)


def _key(pairs: Pairs, source: Tokenizer, target: Tokenizer) -> str:
    sha = sha256(f"{VERSION} {pairs.key}".encode())
    for tokenizer in (source, target):
        sha.update(tokenizer.engine.to_str().encode())
    return sha.hexdigest()[:24]


def _make(place: Path, chunks: Iterable[EncodedChunk], *, vocabulary: int) -> None:
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        part.mkdir(parents=True)
        _write(part, chunks, kind="<u2" if vocabulary <= MAX_UINT16_VOCAB else "<i4")
        if place.exists():  # another process was quicker
            return
        os.replace(part, place)
    except OSError as wrong:
        raise DataError(f"{place}: cannot be written: {wrong.strerror}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write(part: Path, chunks: Iterable[EncodedChunk], *, kind: str) -> None:
    types = {name: kind if name.endswith("tokens") else "<i8" for name in ARRAYS}
    files: dict[str, BinaryIO] = {name: (part / name).open("wb") for name in ARRAYS}
    blank, ends = 0, {"source": 0, "target": 0}
    try:
        for side in ends:
            files[f"{side}.edges"].write(np.zeros(1, dtype="<i8").tobytes())
        for chunk in chunks:
            blank += chunk.blank
            for side, rows in (("source", chunk.source), ("target", chunk.target)):
                files[f"{side}.tokens"].write(rows.tokens.astype(kind).tobytes())
                files[f"{side}.edges"].write((rows.edges[1:] + ends[side]).astype("<i8").tobytes())
                ends[side] += int(rows.edges[-1])
        sizes = {name: file.tell() // np.dtype(types[name]).itemsize for name, file in files.items()}
        for file in files.values():
            file.flush()
            os.fsync(file.fileno())
    finally:
        for file in files.values():
            file.close()
    arrays = {name: {"type": types[name], "count": sizes[name]} for name in ARRAYS}
    (part / HEADER).write_text(json.dumps({"version": VERSION, "blank": blank, "arrays": arrays}), encoding="utf-8")


def _watched(chunks: Iterable[EncodedChunk], where: str) -> Iterator[EncodedChunk]:
    """The chunks, with a bar that shows how many pairs have gone by; nothing where there is no terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} pairs"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(f"encoding {where}", total=None)
        for chunk in chunks:
            progress.advance(bar, chunk.source.num_rows + chunk.blank)
            yield chunk
