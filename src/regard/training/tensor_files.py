"""Safetensors files that contain their own checksum, so that any damage is detected when they are read.

The checksum is the SHA-256 of the file with 64 zeros in place of the checksum. It is part of the file, so that
replacing the file is one atomic move. A reader opens the file once and reads through that handle only: it sees the
file before or after a replacement, never a mix.
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

from regard.core.checksummed_json import CHECKSUM_PLACEHOLDER, MAX_JSON_BYTES, CorruptFile, JSONObject
from regard.core.errors import CheckpointError
from regard.core.files import atomic_write, open_regular

T = TypeVar("T")
_METADATA_KEY = "regard"  # key of the JSON metadata in the safetensors header
_BLOCK_BYTES = 1 << 20
_MAX_ATTEMPTS = 20  # to read a file that changes while it is read
_RETRY_DELAY_S = 0.05
_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "BOOL": torch.bool,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
}  # fmt: skip
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class TensorFileHeader(NamedTuple):
    """Header of a checksummed tensor file."""

    data_start: int  # offset of the tensor data
    entries: dict[str, Any]  # name -> dtype, shape, data_offsets
    metadata: JSONObject
    checksum: str
    checksum_offset: int  # position of the checksum in the file


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: JSONObject) -> None:
    """Write tensors, with metadata as JSON in the header, to a checksummed safetensors file."""
    contiguous = {name: tensors[name].detach().cpu().contiguous() for name in sorted(tensors)}
    ordered = sorted(
        contiguous, key=lambda name: -contiguous[name].element_size()
    )  # largest elements first, so that all tensors are aligned
    header: JSONObject = {
        "__metadata__": {_METADATA_KEY: json.dumps({"sha256": CHECKSUM_PLACEHOLDER.decode(), **metadata})}
    }
    end = 0
    for name in ordered:
        start, end = end, end + contiguous[name].numel() * contiguous[name].element_size()
        entry = {
            "dtype": _DTYPE_NAMES[contiguous[name].dtype],
            "shape": list(contiguous[name].shape),
            "data_offsets": [start, end],
        }
        header[name] = entry
    header_bytes = json.dumps(header, separators=(",", ":")).encode()
    header_bytes += b" " * (-len(header_bytes) % 8)
    sha = hashlib.sha256()
    with atomic_write(path) as part, part.open("wb") as file:
        blocks = (_bytes(contiguous[name]) for name in ordered)
        for block in (memoryview(len(header_bytes).to_bytes(8, "little")), memoryview(header_bytes), *blocks):
            sha.update(block)
            file.write(block)
        file.seek(header_bytes.index(CHECKSUM_PLACEHOLDER) + 8)
        file.write(sha.hexdigest().encode())


def _bytes(tensor: Tensor) -> memoryview:
    flat: memoryview = tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else memoryview(b"")
    return flat


def read_tensors(path: Path) -> tuple[dict[str, Tensor], JSONObject]:
    """Return the tensors and the metadata of a checksummed file; raise CorruptFile if it is damaged."""
    return _read(path, _tensors)


def read_metadata(path: Path) -> JSONObject:
    """Return the metadata of a tensor file after verifying its checksum."""
    return _read(path, _verified_metadata)


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor by name. Only the header is read."""
    return _read(path, lambda file: {name: _shape(entry) for name, entry in _header(file).entries.items()})


def _read(path: Path, reader: Callable[[BufferedReader], T]) -> T:
    """Apply `reader` to a consistent state of the file; errors name the file."""
    for _ in range(_MAX_ATTEMPTS):
        try:
            with open_regular(path) as file:
                before = _file_state(os.fstat(file.fileno()))
                try:
                    return reader(file)
                except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError) as error:
                    if before == _file_state(os.stat(path)) == _file_state(os.fstat(file.fileno())):
                        reason = f" ({error})" if isinstance(error, InconsistentFile) else ""
                        raise CorruptFile(
                            f"{path}: damaged or not written by regard{reason}; restore it from a copy"
                        ) from None
        except FileNotFoundError:
            raise CheckpointError(f"{path}: no such file") from None
        except OSError as error:
            raise CheckpointError(f"{path}: could not be read ({error.strerror})") from None
        time.sleep(_RETRY_DELAY_S)
    raise CheckpointError(f"{path}: the file changes while it is read; try again when the other process has finished")


class InconsistentFile(ValueError):
    """The content of a file contradicts its header or checksum."""


def _file_state(stat: os.stat_result) -> tuple[int, ...]:
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _header(file: BufferedReader) -> TensorFileHeader:
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if len(first) != 8 or length > MAX_JSON_BYTES:
        raise ValueError("no safetensors header")
    text = file.read(length)
    entries: dict[str, Any] = json.loads(text)
    metadata: JSONObject = json.loads(entries.pop("__metadata__")[_METADATA_KEY])
    checksum: str = metadata.pop("sha256")
    if len(checksum) != len(CHECKSUM_PLACEHOLDER):
        raise ValueError("no checksum")
    return TensorFileHeader(8 + length, entries, metadata, checksum, 8 + text.index(checksum.encode()))


def _shape(entry: dict[str, Any]) -> tuple[int, ...]:
    shape = tuple(entry["shape"])
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError("not a shape")
    return shape


def _verified_metadata(file: BufferedReader) -> JSONObject:
    header = _header(file)
    file.seek(0)
    sha = hashlib.sha256(file.read(header.checksum_offset) + CHECKSUM_PLACEHOLDER)
    file.seek(header.checksum_offset + len(CHECKSUM_PLACEHOLDER))
    while block := file.read(_BLOCK_BYTES):
        sha.update(block)
    _check_match(header, sha.hexdigest())
    return header.metadata


def _check_match(header: TensorFileHeader, checksum: str) -> None:
    if checksum != header.checksum:
        raise InconsistentFile("its checksum does not match")


def _tensors(file: BufferedReader) -> tuple[dict[str, Tensor], JSONObject]:
    header = _header(file)
    file.seek(0)
    size, memory = os.fstat(file.fileno()).st_size, _machine_memory()
    if size > header.data_start + max((entry["data_offsets"][1] for entry in header.entries.values()), default=0):
        raise InconsistentFile("it is longer than its header says")
    if size > memory:
        raise InconsistentFile(f"{size:,} bytes, but this machine has only {memory:,} bytes of memory")
    data = bytearray(size)
    view = memoryview(data)
    done = 0
    while count := file.readinto(view[done:]):
        done += count
    sha = hashlib.sha256(view[: header.checksum_offset])
    sha.update(CHECKSUM_PLACEHOLDER)
    sha.update(view[header.checksum_offset + len(CHECKSUM_PLACEHOLDER) :])
    _check_match(header, sha.hexdigest())
    return {name: _tensor(data, header, entry) for name, entry in header.entries.items()}, header.metadata


def _machine_memory() -> int:
    """Return the bytes of memory of this machine; a huge value if the system does not report them."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**62


def _tensor(data: bytearray, header: TensorFileHeader, entry: dict[str, Any]) -> Tensor:
    """Return a tensor that shares the memory of `data`."""
    shape, dtype = _shape(entry), _DTYPES[entry["dtype"]]
    start, end = entry["data_offsets"]
    count = math.prod(shape)
    if not 0 <= start <= end <= len(data) - header.data_start or end - start != count * dtype.itemsize:
        raise InconsistentFile("the offsets of a tensor do not match its shape")
    if not count:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype, count=count, offset=header.data_start + start).reshape(shape)
