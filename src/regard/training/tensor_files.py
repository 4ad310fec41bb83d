"""Tensors in files that carry their own checksum, so that any damage is noticed when they are read.

The checksum is the SHA-256 of the file with 64 zeros where the checksum stands. Nothing beside the file is needed to
check it, so replacing it is one atomic move. A file is opened once and all of it is read through that one handle: a
reader sees the file before or after it was replaced, never both.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from regard.core.checksummed_json import (
    CHECKSUM_PLACEHOLDER,
    MAX_JSON_BYTES,
    CorruptFile,
    JSONObject,
    read_json,
    write_json,
)
from regard.core.errors import CheckpointError
from regard.core.files import atomic_write, open_regular

__all__ = [
    "CorruptFile",
    "JSONObject",
    "read_json",
    "read_metadata",
    "read_shapes",
    "read_tensors",
    "write_json",
    "write_tensors",
]

T = TypeVar("T")
_KEY = "regard"  # where the facts stand in the header of a safetensors file
_BLOCK = 1 << 20
_TRIES = 20  # a file that changes while it is read is read again, for so many times _PAUSE seconds
_PAUSE = 0.05
_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "BOOL": torch.bool,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class TensorFileHeader(NamedTuple):
    """The first bytes of a sealed tensor file."""

    data_start: int  # of all before the tensors' own bytes
    entries: dict[str, Any]  # name -> dtype, shape, where its bytes are
    metadata: JSONObject
    checksum: str
    checksum_offset: int  # of the seal in the file


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: JSONObject) -> None:
    """A sealed safetensors file with the tensors, and the facts as JSON in its header."""
    whole = {name: tensors[name].detach().cpu().contiguous() for name in sorted(tensors)}
    ordered = sorted(whole, key=lambda name: -whole[name].element_size())  # so that each is aligned
    header: JSONObject = {"__metadata__": {_KEY: json.dumps({"sha256": CHECKSUM_PLACEHOLDER.decode(), **metadata})}}
    end = 0
    for name in ordered:
        begin, end = end, end + whole[name].numel() * whole[name].element_size()
        entry = {"dtype": _NAMES[whole[name].dtype], "shape": list(whole[name].shape), "data_offsets": [begin, end]}
        header[name] = entry
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    sha = hashlib.sha256()
    with atomic_write(path) as part, part.open("wb") as file:
        blocks = (_bytes(whole[name]) for name in ordered)
        for block in (memoryview(len(text).to_bytes(8, "little")), memoryview(text), *blocks):
            sha.update(block)
            file.write(block)
        file.seek(text.index(CHECKSUM_PLACEHOLDER) + 8)
        file.write(sha.hexdigest().encode())


def _bytes(tensor: Tensor) -> memoryview:
    flat: memoryview = tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else memoryview(b"")
    return flat


def read_tensors(path: Path) -> tuple[dict[str, Tensor], JSONObject]:
    """The tensors and facts of a sealed file; a damaged or foreign one is named, never loaded."""
    return _read(path, _tensors)


def read_metadata(path: Path) -> JSONObject:
    """The facts of a sealed tensor file, after its checksum was found right."""
    return _read(path, _checked_facts)


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Name -> shape of each tensor, by the header alone: little is read and nothing is allocated."""
    return _read(path, lambda file: {name: _shape(entry) for name, entry in _header(file).entries.items()})


def _read(path: Path, reader: Callable[[BufferedReader], T]) -> T:
    """What a reader makes of a file, which it sees as it is at one moment; errors name the file."""
    for _ in range(_TRIES):
        try:
            with open_regular(path) as file:
                before = _state(os.fstat(file.fileno()))
                try:
                    return reader(file)
                except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError) as wrong:
                    if before == _state(os.stat(path)) == _state(os.fstat(file.fileno())):
                        reason = f" ({wrong})" if isinstance(wrong, InconsistentFile) else ""
                        raise CorruptFile(
                            f"{path}: damaged or not written by regard{reason}; restore it from a copy"
                        ) from None
        except FileNotFoundError:
            raise CheckpointError(f"{path}: no such file") from None
        except OSError as wrong:
            raise CheckpointError(f"{path}: could not be read ({wrong.strerror})") from None
        time.sleep(_PAUSE)
    raise CheckpointError(f"{path}: it changes while it is read; try again when whatever writes it has finished")


class InconsistentFile(ValueError):
    """What is in a file contradicts itself."""


def _state(facts: os.stat_result) -> tuple[int, ...]:
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _header(file: BufferedReader) -> TensorFileHeader:
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if len(first) != 8 or length > MAX_JSON_BYTES:
        raise ValueError("no safetensors header")
    text = file.read(length)
    entries: dict[str, Any] = json.loads(text)
    facts: JSONObject = json.loads(entries.pop("__metadata__")[_KEY])
    seal: str = facts.pop("sha256")
    if len(seal) != len(CHECKSUM_PLACEHOLDER):
        raise ValueError("no seal")
    return TensorFileHeader(8 + length, entries, facts, seal, 8 + text.index(seal.encode()))


def _shape(entry: dict[str, Any]) -> tuple[int, ...]:
    shape = tuple(entry["shape"])
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError("not a shape")
    return shape


def _checked_facts(file: BufferedReader) -> JSONObject:
    header = _header(file)
    file.seek(0)
    sha = hashlib.sha256(file.read(header.checksum_offset) + CHECKSUM_PLACEHOLDER)
    file.seek(header.checksum_offset + len(CHECKSUM_PLACEHOLDER))
    while block := file.read(_BLOCK):
        sha.update(block)
    _match(header, sha.hexdigest())
    return header.metadata


def _match(header: TensorFileHeader, found: str) -> None:
    if found != header.checksum:
        raise InconsistentFile("its checksum does not match")


def _tensors(file: BufferedReader) -> tuple[dict[str, Tensor], JSONObject]:
    header = _header(file)
    file.seek(0)
    size, memory = os.fstat(file.fileno()).st_size, _memory()
    if size > header.data_start + max((entry["data_offsets"][1] for entry in header.entries.values()), default=0):
        raise InconsistentFile("there is more in it than its header says")
    if size > memory:
        raise InconsistentFile(f"{size:,} bytes, and this machine has a memory of {memory:,}")
    data = bytearray(size)
    view = memoryview(data)
    done = 0
    while count := file.readinto(view[done:]):
        done += count
    sha = hashlib.sha256(view[: header.checksum_offset])
    sha.update(CHECKSUM_PLACEHOLDER)
    sha.update(view[header.checksum_offset + len(CHECKSUM_PLACEHOLDER) :])
    _match(header, sha.hexdigest())
    return {name: _tensor(data, header, entry) for name, entry in header.entries.items()}, header.metadata


def _memory() -> int:
    """Bytes of memory of this machine; where it does not say, more than any."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**62


def _tensor(data: bytearray, header: TensorFileHeader, entry: dict[str, Any]) -> Tensor:
    """A tensor over its part of the file's bytes; nothing is copied."""
    shape, dtype = _shape(entry), _DTYPES[entry["dtype"]]
    begin, end = entry["data_offsets"]
    count = math.prod(shape)
    if not 0 <= begin <= end <= len(data) - header.data_start or end - begin != count * dtype.itemsize:
        raise InconsistentFile("a tensor is not where the header says")
    if not count:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype, count=count, offset=header.data_start + begin).reshape(shape)
