"""Memory-mapped parallel corpus: encoded once in bounded memory, then opened quickly by any number of processes.

A folder named after a hash of data and vocabulary holds four raw arrays (tokens and row edges of each side) and
`corpus.json` with their types and sizes. The folder is written atomically, so it is either complete or absent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from regard.core.errors import DataError
from regard.core.files import atomic_folder
from regard.data.text.pair_corpus import EncodedChunk, PairCorpus, Ragged, encode_chunks
from regard.data.text.pair_files import Pairs
from regard.data.text.tokenizer import Tokenizer

VERSION = 1
HEADER = "corpus.json"
ARRAYS = ("source.tokens", "source.edges", "target.tokens", "target.edges")
MAX_UINT16_VOCAB = 2**16  # a vocabulary up to this size needs two bytes per token


def load_or_build(pairs: Pairs, source: Tokenizer, target: Tokenizer, *, folder: Path) -> PairCorpus:
    """Sentence pairs -> their corpus, mapped from a subfolder of `folder`, which is created if it does not exist."""
    path = folder / _key(pairs, source, target)
    if not path.exists():
        vocab_size = max(source.vocab_size, target.vocab_size)
        chunks = _with_progress_bar(encode_chunks(pairs, source, target), pairs.where)
        with atomic_folder(path) as draft:
            _write(draft, chunks, dtype="<u2" if vocab_size <= MAX_UINT16_VOCAB else "<i4")
    return load(path)


def load(folder: Path) -> PairCorpus:
    """Open a folder written by `load_or_build`."""
    try:
        header: dict[str, Any] = json.loads((folder / HEADER).read_text(encoding="utf-8"))
        arrays = [_map(folder / name, header["arrays"][name]) for name in ARRAYS]
        corpus = PairCorpus(Ragged(*arrays[:2]), Ragged(*arrays[2:]), blank=int(header["blank"]))
        intact = header["version"] == VERSION
    except (OSError, ValueError, KeyError, TypeError):
        intact = False
    if not intact:
        raise DataError(f"{folder}: damaged or of another version; delete this folder, and it is created again")
    return corpus


def _map(path: Path, array: dict[str, Any]) -> Any:
    dtype = np.dtype(array["type"])
    if path.stat().st_size != dtype.itemsize * array["count"]:
        raise ValueError(f"{path} has an unexpected size")
    return np.memmap(path, dtype=dtype, mode="r") if array["count"] else np.zeros(0, dtype=dtype)


def _key(pairs: Pairs, source: Tokenizer, target: Tokenizer) -> str:
    sha = sha256(f"{VERSION} {pairs.key}".encode())
    for tokenizer in (source, target):
        sha.update(tokenizer.engine.to_str().encode())
    return sha.hexdigest()[:24]


def _write(folder: Path, chunks: Iterable[EncodedChunk], *, dtype: str) -> None:
    types = {name: dtype if name.endswith("tokens") else "<i8" for name in ARRAYS}
    files: dict[str, BinaryIO] = {name: (folder / name).open("wb") for name in ARRAYS}
    blank, ends = 0, {"source": 0, "target": 0}
    try:
        for side in ends:
            files[f"{side}.edges"].write(np.zeros(1, dtype="<i8").tobytes())
        for chunk in chunks:
            blank += chunk.blank
            for side, rows in (("source", chunk.source), ("target", chunk.target)):
                files[f"{side}.tokens"].write(rows.tokens.astype(dtype).tobytes())
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
    (folder / HEADER).write_text(json.dumps({"version": VERSION, "blank": blank, "arrays": arrays}), encoding="utf-8")


def _with_progress_bar(chunks: Iterable[EncodedChunk], where: str) -> Iterator[EncodedChunk]:
    """Yield the chunks and show the number of encoded pairs, if stderr is a terminal."""
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
